package simdisk_test

import (
	"os"
	"path/filepath"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/internal/simdisk"
)

// host is a disk that a store can live on, crash and live on again.
type host interface {
	// boot gives a namespace and a queue for one life of a store.
	boot() (device.FS, device.Queue)
	// store is the store's directory.
	store() string
	// crash gives what a crash now leaves.
	crash(o simdisk.CrashOptions) host
	// model is the simulated disk, for hooks and counters.
	model() *simdisk.Disk
	// discard ends the use of a host; nothing of it is open.
	discard()
}

// simulated is a host in memory. queue is how its queues run.
type simulated struct {
	disk  *simdisk.Disk
	queue simdisk.QueueOptions
}

func (h simulated) boot() (device.FS, device.Queue) { return h.disk, h.disk.NewQueue(h.queue) }
func (h simulated) store() string                   { return path("store") }
func (h simulated) model() *simdisk.Disk            { return h.disk }
func (h simulated) discard()                        {}

// crash gives a host whose queues run freely: it is short-lived, and what
// happens on it is sequential.
func (h simulated) crash(o simdisk.CrashOptions) host {
	return simulated{disk: h.disk.Crash(o)}
}

// real is a host on the operating system's files. Its directory is made from
// image at the first boot, and recorded from then on.
type real struct {
	t    testing.TB
	open func(t testing.TB) device.Queue
	// base holds the directories of all images.
	base     string
	dir      string
	image    *simdisk.Disk
	from     string // the directory within image
	recorder *simdisk.Recorder
}

func newReal(t testing.TB, open func(t testing.TB) device.Queue) *real {
	base := t.TempDir()
	dir := filepath.Join(base, "first")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return &real{t: t, open: open, base: base, dir: dir}
}

func (h *real) boot() (device.FS, device.Queue) {
	if h.dir == "" {
		dir, err := os.MkdirTemp(h.base, "image-")
		if err != nil {
			h.t.Fatal(err)
		}
		if err := h.image.Export(h.from, dir); err != nil {
			h.t.Fatal(err)
		}
		h.dir, h.image = dir, nil
	}
	recorder, err := simdisk.Record(device.OS(), h.open(h.t), h.dir)
	if err != nil {
		h.t.Fatal(err)
	}
	if h.recorder != nil && h.recorder.Untracked() != 0 {
		h.t.Fatalf("%d calls were not followed", h.recorder.Untracked())
	}
	h.recorder = recorder
	return recorder.FS(), recorder.Queue()
}

func (h *real) store() string        { return filepath.Join(h.dir, "store") }
func (h *real) model() *simdisk.Disk { return h.recorder.Model() }

func (h *real) crash(o simdisk.CrashOptions) host {
	if h.dir == "" {
		return &real{t: h.t, open: h.open, base: h.base, image: h.image.Crash(o), from: h.from}
	}
	return &real{t: h.t, open: h.open, base: h.base, image: h.model().Crash(o), from: h.dir}
}

func (h *real) discard() {
	if h.dir != "" {
		if err := os.RemoveAll(h.dir); err != nil {
			h.t.Error(err)
		}
	}
}
