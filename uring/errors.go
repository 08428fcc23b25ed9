package uring

import (
	"fmt"
	"syscall"
	"time"
)

// The stages of opening a ring, as SetupError names them.
const (
	stageSetup  = "io_uring_setup"
	stageMap    = "mmap of the ring"
	stageProbe  = "probe of the operations"
	stageWakeup = "eventfd"
)

// SetupError says why no ring could be opened.
type SetupError struct {
	// Stage is the step that failed.
	Stage string
	// Errno is the kernel's answer.
	Errno syscall.Errno
	// Missing lists operations that this kernel does not have, when that is
	// the reason.
	Missing []string
}

// Error names the stage and the kernel's answer.
func (e *SetupError) Error() string {
	if len(e.Missing) > 0 {
		return fmt.Sprintf("no io_uring: this kernel lacks the operations %v", e.Missing)
	}
	return fmt.Sprintf("no io_uring: %s: %v", e.Stage, e.Errno)
}

// Unwrap gives the errno.
func (e *SetupError) Unwrap() error { return e.Errno }

// LostError says that the ring broke while it was in use. What was in flight may
// or may not have happened, and only a new process can use the files safely.
type LostError struct {
	// Call is what failed.
	Call string
	// Cause is the kernel's answer or a description.
	Cause error
}

// Error says what broke and what to do.
func (e *LostError) Error() string {
	return fmt.Sprintf("the ring is lost: %s: %v; restart the process", e.Call, e.Cause)
}

// Unwrap gives the cause.
func (e *LostError) Unwrap() error { return e.Cause }

// WorkerError says that the kernel gave an operation back undone, over and over,
// because it could not start the thread that was to carry it out.
type WorkerError struct {
	// Errno is the kernel's answer.
	Errno syscall.Errno
	// Tries is how often the operation was issued, For how long.
	Tries int
	For   time.Duration
}

// Error says what is missing and what to do.
func (e *WorkerError) Error() string {
	return fmt.Sprintf("the kernel could not start its worker threads (%v, %d tries in %v); raise ulimit -u or pids.max",
		e.Errno, e.Tries, e.For.Round(time.Millisecond))
}

// Unwrap gives the errno.
func (e *WorkerError) Unwrap() error { return e.Errno }
