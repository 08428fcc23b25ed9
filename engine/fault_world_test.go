package engine_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/fallback"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/recovery"
)

// faultWorld is one directory on a disk whose operations can be made to fail,
// with what a test needs to judge the engine: every operation on record, the
// descriptors it holds, and a watch over what it writes into durable.mark.
type faultWorld struct {
	root string
	disk *faultdisk.Disk
	fs   *countedFS
	cfg  engine.Config
	mark *markWatch
}

// fastDir gives a directory in memory where there is one: these tests model
// themselves what is durable, and a real flush would only cost time.
func fastDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "felix-engine-")
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

// sharedPool gives a pool that many worlds use one after the other.
func sharedPool(t testing.TB) *fallback.Pool {
	pool := fallback.Open(fallback.Options{Workers: 2})
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return pool
}

func newFaultWorld(root string, pool device.Queue, cfg engine.Config, o faultdisk.Options) *faultWorld {
	w := &faultWorld{root: root, fs: &countedFS{FS: device.OS()}, cfg: cfg}
	w.disk = faultdisk.New(w.fs, pool, o)
	w.mark = &markWatch{Queue: w.disk.Queue(), world: w}
	w.cfg.FS, w.cfg.Queue = w.disk.FS(), w.mark
	return w
}

func (w *faultWorld) open(ctx context.Context) (*engine.Store, *engine.Log, error) {
	store, err := engine.OpenStore(ctx, w.root, w.cfg)
	if err != nil {
		return nil, nil, err
	}
	log, err := store.OpenLog(ctx, testKey(0))
	return store, log, err
}

// countedFS counts open files, directories and locks.
type countedFS struct {
	device.FS
	open atomic.Int64
}

func (c *countedFS) OpenFile(path string, mode device.OpenMode, perm fs.FileMode) (device.File, error) {
	return c.count(c.FS.OpenFile(path, mode, perm))
}

func (c *countedFS) OpenDir(path string) (device.File, error) { return c.count(c.FS.OpenDir(path)) }

func (c *countedFS) count(f device.File, err error) (device.File, error) {
	if err != nil {
		return nil, err
	}
	c.open.Add(1)
	return &countedFile{File: f, fs: c}, nil
}

type countedFile struct {
	device.File
	fs *countedFS
}

func (f *countedFile) Unwrap() device.File { return f.File }

func (f *countedFile) Close() error {
	f.fs.open.Add(-1)
	return f.File.Close()
}

// markWatch checks every durable.mark on its way to the disk: it may only repeat
// what a flush or a dsync write has returned already.
type markWatch struct {
	device.Queue
	world *faultWorld

	mu struct {
		sync.Mutex
		marks    []recovery.Mark
		problems []string
	}
}

func (m *markWatch) Submit(ops ...*device.Op) {
	for _, op := range ops {
		if filepath.Base(op.File.Name()) == recovery.MarkName && (op.Kind == device.Write || op.Kind == device.WriteDsync) {
			m.check(op)
		}
	}
	m.Queue.Submit(ops...)
}

func (m *markWatch) check(op *device.Op) {
	mark, ok := recovery.DecodeMark(op.Buf)
	problem := ""
	if !ok {
		problem = fmt.Sprintf("no mark: %x", op.Buf)
	} else {
		problem = durableState(m.world.disk.Log(faultdisk.All)).markLeads(filepath.Dir(op.File.Name()), mark)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.marks = append(m.mu.marks, mark)
	if problem != "" {
		m.mu.problems = append(m.mu.problems, problem)
	}
}

// problems are the marks that said too much.
func (m *markWatch) problems() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.problems
}
