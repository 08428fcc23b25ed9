package powerloss

import (
	"errors"
	"fmt"
	"runtime"

	"felix.local/felix/device"
	"felix.local/felix/internal/prove/bubble"
)

// Host is what the logs live on.
type Host string

// The hosts.
const (
	// Simulated is a disk in memory, with its own order of completions.
	Simulated Host = "simulated"
	// Ring and Pool are real files, through a ring of the kernel and through the
	// blocking pool.
	Ring Host = "ring"
	Pool Host = "pool"
)

// ErrNoRing says that this system gives no ring: not even one, before any workload.
var ErrNoRing = errors.New("no io_uring here")

// ErrNoRow says that a host has no row of the name that Options.Only asks for.
var ErrNoRow = errors.New("no such row")

// FirstSeed is that of runs that choose none.
const FirstSeed uint64 = 0x5eed0001

// Options choose the workloads of a run.
type Options struct {
	// Seeds is how many workloads of each row are run, with seeds from FirstSeed
	// on. Default 1, and the constant FirstSeed.
	Seeds     int
	FirstSeed uint64
	// Host is what the logs live on. Default Simulated.
	Host Host
	// Dir is an existing directory for real files.
	Dir string
	// Kinds of workloads to run. Default: all that the host can have.
	Kinds []Kind
	// Only keeps the rows whose name has this in it. Default: all.
	Only string
	// Images is how many are taken at each checkpoint, beside those taken in the
	// middle of something. Default 6, and 1 on real files.
	Images int
	// Bubble gives the bubbles that simulated workloads run in. Required for
	// Simulated.
	Bubble bubble.Runner
	// Workers is how many workloads run together. Default: as many as there are
	// processors, and on real files four times as many, since they wait for the device
	// most of the time.
	Workers int
	// FailuresKept bounds the failures in the result. Default 20.
	FailuresKept int
	// EndAtFailure begins no workload any more once one has failed: that is for
	// whoever asks whether any fails.
	EndAtFailure bool
	// openRing, when set, gives the rings of the host Ring, so that a test can run
	// out of them, and files the namespace of real files, so that it can take
	// something away.
	openRing func() (device.Queue, error)
	files    device.FS
}

const (
	defaultFailuresKept = 20
	waitingWorkers      = 4
)

func (o Options) withDefaults() Options {
	if o.Seeds == 0 {
		o.Seeds = 1
	}
	if o.FirstSeed == 0 {
		o.FirstSeed = FirstSeed
	}
	if o.Host == "" {
		o.Host = Simulated
	}
	if len(o.Kinds) == 0 {
		for _, k := range Kinds() {
			if k.runsOn(o.Host) {
				o.Kinds = append(o.Kinds, k)
			}
		}
	}
	if o.Images == 0 {
		o.Images = 6
		if o.Host != Simulated {
			o.Images = 1
		}
	}
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
		if o.Host != Simulated {
			o.Workers *= waitingWorkers
		}
	}
	if o.FailuresKept == 0 {
		o.FailuresKept = defaultFailuresKept
	}
	return o
}

// validate lists everything that is wrong with the options.
func (o Options) validate() error {
	var problems []error
	if o.Seeds < 0 || o.Images < 0 || o.Workers < 0 || o.FailuresKept < 0 {
		problems = append(problems, fmt.Errorf("seeds %d, images %d, workers %d, failures kept %d: one is too small",
			o.Seeds, o.Images, o.Workers, o.FailuresKept))
	}
	switch o.Host {
	case Simulated:
		if o.Bubble == nil {
			problems = append(problems, errors.New("simulated disks need bubbles"))
		}
	case Ring, Pool:
		if o.Dir == "" {
			problems = append(problems, errors.New("real files need a directory"))
		}
	default:
		problems = append(problems, fmt.Errorf("%q is no host", o.Host))
	}
	for _, k := range o.Kinds {
		if _, known := k.work(); !known {
			problems = append(problems, fmt.Errorf("%q is no kind of workload", k))
		} else if !k.runsOn(o.Host) {
			problems = append(problems, fmt.Errorf("%q needs a simulated disk", k))
		}
	}
	return errors.Join(problems...)
}
