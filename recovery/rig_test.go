package recovery

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/segment"
)

// spacing makes indexes of more than one entry out of small segments.
const spacing = 256

// inline carries every op out on the submitting goroutine. It leaves flushes out:
// the tests look at what is asked of a disk, and read from its cache.
type inline struct{}

func (inline) Submit(ops ...*device.Op) {
	for _, op := range ops {
		op.Prepare()
		op.Pieces = 1
		if op.Kind == device.Flush || op.Kind == device.FlushAll {
			op.Complete(0, nil)
			continue
		}
		kind := op.Kind
		op.Kind = device.Write
		n, err := op.File.Perform(op)
		op.Kind = kind
		op.Complete(n, err)
	}
}

func (inline) Stats() device.QueueStats { return device.QueueStats{Backend: "inline"} }
func (inline) Close() error             { return nil }

func osDisk() Disk { return Disk{FS: device.OS(), Queue: inline{}} }

func testPolicy() Policy {
	return Policy{IndexSpacingBytes: spacing, NowMicros: func() uint64 { return 1_700_000_000_000_000 }}
}

// shard builds a directory.
type shard struct {
	t   testing.TB
	dir string
	// unread says that the log holds damage that an open does not look for.
	unread bool
}

func newShard(t testing.TB) *shard {
	return &shard{t: t, dir: filepath.Join(fastDir(t), "shard")}
}

// fastDir is a directory in memory, where there is one: thousands of small
// directories are made here, and no test in this package cuts power.
func fastDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "recovery")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (s *shard) path(name string) string { return filepath.Join(s.dir, name) }

func (s *shard) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// write puts a file into the directory.
func (s *shard) write(name string, b []byte) {
	s.t.Helper()
	s.must(os.MkdirAll(s.dir, 0o750))
	s.must(os.WriteFile(s.path(name), b, 0o640))
}

func (s *shard) read(name string) []byte {
	s.t.Helper()
	b, err := os.ReadFile(s.path(name))
	s.must(err)
	return b
}

func (s *shard) mark(id uint64, synced int) {
	s.write(MarkName, Mark{Segment: id, Synced: int64(synced)}.AppendTo(nil))
}

// payloadOf is 40 bytes that name the offset.
func payloadOf(offset uint64) []byte {
	return fmt.Appendf(nil, "record %020d ............", offset)
}

const recordBytes = segment.RecordHeaderSize + 40

// at is the position of the nth record of a segment from segmentBytes.
func at(n int) int { return segment.HeaderSize + n*recordBytes }

func headerBytes(base uint64) []byte {
	return segment.Header{Version: segment.VersionDefault, BaseOffset: base, CreatedAtMicros: 1}.AppendTo(nil)
}

func appendRecord(b []byte, offset uint64, payload []byte) []byte {
	start := len(b)
	b = append(b, make([]byte, segment.EncodedSize(segment.Mark{}, len(payload)))...)
	segment.EncodeRecord(b[start:], offset, 1000+offset, segment.Mark{}, payload)
	return b
}

// segmentBytes is a segment with n records.
func segmentBytes(base uint64, n int) []byte {
	b := headerBytes(base)
	for i := range n {
		b = appendRecord(b, base+uint64(i), payloadOf(base+uint64(i)))
	}
	return b
}

// indexOf is the index that appending would leave for the intact records in b.
func indexOf(b []byte, spacing int64) []byte {
	result, err := segment.Scan(bytes.NewReader(b), int64(len(b)), segment.ScanOptions{Spacing: spacing})
	if err != nil {
		return nil
	}
	return segment.EncodeIndex(result.Header.BaseOffset, result.Entries)
}

// put writes a segment and its index.
func (s *shard) put(id uint64, b []byte) []byte {
	s.t.Helper()
	s.write(segment.LogName(id), b)
	if index := indexOf(b, spacing); index != nil {
		s.write(segment.IndexName(id), index)
	}
	return b
}

// sealed puts segments of five records each, ids and offsets from zero on, and
// gives the offset that follows.
func (s *shard) sealed(n int) uint64 {
	s.t.Helper()
	for id := range uint64(n) {
		s.put(id, segmentBytes(id*5, 5))
	}
	return uint64(n) * 5
}

// state is every file of a directory with its content.
func (s *shard) state() map[string]string {
	s.t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return files
	}
	s.must(err)
	for _, e := range entries {
		if !e.Type().IsRegular() {
			files[e.Name()] = e.Type().String()
			continue
		}
		files[e.Name()] = string(s.read(e.Name()))
	}
	return files
}

// digest is a short text for comparing states.
func digest(files map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(mapKeys(files)) {
		fmt.Fprintf(&b, "%s %d %x\n", name, len(files[name]), sha256.Sum256([]byte(files[name])))
	}
	return b.String()
}

func mapKeys(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func (s *shard) copy() *shard {
	s.t.Helper()
	to := newShard(s.t)
	s.must(os.MkdirAll(to.dir, 0o750))
	for name, content := range s.state() {
		if info, err := os.Lstat(s.path(name)); err == nil && info.Mode().IsRegular() {
			to.write(name, []byte(content))
		}
	}
	return to
}

func (s *shard) plan(p Policy) *Plan {
	s.t.Helper()
	snapshot, err := Inspect(device.OS(), s.dir, "orders/0", p)
	s.must(err)
	return Decide(snapshot, p)
}

// log reads all records of the segments in the directory and checks that they
// are one row without gaps.
func (s *shard) log() (records map[uint64]string, first, next uint64) {
	s.t.Helper()
	records = map[uint64]string{}
	entries, err := os.ReadDir(s.dir)
	s.must(err)
	started := false
	for _, e := range entries {
		if _, ok := segment.ParseLogName(e.Name()); !ok {
			continue
		}
		b := s.read(e.Name())
		result, err := segment.Scan(bytes.NewReader(b), int64(len(b)), segment.ScanOptions{Each: func(_ int64, r segment.Record) error {
			records[r.Offset] = string(r.Payload)
			return nil
		}})
		if s.unread && err == nil {
			continue
		}
		if err != nil || result.Damage != nil {
			s.t.Fatalf("%s: %v %+v", e.Name(), err, result.Damage)
		}
		if started && result.Header.BaseOffset != next {
			s.t.Fatalf("%s begins at %d, the segment before it ends at %d", e.Name(), result.Header.BaseOffset, next)
		}
		if !started {
			first, started = result.Header.BaseOffset, true
		}
		next = result.NextOffset
	}
	return records, first, next
}

func (s *shard) remove(name string) {
	s.t.Helper()
	s.must(os.Remove(s.path(name)))
}
