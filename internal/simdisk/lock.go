package simdisk

import (
	"io"
	"io/fs"
	"os"

	"felix.local/felix/device"
)

// lockState is the lock of one directory; it goes when nobody holds it.
type lockState struct {
	exclusive bool
	holders   int
}

// Lock takes the advisory lock of a directory. An image has none held: locks die
// with the process.
func (d *Disk) Lock(dir string, shared bool) (io.Closer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	found, err := d.dirLocked(dir)
	if err != nil {
		return nil, device.NewError("lock", dir, -1, err)
	}
	state := d.mu.locks[found]
	if state != nil && (state.exclusive || !shared) {
		return nil, &device.LockedError{Dir: dir, PID: os.Getpid(), Self: true}
	}
	if state == nil {
		state = &lockState{exclusive: !shared}
		d.mu.locks[found] = state
	}
	state.holders++
	return &heldLock{disk: d, inode: found, dir: dir}, nil
}

// heldLock is one hold; closed is under Disk.mu.
type heldLock struct {
	disk   *Disk
	inode  *inode
	dir    string
	closed bool
}

// Close gives the lock back, once.
func (l *heldLock) Close() error {
	l.disk.mu.Lock()
	defer l.disk.mu.Unlock()
	if l.closed {
		return device.NewError("unlock", l.dir, -1, fs.ErrClosed)
	}
	l.closed = true
	state := l.disk.mu.locks[l.inode]
	if state.holders--; state.holders == 0 {
		delete(l.disk.mu.locks, l.inode)
	}
	return nil
}
