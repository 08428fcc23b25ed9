package sidecar

const (
	// RunStateName is the file in a root.
	RunStateName = "run-state"
	// RunStateBytes is its length.
	RunStateBytes = 28

	flagAcksBeforeSync = 1
)

func runStateKind() kind { return kind{RunStateName, 0x464C524E, 1} } // "FLRN"

// State says how a run stands.
type State uint8

const (
	// Running is written before the first record of a run; found at a start, it
	// says that the last run crashed.
	Running State = 1
	// Stopped is written last, after every sync of a clean stop.
	Stopped State = 2
)

// String gives the state's name.
func (s State) String() string {
	switch s {
	case Running:
		return "running"
	case Stopped:
		return "stopped cleanly"
	default:
		return "unknown"
	}
}

// RunState says whether the last run stopped cleanly and what a crash may have
// cost.
type RunState struct {
	State State
	// AcksBeforeSync says that this run acknowledges records before they are
	// synced (periodic, none), so that a crash may lose acknowledged ones.
	AcksBeforeSync bool
	// ID is the storage id that the run started under.
	ID StorageID
}

// AppendTo appends the 28 bytes of the file.
func (r RunState) AppendTo(dst []byte) []byte {
	start := len(dst)
	word := uint16(r.State) << 8
	if r.AcksBeforeSync {
		word |= flagAcksBeforeSync
	}
	dst = runStateKind().appendHead(dst, word)
	dst = append(dst, r.ID[:]...)
	return appendChecksum(dst, start)
}

// DecodeRunState reads exactly 28 bytes. The error is a *DecodeError; whoever gets
// one takes a crash of the worse kind for granted. That is why an unknown flag is
// an error: it may speak of one.
func DecodeRunState(b []byte) (RunState, error) {
	k := runStateKind()
	if err := k.checkHead(b, RunStateBytes); err != nil {
		return RunState{}, err
	}
	if err := k.checkWhole(b, RunStateBytes); err != nil {
		return RunState{}, err
	}
	state, flags := State(b[6]), b[7]
	if state != Running && state != Stopped {
		return RunState{}, contentError(RunStateName, "state %d is neither running (1) nor stopped cleanly (2)", state)
	}
	if flags&^flagAcksBeforeSync != 0 {
		return RunState{}, contentError(RunStateName, "unknown flags in %#02x", flags)
	}
	return RunState{State: state, AcksBeforeSync: flags&flagAcksBeforeSync != 0, ID: StorageID(b[8:24])}, nil
}
