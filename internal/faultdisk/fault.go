package faultdisk

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
)

// Lands says how much of a failing write reaches the file.
type Lands uint8

// How much lands.
const (
	// Nothing lands, and no progress is reported.
	Nothing Lands = iota
	// Half of the bytes land and are reported as progress with the error, as
	// on a disk that got full on the way.
	Half
	// Everything lands but no progress is reported, as by a dsync write whose
	// sync half failed.
	Everything
)

// Forever makes a fault hit every matching operation from At on.
const Forever = -1

// Fault says which operations fail and how.
type Fault struct {
	// Kinds are the kinds to match; zero means Changes.
	Kinds Kinds
	// Path says which paths match; nil matches all.
	Path func(path string) bool
	// At is the first matching operation to hit, counted from the call of Inject;
	// zero means 1, the next one.
	At int
	// Times is how many matching operations are hit in a row; zero means 1.
	Times int

	// Errno is what they fail with. Zero, with Stall, lets them succeed in the
	// end.
	Errno syscall.Errno
	// Lands says what a failing write leaves in the file.
	Lands Lands
	// DropDirty makes a failing flush of a file lose what was written and not
	// flushed: the file goes back to its last durable bytes and length. It
	// needs Options.TrackDirty. With Stall the bytes are lost when the flush
	// starts and told of when it ends: a flush beside it succeeds, and covers
	// nothing of what is lost, since the kernel reports a failed write-back
	// once per descriptor.
	DropDirty bool
	// Stall holds the operations until Release.
	Stall bool
}

func (f Fault) validate(o Options) error {
	var problems []error
	if f.Errno == 0 && !f.Stall {
		problems = append(problems, errors.New("a fault needs an errno, or has to stall"))
	}
	if f.At < 0 || f.Times < Forever {
		problems = append(problems, fmt.Errorf("at %d, %d times is never", f.At, f.Times))
	}
	if f.Kinds&^All != 0 {
		problems = append(problems, fmt.Errorf("kinds %#x do not exist", uint32(f.Kinds&^All)))
	}
	if f.DropDirty && !o.TrackDirty {
		problems = append(problems, errors.New("dropping dirty bytes needs Options.TrackDirty"))
	}
	return errors.Join(problems...)
}

// Injected is a fault at work.
type Injected struct {
	disk  *Disk
	fault Fault

	reached     chan struct{} // closed at the first hit
	released    chan struct{} // closed by Release
	releaseOnce sync.Once

	// Under Disk.mu.
	matched, hits int
	removed       bool
}

// Inject puts a fault to work, behind those already there. It panics on one that
// makes no sense.
func (d *Disk) Inject(f Fault) *Injected {
	if err := f.validate(d.options); err != nil {
		panic("faultdisk: " + err.Error())
	}
	if f.Kinds == 0 {
		f.Kinds = Changes
	}
	f.At = max(f.At, 1)
	if f.Times == 0 {
		f.Times = 1
	}
	i := &Injected{disk: d, fault: f, reached: make(chan struct{}), released: make(chan struct{})}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.faults = append(d.mu.faults, i)
	return i
}

// matchLocked counts an operation of one kind and reports whether the fault hits
// it.
func (i *Injected) matchLocked(kind Kinds, paths []string) bool {
	if i.removed || i.fault.Kinds&kind == 0 || !i.matchesPath(paths) {
		return false
	}
	i.matched++
	if i.matched < i.fault.At || (i.fault.Times != Forever && i.matched >= i.fault.At+i.fault.Times) {
		return false
	}
	i.hits++
	return true
}

func (i *Injected) matchesPath(paths []string) bool {
	if i.fault.Path == nil {
		return true
	}
	for _, path := range paths {
		if i.fault.Path(path) {
			return true
		}
	}
	return false
}

// Hits is how many operations the fault has hit, held ones included.
func (i *Injected) Hits() int {
	i.disk.mu.Lock()
	defer i.disk.mu.Unlock()
	return i.hits
}

// Reached is closed when the fault hits for the first time: with Stall, when an
// operation is held.
func (i *Injected) Reached() <-chan struct{} { return i.reached }

// Release lets the held operations go on and holds no further ones. They fail
// with Errno when there is one.
func (i *Injected) Release() { i.releaseOnce.Do(func() { close(i.released) }) }

// Remove takes the fault away, for operations to come, and releases those it
// holds.
func (i *Injected) Remove() {
	i.disk.mu.Lock()
	i.removed = true
	i.disk.mu.Unlock()
	i.Release()
}
