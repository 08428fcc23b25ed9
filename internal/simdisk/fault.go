package simdisk

import (
	"syscall"

	"felix.local/felix/device"
)

// SyncFault makes flushes and dsync writes fail the way a kernel makes them
// fail: what they were to write counts as clean afterwards. (A fault that
// fails an operation before it reaches the disk is faultdisk's business.)
type SyncFault struct {
	// Path says which paths match, as they were opened; nil matches all.
	Path func(path string) bool
	// Kinds are the kinds that match; none means all that sync.
	Kinds []device.Kind
	// Dirs and Files restrict the fault to flushes of directories or of files;
	// neither set means both.
	Dirs, Files bool
	// At is the first matching completion to hit, counted from the call of
	// FailSync; zero means 1, the next one.
	At int
	// Times is how many in a row are hit; zero means 1.
	Times int
	// Errno is what they fail with; zero means EIO.
	Errno syscall.Errno
	// Revert makes the page cache show what the device holds. Without it reads
	// go on showing the bytes that were lost.
	Revert bool
	// Partly lets each page reach the device or not by a choice of this seed; 0
	// lets none.
	Partly uint64
}

type syncFault struct {
	SyncFault
	seen int
	rand *Rand
}

// FailSync puts a fault to work, behind those already there.
func (d *Disk) FailSync(f SyncFault) {
	f.At = max(f.At, 1)
	f.Times = max(f.Times, 1)
	if f.Errno == 0 {
		f.Errno = syscall.EIO
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.faults = append(d.mu.faults, &syncFault{SyncFault: f, rand: NewRand(f.Partly)})
}

// syncFaultLocked counts a completion and gives the fault that hits it.
func (d *Disk) syncFaultLocked(fl *flight) *syncFault {
	var hit *syncFault
	for _, f := range d.mu.faults {
		if !f.matches(fl) {
			continue
		}
		f.seen++
		if hit == nil && f.seen >= f.At && f.seen < f.At+f.Times {
			hit = f
		}
	}
	return hit
}

func (f *syncFault) matches(fl *flight) bool {
	dir := fl.file.inode.isDir()
	if (f.Dirs || f.Files) && !(dir && f.Dirs || !dir && f.Files) {
		return false
	}
	if f.Path != nil && !f.Path(fl.file.path) {
		return false
	}
	for _, kind := range f.Kinds {
		if kind == fl.kind {
			return true
		}
	}
	return len(f.Kinds) == 0
}

func (f *syncFault) partly() bool { return f.Partly != 0 && f.rand.Coin() }

func (d *Disk) failFlushLocked(fl *flight, f *syncFault) error {
	d.mu.counts.FailedSyncs++
	fl.file.inode.lose(fl.capture, f.Revert, f.partly, d.capturesLocked(fl))
	return device.NewError(fl.kind.String(), fl.file.path, -1, f.Errno)
}

// failDsyncLocked fails the sync half of a dsync write: the bytes are in the page
// cache, and the pages they lie in count as clean.
func (d *Disk) failDsyncLocked(fl *flight, f *syncFault) error {
	d.mu.counts.FailedSyncs++
	file := fl.file.inode
	d.freezeLocked(file)
	lost := &capture{}
	eachPage(fl.pos, int64(fl.landed), func(i, _, _ int, _ int64) {
		if i < len(file.pages) && file.pages[i].version != 0 {
			lost.pages = append(lost.pages, capturedPage{i, file.pages[i].cache, file.pages[i].version})
		}
	})
	file.lose(lost, f.Revert, f.partly, d.capturesLocked(fl))
	return device.NewError(fl.kind.String(), fl.file.path, fl.pos, f.Errno)
}

// capturesLocked are the other flushes of the same file under way.
func (d *Disk) capturesLocked(of *flight) []*capture {
	var others []*capture
	for fl := range d.mu.flights {
		if fl != of && fl.capture != nil && fl.file.inode == of.file.inode {
			others = append(others, fl.capture)
		}
	}
	return others
}
