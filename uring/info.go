package uring

import (
	"fmt"
	"syscall"
)

// Info describes an open ring, for logs and diagnosis.
type Info struct {
	// Driver is the driver compiled in: "native" or "giouring".
	Driver string
	// Entries and CQEntries are the sizes of the two queues.
	Entries, CQEntries int
	// InFlightMax is the bound on operations in the kernel.
	InFlightMax int
	// Features are the kernel's feature bits, SetupFlags the flags that were
	// accepted.
	Features, SetupFlags uint32
	// Opcodes are the operations used here that the probe says exist. Empty when the
	// probe was refused.
	Opcodes []string
	// OpcodeCount is how many operations the kernel knows; 0 when unknown.
	OpcodeCount int
	// ProbeRefused is why the kernel did not list its operations, or 0. The
	// caller then learns by doing.
	ProbeRefused syscall.Errno
	// WorkersRefused is why the worker maximum could not be set, or 0.
	WorkersRefused syscall.Errno
	// WorkersBounded is the maximum of kernel workers for file operations, of
	// one submitting thread; 0 when unknown. WorkersBoundedBefore is what the kernel
	// would have used.
	WorkersBounded, WorkersBoundedBefore int
	// WorkersUnbounded is the kernel's maximum for other operations.
	WorkersUnbounded int
}

// String is one line for a log.
func (i Info) String() string {
	return fmt.Sprintf("driver %s, %d entries, %d completions, %d in flight, features %#x, flags %#x, workers %d (kernel default %d)",
		i.Driver, i.Entries, i.CQEntries, i.InFlightMax, i.Features, i.SetupFlags, i.WorkersBounded, i.WorkersBoundedBefore)
}
