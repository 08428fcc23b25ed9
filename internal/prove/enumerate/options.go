package enumerate

import (
	"errors"
	"fmt"
	"runtime"
	"slices"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/prove/bubble"
	"felix.local/felix/internal/simdisk"
)

// Roll is how a log comes to its next segment, and when the disk gets round to
// what is done beside the appends.
type Roll string

// The rolls.
const (
	// Inline: an append that does not fit seals the segment and begins the next.
	Inline Roll = "inline"
	// Background: the next segment is prepared, and the former one sealed, beside
	// the appends. All of it is over before the next operation begins.
	Background Roll = "background"
	// LatePreparation is Background with a disk that completes what was submitted
	// last first: preparing and sealing get nowhere before something waits for them.
	LatePreparation Roll = "background-prepared-late"
	// LateSeal is LatePreparation, but the next segment is prepared at once: the
	// log rolls early, and its former segment stays without a seal.
	LateSeal Roll = "background-sealed-late"
)

// Rolls are all rolls.
func Rolls() []Roll { return []Roll{Inline, Background, LatePreparation, LateSeal} }

// Modes are all fsync modes.
func Modes() []engine.FsyncMode {
	return []engine.FsyncMode{engine.FsyncNone, engine.FsyncPeriodic, engine.FsyncOnCommit}
}

// Options choose what is enumerated.
type Options struct {
	// OpsMax is the length of the longest workloads. Default 4.
	OpsMax int
	// Modes and Rolls, each with each. Default: all.
	Modes []engine.FsyncMode
	Rolls []Roll
	// Journaled has every case commit through a journal, whose files are there already.
	// Modes is on_commit then.
	Journaled bool
	// Bound says which states of each crash point are told apart. Its zero value
	// is whole pages, and the durable and the current length of each file.
	// StatesMax defaults to 4096 per crash point.
	Bound simdisk.Bound
	// Bubble runs a workload where time stands still. It has no default.
	Bubble bubble.Runner
	// Workers is how many workloads are run together. Default: as many as there
	// are processors.
	Workers int
	// FailuresKept bounds the failures in the result. Default 20.
	FailuresKept int
	// Only, when set, is a Case as a failure prints it; nothing else is run. The
	// number of a state means the same under the same Bound only.
	Only string
	// Wrap, when set, stands between the log and the queue of its disk while the
	// workload runs. It lets a test show that what a broken queue does is noticed.
	Wrap func(device.Queue) device.Queue
	// wrapAfter is Wrap for the opening of what a power loss left.
	wrapAfter func(device.Queue) device.Queue
	// visitAll visits the states also of crash points that have none of their own.
	visitAll bool
}

const (
	defaultOpsMax       = 4
	defaultStatesMax    = 4096
	defaultFailuresKept = 20
	// opsMaxMax keeps the number of workloads, 8 to the power of it, within hours.
	opsMaxMax = 5
)

func (o Options) withDefaults() Options {
	if o.OpsMax == 0 {
		o.OpsMax = defaultOpsMax
	}
	if o.Journaled {
		o.Modes = []engine.FsyncMode{engine.FsyncOnCommit}
	}
	if len(o.Modes) == 0 {
		o.Modes = Modes()
	}
	if len(o.Rolls) == 0 {
		o.Rolls = Rolls()
	}
	if o.Bound.StatesMax == 0 {
		o.Bound.StatesMax = defaultStatesMax
	}
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.FailuresKept == 0 {
		o.FailuresKept = defaultFailuresKept
	}
	return o
}

// validate lists everything that is wrong with the options.
func (o Options) validate() error {
	var problems []error
	if o.Bubble == nil {
		problems = append(problems, errors.New("there is no bubble to run in"))
	}
	if o.OpsMax < 1 || o.OpsMax > opsMaxMax {
		problems = append(problems, fmt.Errorf("workloads of up to %d operations: 1 to %d can be had", o.OpsMax, opsMaxMax))
	}
	if o.Workers < 1 || o.FailuresKept < 0 || o.Bound.StatesMax < 2 || o.Bound.LengthStep < 0 {
		problems = append(problems, fmt.Errorf("workers %d, failures kept %d, states per crash point %d, length step %d: one is too small",
			o.Workers, o.FailuresKept, o.Bound.StatesMax, o.Bound.LengthStep))
	}
	for _, r := range o.Rolls {
		if !slices.Contains(Rolls(), r) {
			problems = append(problems, fmt.Errorf("%q is no kind of roll", r))
		}
	}
	return errors.Join(problems...)
}
