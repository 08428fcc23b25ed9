package bench

import (
	"encoding/hex"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func TestPayloadOfOffset5Length40IsTheGoldenVector(t *testing.T) {
	got := AppendPayload(nil, 5, 40)
	want := "felix-record-00000000000000000005-"
	if string(got[:34]) != want {
		t.Errorf("text is %q, want %q", got[:34], want)
	}
	if tail := hex.EncodeToString(got[34:]); tail != "2728292a2b2c" {
		t.Errorf("bytes after the text are %s", tail)
	}
}

func TestPayloadBytesFollowTheOffsetModulo251(t *testing.T) {
	got := AppendPayload(nil, 251*4+7, 300)
	for i := PayloadBytesMin; i < 300; i++ {
		if want := byte((7 + i) % 256); got[i] != want {
			t.Fatalf("byte %d is %d, want %d", i, got[i], want)
		}
	}
}

func TestEveryChangedPayloadIsRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		offset := rapid.Uint64().Draw(t, "offset")
		n := rapid.IntRange(PayloadBytesMin, 400).Draw(t, "bytes")
		payload := AppendPayload(nil, offset, n)
		if err := CheckPayload(payload, offset, n); err != nil {
			t.Fatal(err)
		}
		at := rapid.IntRange(0, n-1).Draw(t, "changed byte")
		payload[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
		var refused *PayloadError
		if err := CheckPayload(payload, offset, n); !errors.As(err, &refused) || refused.Offset != offset {
			t.Fatalf("a payload with byte %d changed gave %v", at, err)
		}
		if err := CheckPayload(payload[:n-1], offset, n); err == nil {
			t.Fatal("a payload one byte short was accepted")
		}
	})
}
