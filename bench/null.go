package bench

import (
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/segment"
)

// OnNullDevice changes a configuration so that whatever is written to a segment is
// written at once and nowhere. What a load costs the processor there is what it costs
// apart from the device: the publishers, the encoding, the hand-overs between
// goroutines. The rest of what it costs on a real device is the price of the
// operations.
//
// Everything but the content of segments is real. A store on it holds nothing that
// could be read back.
func OnNullDevice(config engine.Config) engine.Config {
	config.FS = &nullDisk{FS: device.OS()}
	config.Queue = new(nullQueue)
	return config
}

// nullQueue performs operations on the submitting goroutine.
type nullQueue struct {
	ops [device.KindCount]atomic.Uint64
}

// Submit implements device.Queue.
func (q *nullQueue) Submit(ops ...*device.Op) {
	for _, op := range ops {
		op.Prepare()
		n, err := op.File.Perform(op)
		q.ops[op.Kind].Add(1)
		op.Complete(n, err)
	}
}

// Stats implements device.Queue.
func (q *nullQueue) Stats() device.QueueStats {
	s := device.QueueStats{Backend: "null"}
	for kind := range q.ops {
		s.Ops[kind] = q.ops[kind].Load()
	}
	return s
}

// Close implements device.Queue.
func (q *nullQueue) Close() error { return nil }

// nullDisk gives segments a length and no content.
type nullDisk struct {
	device.FS
	// sizes has the length of each segment, *atomic.Int64, by path.
	sizes sync.Map
}

// OpenFile implements device.FS.
func (d *nullDisk) OpenFile(path string, mode device.OpenMode, perm fs.FileMode) (device.File, error) {
	f, err := d.FS.OpenFile(path, mode, perm)
	if err != nil || filepath.Ext(path) != filepath.Ext(segment.LogName(0)) {
		return f, err
	}
	size, _ := d.sizes.LoadOrStore(path, new(atomic.Int64))
	return &nullFile{File: f, size: size.(*atomic.Int64)}, nil
}

type nullFile struct {
	device.File
	size *atomic.Int64
}

// Perform implements device.File. Of one segment one write is under way at a time.
func (f *nullFile) Perform(op *device.Op) (int, error) {
	op.Pieces = 1
	if op.Kind == device.Write || op.Kind == device.WriteDsync {
		f.size.Store(max(f.size.Load(), op.Pos+int64(len(op.Buf))))
	}
	return len(op.Buf), nil
}

// Size implements device.File.
func (f *nullFile) Size() (int64, error) { return f.size.Load(), nil }

// Truncate implements device.File.
func (f *nullFile) Truncate(size int64) error {
	f.size.Store(size)
	return nil
}
