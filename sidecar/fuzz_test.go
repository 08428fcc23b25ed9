package sidecar

import (
	"bytes"
	"errors"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"felix.local/felix/internal/golden"
)

// fuzzDecoder reads arbitrary bytes as one kind of file; with sealed set, the
// checksum is made right first. exact says that a file has one spelling: what is
// read is written back as it was.
func fuzzDecoder(f *testing.F, file string, exact bool) {
	c := codecs()[file]
	for name := range goldenValues() {
		if strings.HasPrefix(name, file) {
			b := golden.Bytes(f, name)
			f.Add(b, false)
			f.Add(b[:len(b)-1], true)
			f.Add(append(b, b...), true)
		}
	}
	f.Add([]byte{}, false)
	f.Add(make([]byte, 64), true)
	f.Fuzz(func(t *testing.T, b []byte, sealed bool) {
		if b = bytes.Clone(b); sealed {
			b = seal(file, b)
		}
		before := bytes.Clone(b)
		v, err := c.decode(b)
		if !bytes.Equal(b, before) {
			t.Fatal("the input was changed")
		}
		if err != nil {
			var undecoded *DecodeError
			if !errors.As(err, &undecoded) || undecoded.File != file || undecoded.Problem == nil || err.Error() == "" {
				t.Fatalf("%#v", err)
			}
			return
		}
		again := c.encode(v)
		if back := mustDecode(t, c, again); !cmp.Equal(v, back, values) {
			t.Fatalf("%+v came back as %+v", v, back)
		}
		if exact && !bytes.Equal(again, b) {
			t.Fatalf("%x came back as %x", b, again)
		}
		if file == EpochsName && !bytes.HasPrefix(b, again) {
			t.Fatalf("%x came back as %x", b, again)
		}
	})
}

func FuzzDecodeEpochs(f *testing.F)       { fuzzDecoder(f, "epochs", false) }
func FuzzDecodeReplica(f *testing.F)      { fuzzDecoder(f, "replica", true) }
func FuzzDecodeBallot(f *testing.F)       { fuzzDecoder(f, "ballot", true) }
func FuzzDecodeOffload(f *testing.F)      { fuzzDecoder(f, OffloadName, true) }
func FuzzDecodeKeysIndex(f *testing.F)    { fuzzDecoder(f, KeysIndexName, true) }
func FuzzDecodeStorageID(f *testing.F)    { fuzzDecoder(f, "storage-id", false) }
func FuzzDecodeRunState(f *testing.F)     { fuzzDecoder(f, "run-state", true) }
func FuzzDecodeRegistration(f *testing.F) { fuzzDecoder(f, "registration", false) }
func FuzzDecodeNodeID(f *testing.F)       { fuzzDecoder(f, "node-id", false) }
func FuzzDecodeMarker(f *testing.F)       { fuzzDecoder(f, "marker", false) }

func TestDecodingAllocatesNoMoreThanAFileMayHold(t *testing.T) {
	// Long files that claim as much as they can.
	hostile := map[string][]byte{
		"epochs":  seal("epochs", append([]byte("FLEP\x00\x01\xff\xff\x00\x00\x00\x00"), make([]byte, 1<<20)...)),
		"ballot":  seal("ballot", append([]byte("FLBL\x00\x01\xff\xff"), make([]byte, 8+1<<16-1+4)...)),
		"marker":  []byte("version 1\n" + strings.Repeat("incarnation 1\n", 1<<16)),
		"node-id": bytes.Repeat([]byte("x"), 1<<20),
	}
	const bound = 32 << 10
	for file, c := range codecs() {
		b := hostile[file]
		if b == nil {
			b = append(golden.Bytes(t, anyGolden(t, file)), make([]byte, 1<<20)...)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := c.decode(b)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: a hostile file decodes", file)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > bound {
			t.Errorf("%s: %d bytes were allocated for a file of %d", file, grown, len(b))
		}
	}
}

// anyGolden is the first golden file of a kind.
func anyGolden(t testing.TB, file string) string {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(goldenValues())) {
		if strings.HasPrefix(name, file) {
			return name
		}
	}
	t.Fatalf("there is no golden %s", file)
	return ""
}
