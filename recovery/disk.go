package recovery

import (
	"errors"
	"path/filepath"

	"felix.local/felix/device"
)

// flush makes a file's completed writes and its length durable.
func (d Disk) flush(f device.File) error {
	return device.Do(d.Queue, &device.Op{Kind: device.Flush, File: f})
}

// flushDir makes the names in a directory durable.
func (d Disk) flushDir(dir string) error {
	f, err := d.FS.OpenDir(dir)
	if err != nil {
		return err
	}
	err = device.Do(d.Queue, &device.Op{Kind: device.FlushAll, File: f})
	return errors.Join(err, f.Close())
}

// flushParent makes the name of path durable.
func (d Disk) flushParent(path string) error { return d.flushDir(filepath.Dir(path)) }

func (d Disk) write(f device.File, b []byte, position int64) error {
	return device.Do(d.Queue, &device.Op{Kind: device.Write, File: f, Buf: b, Pos: position})
}

// writeDurably writes b and returns when it is on the device. A dsync write
// covers no more than one transfer's bytes, so one that took several is followed
// by a flush, and so is a write where dsync writes cannot be had.
func (d Disk) writeDurably(f device.File, b []byte, position int64) error {
	if d.NoDsync {
		return d.writeAndFlush(f, b, position)
	}
	op := device.Op{Kind: device.WriteDsync, File: f, Buf: b, Pos: position}
	err := device.Do(d.Queue, &op)
	switch {
	case err == nil && op.Pieces <= 1:
		return nil
	case err == nil:
		return d.flush(f)
	case errors.Is(err, device.ErrUnsupported):
		return d.writeAndFlush(f, b, position)
	default:
		return err
	}
}

func (d Disk) writeAndFlush(f device.File, b []byte, position int64) error {
	if err := d.write(f, b, position); err != nil {
		return err
	}
	return d.flush(f)
}
