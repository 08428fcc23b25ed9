package uring

import (
	"errors"
	"fmt"
	"math/bits"
	"time"
)

// Defaults and limits of Options.
const (
	DefaultEntries       = 256
	DefaultWorkers       = 64
	DefaultRetries       = 64
	DefaultRetryTime     = 10 * time.Second
	DefaultEnterRetries  = 1024
	DefaultTransferBytes = 1 << 30

	entriesFloor = 32 // where halving on ENOMEM ends
	entriesLimit = 32768
)

// Options configure a Ring. The zero value is ready for use.
type Options struct {
	// Entries is the size of the submission queue, rounded up to a power of
	// two; one less is the most that is in flight. The ring is opened with half
	// as many, down to 32, as long as the kernel says that it has no memory.
	// Default 256, at least 2.
	Entries int
	// Workers is the most kernel worker threads for flushes and buffered writes
	// of one submitting thread. The kernel's own default is 4 per CPU, which on
	// a small machine keeps concurrent flushes from sharing one filesystem
	// commit. Default 64; negative leaves the kernel's default.
	Workers int
	// Retries is how often one operation is issued again in a row after the
	// kernel gave it back undone (EAGAIN, EINTR, ECANCELED, EFAULT). After the
	// first few it waits between two tries, up to 10 ms. Progress of a write
	// starts the count again. Default 64; negative means never.
	Retries int
	// RetryTime is for how long such an operation is issued again, even when
	// Retries are used up: it fails when both are. Default 10 s, which is longer
	// than the kernel keeps idle worker threads that others need the room of;
	// negative leaves it to Retries alone.
	RetryTime time.Duration
	// EnterRetries is how often in a row the kernel may refuse a submission for
	// want of resources while nothing is in flight that could free some, before the
	// ring counts as lost. The pause between two tries grows to 10 ms. Default 1024.
	EnterRetries int
	// TransferBytes is the most that one kernel operation writes; longer writes are
	// issued in pieces, one after the other. Default and maximum 1 GiB, which is
	// below what the kernel transfers at once.
	TransferBytes int
	// Hooks are for tests.
	Hooks Hooks

	// open replaces the driver, for tests with a scripted kernel.
	open func(entries, flags uint32) (driver, *openFailure)
	// now and after are the clock, for tests with one of their own.
	now   func() time.Time
	after func(time.Duration, func())
}

// Hooks let a test see and hold the loop. Product code leaves them nil.
type Hooks struct {
	// Gather is called on the loop's goroutine each time before it looks for new
	// operations. While it blocks, the loop is held and submissions line up.
	Gather func()
}

// validate lists every problem at once.
func (o Options) validate() error {
	var problems []error
	if o.Entries < 0 || o.Entries == 1 || o.Entries > entriesLimit {
		problems = append(problems, fmt.Errorf("uring: Entries is %d, must be 2 to %d", o.Entries, entriesLimit))
	}
	if o.EnterRetries < 0 {
		problems = append(problems, fmt.Errorf("uring: EnterRetries is %d, must not be negative", o.EnterRetries))
	}
	if o.TransferBytes < 0 || o.TransferBytes > DefaultTransferBytes {
		problems = append(problems, fmt.Errorf("uring: TransferBytes is %d, must be 0 to %d", o.TransferBytes, DefaultTransferBytes))
	}
	return errors.Join(problems...)
}

func (o Options) withDefaults() Options {
	setDefault(&o.Entries, DefaultEntries)
	setDefault(&o.Workers, DefaultWorkers)
	setDefault(&o.Retries, DefaultRetries)
	setDefault(&o.EnterRetries, DefaultEnterRetries)
	setDefault(&o.TransferBytes, DefaultTransferBytes)
	setDefault(&o.RetryTime, DefaultRetryTime)
	if o.Retries < 0 {
		o.RetryTime = -1
	}
	o.Entries = 1 << bits.Len(uint(o.Entries-1))
	if o.open == nil {
		o.open = openDriver
	}
	if o.now == nil {
		o.now = time.Now
		o.after = func(d time.Duration, f func()) { time.AfterFunc(d, f) }
	}
	return o
}

func setDefault[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// The kernel's cap must hold every piece.
const _ = uint(kernelTransferMax - DefaultTransferBytes)
