package device

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// Class is what an error means for a caller that must decide whether to rewind,
// retry or stop.
type Class uint8

// The classes.
const (
	// ClassNone is the class of a nil error.
	ClassNone Class = iota
	// ClassFull: no space, no quota or no inodes. The operation did not happen.
	ClassFull
	// ClassReadOnly: the filesystem or file does not take writes.
	ClassReadOnly
	// ClassTooManyFiles: the process or system has no descriptors left;
	// trying again later may work.
	ClassTooManyFiles
	// ClassUnsupported: this disk cannot do that; asking again is pointless.
	ClassUnsupported
	// ClassIO is every other failure. The errno of a device error is not
	// always EIO (newer NVMe gives ENODATA, others EREMOTEIO), so this is the
	// default and nothing matches on EIO alone.
	ClassIO
	// ClassOutcomeUnknown: the backend broke while the operation was under
	// way; it may or may not have happened.
	ClassOutcomeUnknown
)

var classNames = [...]string{"none", "full", "read-only", "too many files", "unsupported", "i/o", "outcome unknown"}

// String gives the class's name.
func (c Class) String() string { return classNames[c] }

// The errors a caller may look for with errors.Is.
var (
	ErrFull           = errors.New("disk full")
	ErrReadOnly       = errors.New("read-only")
	ErrTooManyFiles   = errors.New("too many open files")
	ErrUnsupported    = errors.New("not supported by this filesystem or kernel")
	ErrIO             = errors.New("i/o error")
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrNotRegular refuses a segment name that is no regular file.
	ErrNotRegular = errors.New("not a regular file")
	// ErrQueueClosed completes ops submitted after Close.
	ErrQueueClosed = errors.New("the i/o queue is closed")
)

var classErrors = [...]error{nil, ErrFull, ErrReadOnly, ErrTooManyFiles, ErrUnsupported, ErrIO, ErrOutcomeUnknown}

// Error is a failed disk operation.
type Error struct {
	// Op names the operation ("open", "write_dsync", …).
	Op string
	// Path is the file or directory, when known.
	Path string
	// Pos is a byte position, or -1.
	Pos int64
	// Class is what the failure means.
	Class Class
	// Err is the cause, usually a syscall.Errno.
	Err error
}

// Error renders operation, path, position, class and cause.
func (e *Error) Error() string {
	where := e.Path
	if e.Pos >= 0 {
		where = fmt.Sprintf("%s at position %d", where, e.Pos)
	}
	if class := e.classText(); class != "" {
		return fmt.Sprintf("%s %s: %s (%v)", e.Op, where, class, e.Err)
	}
	return fmt.Sprintf("%s %s: %v", e.Op, where, e.Err)
}

// classText is what the class adds to the cause; empty when that is nothing.
func (e *Error) classText() string {
	switch {
	case e.Class == ClassIO, e.Class == ClassNone:
		return ""
	case errors.Is(e.Err, syscall.EACCES), errors.Is(e.Err, syscall.EPERM):
		return "not permitted; give this user the rights, or use another directory"
	case errors.Is(e.Err, syscall.EMFILE), errors.Is(e.Err, syscall.ENFILE):
		return "no descriptor left; raise the limit (ulimit -n)"
	default:
		return classErrors[e.Class].Error()
	}
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is matches the class errors of this package.
func (e *Error) Is(target error) bool { return target == classErrors[e.Class] && target != nil }

// NewError classifies err and says where it happened. pos is -1 when there is
// none. A nil err gives nil; an *Error is returned as it is.
func NewError(op, path string, pos int64, err error) error {
	if err == nil {
		return nil
	}
	var already *Error
	if errors.As(err, &already) {
		return err
	}
	return &Error{Op: op, Path: path, Pos: pos, Class: classify(err), Err: err}
}

// ClassOf gives the class of any error; one that no device made is ClassIO.
func ClassOf(err error) Class {
	if err == nil {
		return ClassNone
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	return classify(err)
}

func classify(err error) Class {
	for class, target := range classErrors {
		if target != nil && errors.Is(err, target) {
			return Class(class)
		}
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return ClassIO
	}
	switch errno {
	case syscall.ENOSPC, syscall.EDQUOT:
		return ClassFull
	case syscall.EROFS, syscall.EACCES, syscall.EPERM:
		return ClassReadOnly
	case syscall.EMFILE, syscall.ENFILE:
		return ClassTooManyFiles
	case syscall.EOPNOTSUPP, syscall.ENOSYS:
		return ClassUnsupported
	default:
		return ClassIO
	}
}

// LockedError says that a directory is locked by someone.
type LockedError struct {
	Dir string
	// PID is the holder as the kernel lists it, a hint; 0 when unknown.
	PID int
	// Self is true when this process holds the lock itself: the root is open
	// here, or its ring was lost and it can be opened only by a new process.
	Self bool
}

// Error says who holds the lock and what to do.
func (e *LockedError) Error() string {
	switch {
	case e.Self:
		return fmt.Sprintf("%s is already open in this process; close that store first "+
			"(after a lost ring, restart the process)", e.Dir)
	case e.PID != 0:
		return fmt.Sprintf("%s is locked by process %d; stop it first", e.Dir, e.PID)
	default:
		return fmt.Sprintf("%s is locked by another process; stop it first", e.Dir)
	}
}

// IsNotExist reports whether err says that a name does not exist.
func IsNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
