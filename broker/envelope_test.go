package broker

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drawMessage gives any message that a kafka stream can hold.
func drawMessage(t *rapid.T) Message {
	optional := func(label string) []byte {
		if rapid.Bool().Draw(t, label+" is null") {
			return nil
		}
		return append([]byte{}, rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, label)...)
	}
	m := Message{Key: optional("key"), Value: optional("value")}
	for range rapid.IntRange(0, 5).Draw(t, "headers") {
		m.Headers = append(m.Headers, Header{Key: rapid.String().Draw(t, "header"), Value: optional("header value")})
	}
	return m
}

func TestAnEnvelopeGivesBackTheMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMessage(t)
		prefix := rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(t, "prefix")
		b := AppendEnvelope(bytes.Clone(prefix), &m)
		if !bytes.Equal(b[:len(prefix)], prefix) {
			t.Fatal("what was in front has changed")
		}
		b = b[len(prefix):]
		if len(b) > envelopeSize(&m) {
			t.Fatalf("%d bytes, and envelopeSize says at most %d", len(b), envelopeSize(&m))
		}
		got, err := ParseEnvelope(b)
		if err != nil {
			t.Fatal(err)
		}
		// nil and empty are two things, which cmp tells apart.
		if diff := cmp.Diff(m, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// goldenEnvelope is one case of testdata/envelopes.json. Null is told apart from
// empty by the field's absence.
type goldenEnvelope struct {
	Name    string         `json:"name"`
	Key     *string        `json:"key,omitempty"`
	Value   *string        `json:"value,omitempty"`
	Headers []goldenHeader `json:"headers,omitempty"`
	Bytes   string         `json:"bytes"`
}

type goldenHeader struct {
	Key   string  `json:"key"`
	Value *string `json:"value,omitempty"`
}

func (g goldenEnvelope) message() Message {
	m := Message{Key: optionalBytes(g.Key), Value: optionalBytes(g.Value)}
	for _, h := range g.Headers {
		m.Headers = append(m.Headers, Header{Key: h.Key, Value: optionalBytes(h.Value)})
	}
	return m
}

func optionalBytes(s *string) []byte {
	if s == nil {
		return nil
	}
	return []byte(*s)
}

func goldenEnvelopes(t testing.TB) []goldenEnvelope {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "envelopes.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []goldenEnvelope
	if err := json.Unmarshal(b, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 8 {
		t.Fatalf("only %d cases", len(cases))
	}
	return cases
}

func TestAnEnvelopeIsTheseBytesForEver(t *testing.T) {
	for _, g := range goldenEnvelopes(t) {
		t.Run(g.Name, func(t *testing.T) {
			m := g.message()
			if got := hex.EncodeToString(AppendEnvelope(nil, &m)); got != g.Bytes {
				t.Errorf("encoded as\n%s, want\n%s", got, g.Bytes)
			}
			b, err := hex.DecodeString(g.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			got, err := ParseEnvelope(b)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(m, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatIsNoEnvelopeIsRefused(t *testing.T) {
	for what, text := range map[string]string{
		"nothing": "", "one byte": "01", "two bytes": "0100", "version 0": "000000", "version 2": "020000", "text": "68656c6c6f",
		"unknown flag": "010400", "high flag": "018000", "key past the end": "010105", "key cut off": "01010261", "no headers": "01010161",
		"endless varint": "0100ffffffffffffffffffff", "header count past the end": "01000a00", "header cut off": "0100010161",
		"header value past the end": "01000101610961", "value after a null value": "01020061", "huge key": "0101ffffffffffffffff7f",
		"2^63 headers": "010080808080808080808001", "huge header value": "010001016180808080808080808001",
		"length that wraps": "0101ffffffffffffffffff01",
	} {
		t.Run(what, func(t *testing.T) {
			b, err := hex.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			m, err := ParseEnvelope(b)
			if err == nil {
				t.Fatalf("read as %+v", m)
			}
			if m.Key != nil || m.Value != nil || m.Headers != nil {
				t.Errorf("something came with the error: %+v", m)
			}
		})
	}
}

func TestEveryPrefixOfAnEnvelopeHeadIsRefused(t *testing.T) {
	value := Message{Key: []byte("key"), Headers: []Header{{"h", []byte("v")}, {"null", nil}}}
	b := AppendEnvelope(nil, &value) // a null value: nothing may be missing
	for n := range b {
		if m, err := ParseEnvelope(b[:n]); err == nil {
			t.Errorf("%d of %d bytes are read as %+v", n, len(b), m)
		}
	}
}

// A header takes two bytes or more, so that a count alone makes nothing large. The
// bound leaves room for what others allocate meanwhile.
func TestAHeaderCountAllocatesNoMoreThanTheBytesBehindIt(t *testing.T) {
	b := []byte{envelopeVersion, 0}
	b = binary.AppendUvarint(b, 1<<24)
	b = append(b, make([]byte, 100)...)
	if allocated := allocatedBytes(func() { _, _ = ParseEnvelope(b) }); allocated > 64<<20 {
		t.Errorf("%d bytes were allocated for an envelope of %d", allocated, len(b))
	}
}

func FuzzEnvelope(f *testing.F) {
	for _, g := range goldenEnvelopes(f) {
		b, err := hex.DecodeString(g.Bytes)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("\x01\x01\xff\xff\xff\xff\x0f"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseEnvelope(b)
		if err != nil {
			return
		}
		if len(m.Headers) > len(b)/2 || len(m.Key)+len(m.Value) > len(b) {
			t.Fatalf("%d headers and %d bytes out of %d bytes", len(m.Headers), len(m.Key)+len(m.Value), len(b))
		}
		again, err := ParseEnvelope(AppendEnvelope(nil, &m))
		if err != nil {
			t.Fatalf("%+v does not read back: %v", m, err)
		}
		if diff := cmp.Diff(m, again); diff != "" {
			t.Fatal(diff)
		}
	})
}
