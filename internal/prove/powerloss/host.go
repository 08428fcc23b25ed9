package powerloss

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/fallback"
	"felix.local/felix/internal/simdisk"
	"felix.local/felix/uring"
)

// host is a disk that a store can live on, crash and live on again.
type host interface {
	// boot gives a namespace and a queue for one life of a store.
	boot() (device.FS, device.Queue, error)
	// store is the store's directory.
	store() string
	// crash gives what a crash now leaves.
	crash(o simdisk.CrashOptions) host
	// model is the simulated disk, for hooks and counters.
	model() *simdisk.Disk
	// discard ends the use of a host; nothing of it is open.
	discard() error
}

// hostError says that a host does not work: no log is to blame.
type hostError struct{ err error }

func (e *hostError) Error() string { return e.err.Error() }
func (e *hostError) Unwrap() error { return e.err }

// simulatedRoot is the directory of everything on a simulated disk.
const simulatedRoot = "/data"

// simulated is a host in memory. queue is how its queues run.
type simulated struct {
	disk  *simdisk.Disk
	queue simdisk.QueueOptions
}

func newSimulated(queue simdisk.QueueOptions) simulated {
	d := simdisk.New()
	d.MakeDir(simulatedRoot)
	return simulated{d, queue}
}

func (h simulated) boot() (device.FS, device.Queue, error) {
	return h.disk, h.disk.NewQueue(h.queue), nil
}
func (h simulated) store() string        { return filepath.Join(simulatedRoot, "store") }
func (h simulated) model() *simdisk.Disk { return h.disk }
func (h simulated) discard() error       { return nil }

// crash gives a host whose queues run freely: it is short-lived, and what
// happens on it is sequential.
func (h simulated) crash(o simdisk.CrashOptions) host {
	return simulated{disk: h.disk.Crash(o)}
}

// real is a host on the operating system's files. Its directory is made from
// image at the first boot, and recorded from then on.
type real struct {
	files device.FS
	queue func() (device.Queue, error)
	// base holds the directories of all images.
	base     string
	dir      string
	image    *simdisk.Disk
	from     string // the directory within image
	recorder *simdisk.Recorder
}

// opener gives the queues of a real host.
func (o Options) opener() func() (device.Queue, error) {
	switch {
	case o.Host == Pool:
		return func() (device.Queue, error) { return fallback.Open(fallback.Options{}), nil }
	case o.openRing != nil:
		return o.openRing
	}
	return func() (device.Queue, error) { return uring.Open(uring.Options{}) }
}

// namespace is that of real hosts.
func (o Options) namespace() device.FS {
	if o.files != nil {
		return o.files
	}
	return device.OS()
}

// probe opens and closes a ring, if that is what the workloads are to run on. A
// ring that cannot be had later, while others work, is a fault of the host.
func (o Options) probe() error {
	if o.Host != Ring {
		return nil
	}
	q, err := o.opener()()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoRing, err)
	}
	return q.Close()
}

// tryJournal makes a commit journal in the directory for real files, once. An error
// that matches engine.ErrNoJournal says that its filesystem has none, as one without
// writes past the page cache.
func (o Options) tryJournal() error {
	base, err := os.MkdirTemp(o.Dir, "journal-")
	if err != nil {
		return &hostError{err}
	}
	h, err := o.newReal(base)
	if err == nil {
		s := scenario{mode: engine.FsyncOnCommit, threshold: inlineRolls, journaled: true}
		none := func(context.Context, *engine.Store) ([]*engine.Log, error) { return nil, nil }
		err = life{s.config, none}.on(h, func(*engine.Store, []*engine.Log) error { return nil })
	}
	return errors.Join(err, os.RemoveAll(base))
}

// newReal makes a host in an empty directory.
func (o Options) newReal(base string) (*real, error) {
	dir := filepath.Join(base, "first")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, &hostError{err}
	}
	return &real{files: o.namespace(), queue: o.opener(), base: base, dir: dir}, nil
}

func (h *real) boot() (device.FS, device.Queue, error) {
	if err := h.materialize(); err != nil {
		return nil, nil, &hostError{err}
	}
	queue, err := h.queue()
	if err != nil {
		return nil, nil, &hostError{err}
	}
	recorder, err := simdisk.Record(h.files, queue, h.dir)
	if err != nil {
		return nil, nil, &hostError{errors.Join(err, queue.Close())}
	}
	h.recorder = recorder
	return recorder.FS(), recorder.Queue(), nil
}

// materialize makes the files.
func (h *real) materialize() error {
	if h.dir != "" {
		return h.followed()
	}
	dir, err := os.MkdirTemp(h.base, "image-")
	if err != nil {
		return err
	}
	if err := h.image.Export(h.from, dir); err != nil {
		return err
	}
	h.dir, h.image = dir, nil
	return nil
}

// followed checks that the model is in step with the files.
func (h *real) followed() error {
	if h.recorder == nil || h.recorder.Untracked() == 0 {
		return nil
	}
	return fmt.Errorf("%d calls on real files were not followed", h.recorder.Untracked())
}

func (h *real) store() string        { return filepath.Join(h.dir, "store") }
func (h *real) model() *simdisk.Disk { return h.recorder.Model() }

func (h *real) crash(o simdisk.CrashOptions) host {
	if h.dir == "" {
		return &real{files: h.files, queue: h.queue, base: h.base, image: h.image.Crash(o), from: h.from}
	}
	return &real{files: h.files, queue: h.queue, base: h.base, image: h.model().Crash(o), from: h.dir}
}

func (h *real) discard() error {
	if h.dir == "" {
		return nil
	}
	if err := errors.Join(h.followed(), os.RemoveAll(h.dir)); err != nil {
		return &hostError{err}
	}
	return nil
}
