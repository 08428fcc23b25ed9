package device

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// Perform runs op with blocking system calls.
func (f *osFile) Perform(op *Op) (int, error) {
	op.Pieces = 0
	fd, err := f.descriptor()
	if err != nil {
		return 0, f.fail(op.Kind.String(), -1, err)
	}
	if op.Pos < 0 && op.Kind <= WriteDsync || op.Kind == Allocate && (op.Pos < 0 || op.Len < 0) {
		// pwritev2 takes position -1 for the descriptor's own.
		return 0, f.fail(op.Kind.String(), op.Pos, unix.EINVAL)
	}
	switch op.Kind {
	case Write, WriteDsync:
		n, err := writeAll(fd, op)
		return n, f.fail(op.Kind.String(), op.Pos+int64(n), err)
	case Flush:
		return 0, f.fail(op.Kind.String(), -1, flushOnce(op, func() error { return unix.Fdatasync(fd) }))
	case FlushAll:
		return 0, f.fail(op.Kind.String(), -1, flushOnce(op, func() error { return unix.Fsync(fd) }))
	case Allocate:
		return 0, f.fail(op.Kind.String(), op.Pos, allocate(fd, op))
	default:
		panic(fmt.Sprintf("device: %v is no operation", op.Kind))
	}
}

// writeAll repeats short transfers until everything is written. A transfer that
// ran into a full disk after some bytes reports those bytes; only the next one
// gets the errno.
func writeAll(fd int, op *Op) (int, error) {
	written, repeats := 0, 0
	for {
		op.Pieces++
		n, err := writeOnce(fd, op.Kind, op.Buf[written:], op.Pos+int64(written))
		if err != nil {
			if repeatable(err) && repeats < repeatsMax {
				repeats++
				continue
			}
			return written, err
		}
		written += n
		if written == len(op.Buf) {
			return written, nil
		}
		if n == 0 {
			// No progress and no errno: repeating could go on for ever.
			return written, io.ErrShortWrite
		}
	}
}

func writeOnce(fd int, kind Kind, p []byte, pos int64) (int, error) {
	if kind == WriteDsync {
		return unix.Pwritev2(fd, [][]byte{p}, pos, unix.RWF_DSYNC)
	}
	return unix.Pwrite(fd, p, pos)
}

// flushOnce flushes exactly once. After a failed flush the kernel counts the
// pages it could not write as clean, and a second flush would report success
// for data that is gone.
//
// That holds for EINTR too. A flush interrupted before it did anything is
// restarted by the kernel itself, since the Go runtime installs its handlers with
// SA_RESTART. An EINTR that gets here was made by a network or user-space
// filesystem part of the way through, possibly in place of a write error that
// was consumed on the way, so nobody can say that a second call would still
// report it.
func flushOnce(op *Op, flush func() error) error {
	op.Pieces = 1
	return flush()
}

// allocate reserves blocks. The call is interruptible (tmpfs gives up and frees
// what it took when a signal is pending) and safe to repeat.
func allocate(fd int, op *Op) error {
	var err error
	for range repeatsMax {
		op.Pieces++
		err = unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, op.Pos, op.Len)
		if !repeatable(err) {
			return err
		}
	}
	return err
}

// repeatable says that a read, write or reservation did nothing and may be
// issued again. It never applies to a flush.
func repeatable(err error) bool {
	return errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN)
}
