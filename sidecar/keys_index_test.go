package sidecar

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/internal/golden"
	"felix.local/felix/internal/simdisk"
)

func keysOf(t testing.TB, entries ...KeyEntry) []byte {
	t.Helper()
	b, err := KeysIndex{KeysHeader: KeysHeader{CoveredThrough: 9}, Entries: entries}.AppendTo(nil)
	must(t, err)
	return b
}

func TestWhatAnIndexOfKeysSaysIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		file []byte
		want *KeysSummary
	}{
		"none":  {nil, nil},
		"empty": {golden.Bytes(t, "keys.idx-empty"), &KeysSummary{}},
		"two keys": {golden.Bytes(t, "keys.idx"), &KeysSummary{
			KeysHeader: sampleKeys.KeysHeader, Entries: 2, OffsetMin: 2, OffsetMax: 3,
		}},
		"by length, then by bytes": {
			keysOf(t, KeyEntry{Key: "", Offset: 7}, KeyEntry{Key: "z", Offset: 4}, KeyEntry{Key: "aa", Offset: 5}, KeyEntry{Key: "ab", Offset: 8}),
			&KeysSummary{KeysHeader: KeysHeader{CoveredThrough: 9}, Entries: 4, OffsetMin: 4, OffsetMax: 8},
		},
	} {
		d := newDisk(t, nil)
		if c.file != nil {
			must(t, Replace(d, d.NewQueue(simdisk.QueueOptions{}), dir, KeysIndexName, c.file, perm, true))
		}
		got, err := LoadKeysIndex(d, dir)
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

func TestADamagedIndexOfKeysIsToldWithItsPath(t *testing.T) {
	d := newDisk(t, nil)
	queue := d.NewQueue(simdisk.QueueOptions{})
	whole := golden.Bytes(t, "keys.idx")
	for n := range len(whole) {
		must(t, Replace(d, queue, dir, KeysIndexName, whole[:n], perm, true))
		s, err := LoadKeysIndex(d, dir)
		var undecoded *DecodeError
		if s != nil || !errors.As(err, &undecoded) || undecoded.Path != dir+"/"+KeysIndexName || !errors.Is(err, ErrShort) {
			t.Errorf("%d bytes: %+v, %v", n, s, err)
		}
	}
	must(t, Replace(d, queue, dir, KeysIndexName, whole, perm, true))
	for kind, errno := range map[faultdisk.Kinds]syscall.Errno{faultdisk.Open: syscall.EMFILE, faultdisk.Read: syscall.EIO} {
		disk := faultdisk.New(d, queue, faultdisk.Options{})
		disk.Inject(faultdisk.Fault{Kinds: kind, Errno: errno})
		if s, err := LoadKeysIndex(disk.FS(), dir); s != nil || !errors.Is(err, errno) || !strings.Contains(err.Error(), KeysIndexName) {
			t.Errorf("%v: %+v, %v", kind, s, err)
		}
	}
	if s, err := LoadKeysIndex(shrunkFS{d}, dir); s != nil || err == nil {
		t.Errorf("a file that shrinks: %+v, %v", s, err)
	}
}

func TestAKeyThatCouldNotBeReadBackIsNotWritten(t *testing.T) {
	for name, entries := range map[string][]KeyEntry{
		"twice":       {{Key: "a"}, {Key: "a"}},
		"falling":     {{Key: "b"}, {Key: "a"}},
		"long before": {{Key: "aa"}, {Key: "b"}},
		"not UTF-8":   {{Key: "\xff"}},
		"too long":    {{Key: strings.Repeat("k", 64<<20)}},
	} {
		b, err := KeysIndex{Entries: entries}.AppendTo([]byte("head"))
		if !errors.Is(err, ErrContent) || string(b) != "head" {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
}

// A large index is read through a buffer of a fixed size.
func TestAnIndexOfManyKeysIsNotHeld(t *testing.T) {
	var entries []KeyEntry
	for i := range 50_000 {
		entries = append(entries, KeyEntry{Key: fmt.Sprintf("key %010d", i), Offset: uint64(i % 9)})
	}
	b := keysOf(t, entries...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	count := 0
	_, err := scanKeys(bytes.NewReader(b), int64(len(b)), func([]byte, KeyEntry) { count++ })
	runtime.ReadMemStats(&after)
	if err != nil || count != len(entries) {
		t.Fatalf("%d keys, %v", count, err)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<10 {
		t.Errorf("%d bytes were allocated for a file of %d", grown, len(b))
	}
	// A reader that ends early is no short file.
	_, err = scanKeys(bytes.NewReader(b[:len(b)/2]), int64(len(b)), func([]byte, KeyEntry) {})
	var undecoded *DecodeError
	if !errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &undecoded) {
		t.Error(err)
	}
}
