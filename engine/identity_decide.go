package engine

import (
	"fmt"

	"felix.local/felix/sidecar"
)

// rootFiles are what a root says about itself. A file that is not there, or does
// not decode, is nil; an id that does not decode never gets this far.
type rootFiles struct {
	id                  *sidecar.StorageID
	run                 *sidecar.RunState
	runProblem          *sidecar.DecodeError
	registration        *sidecar.Registration
	registrationProblem *sidecar.DecodeError
}

// identityPlan is what becomes of the storage id.
type identityPlan struct {
	// make says to make a new id; otherwise id stays. again says to write id once
	// more, because nothing vouches for its being durable.
	make, again bool
	id          sidecar.StorageID
	reason      string
	previous    PreviousRun
	warnings    []string
}

// decideIdentity is a pure function. current is what the control plane holds for
// the node, 0 outside a cluster.
//
// An id stays as long as nothing acknowledged under it can be missing. A run-state
// of another id than storage-id's is from before that id was made: the crash it
// speaks of has been answered.
func decideIdentity(f rootFiles, current uint64) identityPlan {
	p := identityPlan{previous: previousRun(f)}
	if f.runProblem != nil {
		p.warnings = append(p.warnings, fmt.Sprintf("how the last run ended cannot be read, so the worst is taken for granted: %v", f.runProblem))
	}
	var registered uint64
	switch {
	case f.registration != nil:
		registered = f.registration.Incarnation
	case f.registrationProblem != nil:
		p.warnings = append(p.warnings, fmt.Sprintf("the last registration cannot be read and counts as none: %v", f.registrationProblem))
	}
	answered := f.id != nil && f.run != nil && f.run.ID != *f.id
	switch {
	case f.id == nil && f.run == nil && f.runProblem == nil:
		p.reason = "the directory had none"
	case f.id == nil:
		p.reason = "storage-id is gone"
	case current > registered:
		p.reason = fmt.Sprintf("the control plane holds incarnation %d of this node and the directory %d: it is older than the last registration",
			current, registered)
	case p.previous == RunUnreadable:
		p.reason = "run-state cannot be read"
	case p.previous == RunCrashedAhead && !answered:
		p.reason = "the last run crashed while it acknowledged ahead of its flushes"
	default:
		p.id, p.again = *f.id, answered || f.run == nil
		return p
	}
	p.make = true
	return p
}

func previousRun(f rootFiles) PreviousRun {
	switch {
	case f.runProblem != nil:
		return RunUnreadable
	case f.run == nil:
		return RunNone
	case f.run.State == sidecar.Stopped:
		return RunStopped
	case f.run.AcksBeforeSync:
		return RunCrashedAhead
	default:
		return RunCrashed
	}
}
