package simdisk

import (
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"felix.local/felix/device"
)

// Recorder applies the model to a real disk: it passes everything on to the
// namespace and the queue it wraps, keeps a simulated disk in step with them, and
// so knows what a power loss could leave of the real files. What a flush covers
// is what had completed when it was submitted.
//
// A simulated disk that is behind the real one for a moment is no error: the
// real bytes were not promised yet.
type Recorder struct {
	fs    device.FS
	queue *recordedQueue
	root  string
	model *Disk
	// untracked counts calls that the model could not follow.
	untracked atomic.Int64

	// names keeps the namespace calls of the model in the order of the real ones.
	names sync.Mutex
}

// Record wraps a disk. What lies below root now counts as durable; what happens
// elsewhere is not recorded. root is an existing, absolute directory. Whoever
// changes files there past the recorder makes it wrong.
func Record(fs device.FS, queue device.Queue, root string) (*Recorder, error) {
	r := &Recorder{fs: fs, root: filepath.Clean(root), model: New()}
	r.queue = &recordedQueue{recorder: r, inner: queue}
	r.model.MakeDir(r.root)
	if err := r.model.Import(r.root, r.root); err != nil {
		return nil, err
	}
	return r, nil
}

// FS is the wrapped namespace.
func (r *Recorder) FS() device.FS { return recordedFS{r} }

// Queue is the wrapped queue; closing it closes the one inside.
func (r *Recorder) Queue() device.Queue { return r.queue }

// Model is the simulated disk that follows the real one, under the same paths.
// Crash, States and BeforeChange are for the asking; it must not be changed.
func (r *Recorder) Model() *Disk { return r.model }

// Untracked counts calls below the root that the model could not follow, because
// a file was made past the recorder. It has to be zero for a crash image to mean
// anything.
func (r *Recorder) Untracked() int { return int(r.untracked.Load()) }

// CrashInto builds what a crash now would leave of the root, in another, empty
// directory of the operating system.
func (r *Recorder) CrashInto(o CrashOptions, dir string) error {
	return r.model.Crash(o).Export(r.root, dir)
}

// follow notes whether the model could do what the disk did.
func (r *Recorder) follow(path string, err error) {
	if err != nil && r.below(path) {
		r.untracked.Add(1)
	}
}

func (r *Recorder) below(path string) bool {
	path = filepath.Clean(path)
	return path == r.root || strings.HasPrefix(path, r.root+"/")
}
