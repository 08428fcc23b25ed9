package simdisk

import (
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"felix.local/felix/device"
)

// Disk is a disk in memory. It is a device.FS; NewQueue gives a device.Queue of
// it. All methods may be called from any goroutine.
type Disk struct {
	hook atomic.Pointer[func(Change)]

	mu struct {
		sync.Mutex
		root   *inode
		nextID uint64
		// version and epoch only rise.
		version, epoch uint64
		flights        map[*flight]struct{}
		nextFlight     uint64
		locks          map[*inode]*lockState
		faults         []*syncFault
		counts         Counts
	}
}

var _ device.FS = (*Disk)(nil)

// Counts says what was done on a disk, so that a test can prove that the path it
// is about was taken.
type Counts struct {
	Writes, DsyncWrites, Flushes, DirFlushes, Allocates uint64
	Creates, Mkdirs, Renames, Removes, Truncates        uint64
	// FailedSyncs counts flushes and dsync writes that a SyncFault hit.
	FailedSyncs uint64
}

// New makes a disk with an empty root directory.
func New() *Disk {
	d := &Disk{}
	d.mu.flights = make(map[*flight]struct{})
	d.mu.locks = make(map[*inode]*lockState)
	d.mu.epoch = sharedEpoch + 1
	d.mu.root = d.newInodeLocked(fs.ModeDir | 0o755)
	d.mu.root.links = 1
	return d
}

// Counts gives the counters of this disk alone; an image begins at zero.
func (d *Disk) Counts() Counts {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.counts
}

func (d *Disk) newInodeLocked(mode fs.FileMode) *inode {
	d.mu.nextID++
	f := &inode{id: d.mu.nextID, mode: mode, epoch: d.mu.epoch}
	if mode.IsDir() {
		f.names = make(map[string]*name)
	}
	return f
}

// freezeLocked keeps the pages an inode has now from being written in place.
func (d *Disk) freezeLocked(f *inode) {
	d.mu.epoch++
	f.epoch = d.mu.epoch
}

func (d *Disk) stepLocked() uint64 {
	d.mu.version++
	return d.mu.version
}

// lookLocked finds what a path names now.
func (d *Disk) lookLocked(path string) (*inode, error) {
	at := d.mu.root
	for _, part := range split(path) {
		if !at.isDir() {
			return nil, syscall.ENOTDIR
		}
		n := at.names[part]
		if n == nil || n.now == nil {
			return nil, syscall.ENOENT
		}
		at = n.now
	}
	return at, nil
}

// parentLocked finds the directory that a path lies in, and its name there.
func (d *Disk) parentLocked(path string) (*inode, string, error) {
	parts := split(path)
	if len(parts) == 0 {
		return nil, "", syscall.EBUSY // the root itself
	}
	last := len(parts) - 1
	dir, err := d.lookLocked(strings.Join(parts[:last], "/"))
	if err == nil && !dir.isDir() {
		err = syscall.ENOTDIR
	}
	return dir, parts[last], err
}

// split takes a path apart; a relative one begins at the root.
func split(path string) []string {
	clean := strings.TrimPrefix(filepath.Clean("/"+path), "/")
	if clean == "" {
		return nil
	}
	return strings.Split(clean, "/")
}

// setLocked changes a directory entry and the number of names of what it named
// and names.
func (d *Disk) setLocked(dir *inode, base string, to *inode) {
	n := dir.names[base]
	if n == nil {
		n = &name{}
		dir.names[base] = n
	}
	if n.now != nil {
		n.now.links--
	}
	if to != nil {
		to.links++
	}
	n.now, n.version = to, d.stepLocked()
}

// MakeDir makes a directory and all above it, durably, and whatever of them was
// there already durable as well. It is for setting a disk up.
func (d *Disk) MakeDir(path string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.mu.root
	for _, part := range split(path) {
		n := at.names[part]
		if n == nil || n.now == nil {
			d.setLocked(at, part, d.newInodeLocked(fs.ModeDir|0o755))
			n = at.names[part]
		}
		if !n.now.isDir() {
			panic("simdisk: " + path + " leads through a file")
		}
		n.synced, n.reached, n.version = n.now, n.version, 0
		at = n.now
	}
}
