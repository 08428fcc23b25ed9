package faultdisk

import (
	"sync"
	"sync/atomic"
	"syscall"

	"felix.local/felix/device"
)

// Options configure a Disk. The zero value tracks nothing.
type Options struct {
	// TrackDirty keeps a copy of the durable bytes of every file written
	// through the disk, for Fault.DropDirty. Files have to be small.
	TrackDirty bool
}

// Disk is a wrapped disk.
type Disk struct {
	options Options
	fs      device.FS
	queue   *Queue
	// stopped is the errno of TakesWrites, 0 while the filesystem goes on.
	stopped atomic.Uint64

	mu struct {
		sync.Mutex
		faults []*Injected
		counts [len(names)]uint64
		log    []*Event
		clock  int
		nodes  map[inode]*node
	}
}

type inode struct{ dev, ino uint64 }

// StopTakingWrites has every file say from now on that the filesystem stopped, while
// operations go on succeeding: as a kernel does of flushes that are under way.
func (d *Disk) StopTakingWrites(errno syscall.Errno) { d.stopped.Store(uint64(errno)) }

// New wraps a namespace and a queue. Files that came from elsewhere may be
// submitted to its queue too.
func New(fs device.FS, queue device.Queue, options Options) *Disk {
	d := &Disk{options: options, fs: fs}
	d.queue = &Queue{disk: d, inner: queue}
	d.mu.nodes = make(map[inode]*node)
	return d
}

// FS is the wrapped namespace.
func (d *Disk) FS() device.FS { return namespace{d} }

// Queue is the wrapped queue. Closing it closes the one inside, after waiting for
// every op: held ones have to be released.
func (d *Disk) Queue() device.Queue { return d.queue }

// Count is how many operations of these kinds were submitted or called.
func (d *Disk) Count(kinds Kinds) uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	var sum uint64
	for i, n := range d.mu.counts {
		if kinds&(1<<i) != 0 {
			sum += n
		}
	}
	return sum
}

// ticket follows one operation from its start to its end.
type ticket struct {
	disk  *Disk
	event *Event
	hit   *Injected // nil when no fault hits it
}

// begin counts and records an operation and finds the fault that hits it.
func (d *Disk) begin(e Event, paths ...string) ticket {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.counts[e.Kind.index()]++
	event := d.recordLocked(e)
	t := ticket{disk: d, event: event}
	for _, i := range d.mu.faults {
		// Every fault counts the operation, though only the first one hits it.
		if i.matchLocked(e.Kind, paths) && t.hit == nil {
			t.hit = i
		}
	}
	if t.hit != nil && t.hit.hits == 1 {
		close(t.hit.reached)
	}
	return t
}

// hold waits while the fault stalls, and gives the errno to fail with, or nil.
func (t ticket) hold() error {
	if t.hit == nil {
		return nil
	}
	if t.hit.fault.Stall {
		<-t.hit.released
	}
	if t.hit.fault.Errno == 0 {
		return nil
	}
	return t.hit.fault.Errno
}

func (t ticket) end(err error) {
	t.disk.mu.Lock()
	defer t.disk.mu.Unlock()
	t.disk.mu.clock++
	t.event.End, t.event.Err = t.disk.mu.clock, err
}
