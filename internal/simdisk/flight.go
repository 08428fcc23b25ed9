package simdisk

import (
	"io/fs"
	"math"
	"syscall"

	"felix.local/felix/device"
)

// flight is a data-path operation under way: issued, then, for a write, landed in
// the page cache piece by piece, then settled. A crash finds it in between.
type flight struct {
	id   uint64
	kind device.Kind
	file *file
	pos  int64
	buf  []byte
	// landed bytes are in the page cache; the last piece began at from.
	landed, from int
	// version of the last landing, and the pages that were clean before it.
	version uint64
	clean   []int
	capture *capture
}

// maxFileBytes bounds how far into a file a test may write; memory is taken for
// the page table up to there.
const maxFileBytes = 1 << 32

// issue begins an operation on f, which op names or wraps. What a flush covers is
// fixed here.
func (d *Disk) issue(f *file, op *device.Op) (*flight, error) {
	d.before(Change{What: "issue", Path: f.path, Kind: op.Kind, Pos: op.Pos})
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := f.admitsLocked(op); err != nil {
		pos := int64(-1)
		if op.Kind == device.Write || op.Kind == device.WriteDsync || op.Kind == device.Allocate {
			pos = op.Pos
		}
		return nil, device.NewError(op.Kind.String(), f.path, pos, err)
	}
	d.mu.nextFlight++
	fl := &flight{id: d.mu.nextFlight, kind: op.Kind, file: f, pos: op.Pos}
	switch op.Kind {
	case device.Write, device.WriteDsync:
		fl.buf = op.Buf
	case device.Flush, device.FlushAll:
		d.freezeLocked(f.inode)
		fl.capture = f.inode.capture(d.stepLocked())
	}
	d.mu.flights[fl] = struct{}{}
	return fl, nil
}

// admitsLocked refuses what no file would take.
func (f *file) admitsLocked(op *device.Op) error {
	if f.closed {
		return fs.ErrClosed
	}
	length := op.Len
	switch op.Kind {
	case device.Flush, device.FlushAll:
		return nil
	case device.Write, device.WriteDsync:
		length = int64(len(op.Buf))
	case device.Allocate:
		if length <= 0 {
			return syscall.EINVAL
		}
	default:
		panic("simdisk: " + op.Kind.String() + " is no operation")
	}
	switch {
	case f.inode.isDir() || f.mode == device.ReadOnly:
		return syscall.EBADF
	case op.Pos < 0:
		return syscall.EINVAL
	case op.Pos > math.MaxInt64-length, op.Kind != device.Allocate && op.Pos+length > maxFileBytes:
		return syscall.EFBIG
	}
	return nil
}

// land puts the next n bytes of a write into the page cache, as one piece.
func (d *Disk) land(fl *flight, n int) {
	d.before(Change{What: "land", Path: fl.file.path, Kind: fl.kind, Pos: fl.pos + int64(fl.landed)})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.landLocked(fl, n)
}

func (d *Disk) landLocked(fl *flight, n int) {
	if n == 0 {
		return
	}
	f := fl.file.inode
	pos := fl.pos + int64(fl.landed)
	fl.clean = fl.clean[:0]
	eachPage(pos, int64(n), func(i, _, _ int, _ int64) {
		if i >= len(f.pages) || f.pages[i].version == 0 {
			fl.clean = append(fl.clean, i)
		}
	})
	fl.version = d.stepLocked()
	f.write(pos, fl.buf[fl.landed:fl.landed+n], fl.version)
	fl.from = fl.landed
	fl.landed += n
}

// settle ends an operation: what it made durable is durable from here on. The
// error is a *device.Error.
func (d *Disk) settle(fl *flight) error {
	d.before(Change{What: "settle", Path: fl.file.path, Kind: fl.kind, Pos: fl.pos})
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.settleLocked(fl)
}

func (d *Disk) settleLocked(fl *flight) error {
	delete(d.mu.flights, fl)
	f := fl.file.inode
	d.mu.counts.add(fl)
	switch fl.kind {
	case device.WriteDsync:
		if fault := d.syncFaultLocked(fl); fault != nil {
			return d.failDsyncLocked(fl, fault)
		}
		from := fl.pos + int64(fl.from)
		f.reachRange(from, fl.buf[fl.from:fl.landed], fl.clean, fl.version, d.stepLocked())
	case device.Flush, device.FlushAll:
		defer f.release()
		if fault := d.syncFaultLocked(fl); fault != nil {
			return d.failFlushLocked(fl, fault)
		}
		f.reach(fl.capture)
	}
	return nil
}

// abandon ends an operation that did not succeed elsewhere: nothing becomes
// durable by it, and what it was to make durable stays as it was.
func (d *Disk) abandon(fl *flight) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.mu.flights, fl)
	if fl.capture != nil {
		fl.file.inode.release()
	}
}

func (c *Counts) add(fl *flight) {
	switch {
	case fl.kind == device.Write:
		c.Writes++
	case fl.kind == device.WriteDsync:
		c.DsyncWrites++
	case fl.kind == device.Allocate:
		c.Allocates++
	case fl.file.inode.isDir():
		c.DirFlushes++
	default:
		c.Flushes++
	}
}
