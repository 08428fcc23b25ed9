package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/fallback"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/segment"
	"felix.local/felix/uring"
)

// faultChanges are the operations that change the disk.
const faultChanges = faultdisk.Changes

// fixedMicros is the wall clock of tests that compare bytes.
const fixedMicros = 1_700_000_000_000_000

// testConfig is small and quiet: segments of 4 KiB, no guard against a full
// disk, a clock that stands still, the pool.
func testConfig() engine.Config {
	c := engine.DefaultConfig()
	c.FsyncMode = engine.FsyncOnCommit
	c.SegmentBytes = 4096
	c.IndexSpacingBytes = 512
	c.MinFreeBytes, c.MinFreeInodes = 0, 0
	c.IOURing = engine.IOURingOff
	c.NowMicros = func() uint64 { return fixedMicros }
	c.Random = newFixedRandom()
	c.Logger = slog.New(slog.DiscardHandler)
	return c
}

// fixedRandom gives the same bytes in every test that compares some.
type fixedRandom struct {
	sync.Mutex
	chacha *rand.ChaCha8
}

func newFixedRandom() *fixedRandom { return &fixedRandom{chacha: rand.NewChaCha8([32]byte{1})} }

func (r *fixedRandom) Read(p []byte) (int, error) {
	r.Lock()
	defer r.Unlock()
	return r.chacha.Read(p)
}

func testKey(shard int) engine.ShardKey {
	return engine.ShardKey{Tenant: "t", Namespace: "n", Stream: "s", Shard: uint32(shard)}
}

// rig is a store with one log, opened again as often as a test likes.
type rig struct {
	testing.TB
	ctx   context.Context
	root  string
	cfg   engine.Config
	store *engine.Store
	log   *engine.Log
}

// newRig opens a store in memory, where a flush costs nothing; newRigIn opens one
// in a directory, for tests in which the device's time or the filesystem matters.
func newRig(t testing.TB, change ...func(*engine.Config)) *rig {
	t.Helper()
	return newRigIn(t, memoryDir(t), change...)
}

func newRigIn(t testing.TB, root string, change ...func(*engine.Config)) *rig {
	t.Helper()
	r := &rig{TB: t, ctx: deadline(t), root: root, cfg: testConfig()}
	for _, f := range change {
		f(&r.cfg)
	}
	r.open()
	t.Cleanup(func() {
		if r.store != nil {
			_ = r.store.Close(r.ctx)
		}
	})
	return r
}

// memoryDir is a directory on a filesystem in memory, where there is one.
func memoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "engine-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// deadline ends a test that hangs with a context error instead of a stack dump of
// everything.
func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func (r *rig) open() {
	r.Helper()
	var err error
	if r.store, err = engine.OpenStore(r.ctx, r.root, r.cfg); err != nil {
		r.Fatal(err)
	}
	if r.log, err = r.store.OpenLog(r.ctx, testKey(0)); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) close() {
	r.Helper()
	if err := r.store.Close(r.ctx); err != nil {
		r.Fatal(err)
	}
	r.store, r.log = nil, nil
}

func (r *rig) reopen(change ...func(*engine.Config)) {
	r.Helper()
	r.close()
	for _, f := range change {
		f(&r.cfg)
	}
	r.open()
}

func (r *rig) append(records ...engine.Record) engine.AppendResult {
	r.Helper()
	result, err := r.log.Append(r.ctx, records...)
	if err != nil {
		r.Fatal(err)
	}
	return result
}

// appendSizes appends one batch whose payloads have these sizes; each is what
// payload gives for its offset.
func (r *rig) appendSizes(sizes ...int) engine.AppendResult {
	r.Helper()
	next := r.log.TailOffset()
	records := make([]engine.Record, len(sizes))
	for i, size := range sizes {
		records[i].Payload = payload(next+uint64(i), size)
	}
	result := r.append(records...)
	if result.First != next || result.Last != next+uint64(len(sizes))-1 {
		r.Fatalf("%d records at tail %d got offsets %v", len(sizes), next, result)
	}
	return result
}

// payload is n bytes that tell their offset.
func payload(offset uint64, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(offset*131 + uint64(i)*7 + uint64(i)>>8)
	}
	return b
}

func (r *rig) read(start uint64, maxBytes int64) []segment.Record {
	r.Helper()
	records, err := r.log.ReadRange(r.ctx, start, maxBytes)
	if err != nil {
		r.Fatal(err)
	}
	return records
}

// readAll reads the log from its base to its tail in pages and checks that the
// offsets have no gap.
func (r *rig) readAll() []segment.Record {
	r.Helper()
	return readAll(r, r.ctx, r.log)
}

func readAll(t testing.TB, ctx context.Context, l *engine.Log) []segment.Record {
	t.Helper()
	var all []segment.Record
	next, tail := l.BaseOffset(), l.TailOffset()
	for next < tail {
		page, err := l.ReadStored(ctx, next, 64<<10, 10_000)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			t.Fatalf("a read at %d below the tail %d is empty", next, tail)
		}
		for _, record := range page {
			if record.Offset != next {
				t.Fatalf("record %d where %d belongs", record.Offset, next)
			}
			next++
		}
		all = append(all, page...)
	}
	return all
}

// checkPayloads reads everything and compares it with payload; size gives the
// length of each.
func (r *rig) checkPayloads(size func(offset uint64) int) {
	r.Helper()
	for _, record := range r.readAll() {
		if !bytes.Equal(record.Payload, payload(record.Offset, size(record.Offset))) {
			r.Fatalf("record %d reads back differently", record.Offset)
		}
	}
}

// checkChain checks that the segments follow each other without a gap, that all
// but the last hold records, and that the files agree.
func (r *rig) checkChain() []segment.Descriptor {
	r.Helper()
	segments := r.log.Segments()
	for i, d := range segments[:len(segments)-1] {
		if d.Empty() {
			r.Fatalf("segment %d is empty and not the last: %+v", i, segments)
		}
		if next := segments[i+1]; next.BaseOffset != d.NextOffset || next.ID <= d.ID {
			r.Fatalf("segment %+v is followed by %+v", d, next)
		}
	}
	for _, d := range segments {
		info, err := os.Stat(filepath.Join(r.log.Dir(), segment.LogName(d.ID)))
		if err != nil {
			r.Fatal(err)
		}
		if info.Size() != d.Size {
			r.Fatalf("segment %d has %d bytes and its file %d", d.ID, d.Size, info.Size())
		}
	}
	return segments
}

// withFaults puts a disk under the store whose operations a test can hold or
// fail.
func withFaults(t testing.TB) (*faultdisk.Disk, func(*engine.Config)) {
	pool := fallback.Open(fallback.Options{})
	disk := faultdisk.New(device.OS(), pool, faultdisk.Options{})
	t.Cleanup(func() { _ = disk.Queue().Close() })
	return disk, func(c *engine.Config) { c.FS, c.Queue = disk.FS(), disk.Queue() }
}

// hold makes operations wait until they are released, at the latest when the test
// ends, so that one that fails does not hang.
func hold(t testing.TB, disk *faultdisk.Disk, kinds faultdisk.Kinds, path func(string) bool, times int) *faultdisk.Injected {
	held := disk.Inject(faultdisk.Fault{Kinds: kinds, Path: path, Times: times, Stall: true})
	t.Cleanup(held.Remove)
	return held
}

// isLog matches segment files.
func isLog(path string) bool { return strings.HasSuffix(path, ".log") }

// isSegment matches one segment's file.
func isSegment(id uint64) func(path string) bool {
	return func(path string) bool { return filepath.Base(path) == segment.LogName(id) }
}

// onBoth runs a test on the ring and on the pool.
func onBoth(t *testing.T, test func(t *testing.T, choose func(*engine.Config))) {
	for _, mode := range []engine.IOURingMode{engine.IOURingRequire, engine.IOURingOff} {
		t.Run(backendName(mode), func(t *testing.T) {
			if mode == engine.IOURingRequire {
				needRing(t)
			}
			test(t, func(c *engine.Config) { c.IOURing = mode })
		})
	}
}

func backendName(mode engine.IOURingMode) string {
	if mode == engine.IOURingOff {
		return "pool"
	}
	return "ring"
}

// needRing skips where the kernel gives no ring.
func needRing(t testing.TB) {
	t.Helper()
	ring, err := uring.Open(uring.Options{Entries: 32})
	if err != nil {
		t.Skip("no io_uring here:", err)
	}
	if err := ring.Close(); err != nil {
		t.Fatal(err)
	}
}

// eachMode runs a test under every fsync mode.
func eachMode(t *testing.T, test func(t *testing.T, choose func(*engine.Config))) {
	for _, mode := range []engine.FsyncMode{engine.FsyncNone, engine.FsyncPeriodic, engine.FsyncOnCommit} {
		t.Run(mode.String(), func(t *testing.T) {
			test(t, func(c *engine.Config) { c.FsyncMode = mode })
		})
	}
}

// errorAs fails the test unless err is a T.
func errorAs[T error](t testing.TB, err error) T {
	t.Helper()
	var want T
	if !errors.As(err, &want) {
		t.Fatalf("got %v (%T), want a %T", err, err, want)
	}
	return want
}

// snapshot is every file below a directory, by name, as text that can be
// compared.
func snapshot(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		content := ""
		if !entry.IsDir() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content = string(b)
		}
		files[name] = fmt.Sprintf("%v %q", info.Mode(), content)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// sameFiles compares two snapshots and names what differs.
func sameFiles(t testing.TB, want, got map[string]string) {
	t.Helper()
	for name, content := range want {
		switch other, ok := got[name]; {
		case !ok:
			t.Errorf("%s is missing", name)
		case other != content:
			at := 0
			for at < len(content) && at < len(other) && content[at] == other[at] {
				at++
			}
			t.Errorf("%s differs (%d and %d characters, from %d on)", name, len(content), len(other), at)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s is too much", name)
		}
	}
}
