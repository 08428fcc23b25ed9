package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// compress gives b in every codec, and in the framing of Java clients.
func compress(t testing.TB, b []byte) map[string]compressed {
	t.Helper()
	var gz, l, z bytes.Buffer
	gw := gzip.NewWriter(&gz)
	lw := lz4.NewWriter(&l)
	zw, err := zstd.NewWriter(&z)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []interface {
		Write([]byte) (int, error)
		Close() error
	}{gw, lw, zw} {
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	xerial := []byte(xerialMagic + "\x00\x00\x00\x01\x00\x00\x00\x01")
	for rest := b; len(rest) > 0; {
		n := min(len(rest), 32<<10)
		block := s2.EncodeSnappy(nil, rest[:n])
		xerial = append(binary.BigEndian.AppendUint32(xerial, uint32(len(block))), block...)
		rest = rest[n:]
	}
	one, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]compressed{
		"gzip": {codecGzip, gz.Bytes()}, "lz4": {codecLZ4, l.Bytes()}, "zstd stream": {codecZstd, z.Bytes()},
		"zstd block": {codecZstd, one.EncodeAll(b, nil)},
		"snappy":     {codecSnappy, s2.EncodeSnappy(nil, b)}, "snappy framed": {codecSnappy, xerial},
	}
}

type compressed struct {
	codec codec
	b     []byte
}

func noCharge(int64) error { return nil }

func TestEveryCompressionIsUndone(t *testing.T) {
	for _, size := range []int{0, 1, 1000, 100_000, 3 << 20} {
		b := bytes.Repeat([]byte("some text that compresses, "), size/27+1)[:size]
		for name, c := range compress(t, b) {
			f := newInflater(4<<20, 1, new(buffers))
			for range 2 { // the second time with a decoder that was used before
				got, err := f.inflate(c.codec, c.b, f.max, noCharge)
				if err != nil || !bytes.Equal(got.b, b) {
					t.Errorf("%s of %d bytes: %v", name, size, err)
				}
			}
		}
	}
}

func TestABombIsRefusedAndPaidForAsItGrows(t *testing.T) {
	const most = 1 << 20
	for _, size := range []int{most, most + 1, 16 << 20} {
		for name, c := range compress(t, make([]byte, size)) {
			charged := int64(0)
			charge := func(n int64) error { charged += n; return nil }
			f := newInflater(most, 1, new(buffers))
			got, err := f.inflate(c.codec, c.b, most, charge)
			if size <= most {
				if err != nil || len(got.b) != size {
					t.Errorf("%s at the bound: %v", name, err)
				}
				continue
			}
			var refused *failure
			if !errors.As(err, &refused) || refused.code != codeMessageTooLarge {
				t.Errorf("%s of %d bytes: %v", name, size, err)
			}
			if charged > 2*most {
				t.Errorf("%s of %d bytes: charged %d", name, size, charged)
			}
		}
	}
}

func TestNothingIsInflatedThatIsNotPaidFor(t *testing.T) {
	broke := errors.New("no memory")
	for name, c := range compress(t, make([]byte, 1<<20)) {
		f := newInflater(4<<20, 1, new(buffers))
		left := int64(200_000)
		_, err := f.inflate(c.codec, c.b, f.max, func(n int64) error {
			if left -= n; left < 0 {
				return &failure{code: codeRequestTimedOut, text: "no", err: broke}
			}
			return nil
		})
		if !errors.Is(err, broke) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCompressedBytesThatAreBrokenAreCorrupt(t *testing.T) {
	b := bytes.Repeat([]byte("some text that compresses, "), 5000)
	for name, c := range compress(t, b) {
		f := newInflater(4<<20, 1, new(buffers))
		for _, broken := range [][]byte{c.b[:len(c.b)/2], c.b[:5], append([]byte{0xff}, c.b...)} {
			got, err := f.inflate(c.codec, broken, f.max, noCharge)
			if err == nil && bytes.Equal(got.b, b) {
				t.Errorf("%s: broken bytes gave the whole", name)
			}
			var refused *failure
			if err != nil && !errors.As(err, &refused) {
				t.Errorf("%s: %v has no code", name, err)
			}
		}
	}
}
