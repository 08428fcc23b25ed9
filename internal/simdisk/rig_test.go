package simdisk_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/internal/simdisk"
)

// rig is a disk with a free-running queue. Its helpers end the test on an error.
type rig struct {
	testing.TB
	*simdisk.Disk
	queue *simdisk.Queue
}

func newRig(t testing.TB) *rig { return rigOn(t, newDisk()) }

func rigOn(t testing.TB, d *simdisk.Disk) *rig {
	return &rig{t, d, d.NewQueue(simdisk.QueueOptions{})}
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func path(name string) string { return filepath.Join(root, name) }

func (r *rig) open(name string, mode device.OpenMode) device.File {
	r.Helper()
	f, err := r.OpenFile(path(name), mode, 0o640)
	r.must(err)
	return f
}

func (r *rig) create(name string) device.File {
	r.Helper()
	return r.open(name, device.CreateNew)
}

// created makes a file whose name is durable.
func (r *rig) created(name string) device.File {
	r.Helper()
	f := r.create(name)
	r.flushDir(root)
	return f
}

func (r *rig) do(op *device.Op) {
	r.Helper()
	r.must(device.Do(r.queue, op))
}

func (r *rig) write(f device.File, pos int64, b []byte) {
	r.Helper()
	r.do(&device.Op{Kind: device.Write, File: f, Pos: pos, Buf: b})
}

func (r *rig) writeDsync(f device.File, pos int64, b []byte) {
	r.Helper()
	r.do(&device.Op{Kind: device.WriteDsync, File: f, Pos: pos, Buf: b})
}

func (r *rig) flush(f device.File) {
	r.Helper()
	r.do(&device.Op{Kind: device.Flush, File: f})
}

func (r *rig) flushDir(dir string) {
	r.Helper()
	f, err := r.OpenDir(dir)
	r.must(err)
	r.do(&device.Op{Kind: device.FlushAll, File: f})
	r.must(f.Close())
}

// fill is n bytes of one value.
func fill(value byte, n int) []byte { return bytes.Repeat([]byte{value}, n) }

// bytesOf reads a whole file below the root; nil when there is none.
func bytesOf(t testing.TB, d device.FS, name string) []byte {
	t.Helper()
	return contentOf(t, d, path(name))
}

// contentOf reads a whole file; nil when there is none.
func contentOf(t testing.TB, fs device.FS, path string) []byte {
	t.Helper()
	b, err := simdisk.ReadFile(fs, path)
	if err != nil && !device.IsNotExist(err) {
		t.Fatal(err)
	}
	return b
}

func namesOf(t testing.TB, d device.FS, dir string) []string {
	t.Helper()
	entries, err := d.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

// images gives many power-loss images of a disk in both orders.
func images(d *simdisk.Disk, each func(seed uint64, image *simdisk.Disk)) {
	for seed := range uint64(200) {
		for _, order := range []simdisk.Writeback{simdisk.AnySubset, simdisk.InOrder} {
			each(seed, d.Crash(simdisk.CrashOptions{Writeback: order, Seed: seed}))
		}
	}
}

// outcomes are the distinct contents of a file over many images, as text.
func outcomes(t testing.TB, d *simdisk.Disk, describe func(image *simdisk.Disk) string) map[string]int {
	t.Helper()
	found := make(map[string]int)
	images(d, func(_ uint64, image *simdisk.Disk) { found[describe(image)]++ })
	return found
}
