package engine

import (
	"cmp"
	"fmt"
)

// BelowCommitError refuses to drop records that a majority is known to hold. A
// replica that has to lose them is restored with RestoreTo, from a backup that is
// known to be right.
type BelowCommitError struct {
	Label string
	// Offset is the lowest that would have gone, Commit the commit offset, or the
	// tail where the log ends below it.
	Offset, Commit uint64
}

func (e *BelowCommitError) Error() string {
	return fmt.Sprintf("%s: records from %d on were to be dropped, and those below %d are committed; "+
		"let the other replicas catch up from this one, or restore it with felixd log restore", e.Label, e.Offset, e.Commit)
}

// OutsideLogError refuses to restore a log to an offset that it does not hold.
type OutsideLogError struct {
	Label string
	// Offset was asked for; the log holds [Base, Tail).
	Offset, Base, Tail uint64
}

func (e *OutsideLogError) Error() string {
	return fmt.Sprintf("%s: cannot be restored to %d; it holds offsets %d to %d", e.Label, e.Offset, e.Base, e.Tail)
}

// SupersededError refuses a leader of a generation that is over.
type SupersededError struct {
	Label string
	// Generation is the leader's, Accepted the newest one known here.
	Generation, Accepted uint64
}

func (e *SupersededError) Error() string {
	return fmt.Sprintf("%s: generation %d is over; %d was accepted since", e.Label, e.Generation, e.Accepted)
}

// PromisedError refuses a second leader at one generation, and an append to a log that
// another broker leads.
type PromisedError struct {
	Label      string
	Generation uint64
	// Leader is the one that was accepted, "" when it was not named.
	Leader string
}

func (e *PromisedError) Error() string {
	return fmt.Sprintf("%s: generation %d was accepted from %s; another leader needs a newer one", e.Label, e.Generation,
		cmp.Or(e.Leader, "a leader without a name"))
}

// GivenUpError refuses every leader at a generation that was given up, this broker
// included.
type GivenUpError struct {
	Label      string
	Generation uint64
}

func (e *GivenUpError) Error() string {
	return fmt.Sprintf("%s: generation %d was given up after a crash; a newer one has to be chosen", e.Label, e.Generation)
}

// DivergedError says that this log and its leader's differ. TruncationPoint tells
// from where on the records may go.
type DivergedError struct {
	Label string
	// Offset is the first at which they are known to differ.
	Offset uint64
	// Reason says in what.
	Reason string
}

func (e *DivergedError) Error() string {
	return fmt.Sprintf("%s: differs from its leader's log at offset %d: %s", e.Label, e.Offset, e.Reason)
}

// HistoryError refuses to repair a divergence without an operator, or to append
// behind records that may differ: what the generations say is not enough to tell
// which records may go.
type HistoryError struct{ Label, Reason string }

func (e *HistoryError) Error() string {
	return e.Label + ": cannot tell from where on its records may be dropped: " + e.Reason +
		"; compare the replicas, or rebuild this one (felixd log reset)"
}

// ShipmentGapError refuses records that do not follow what the log holds.
type ShipmentGapError struct {
	Label string
	// First is where the shipment begins, Tail where the log ends.
	First, Tail uint64
}

func (e *ShipmentGapError) Error() string {
	return fmt.Sprintf("%s: was sent records from %d on and ends at %d; send those before first, or reset it to %d",
		e.Label, e.First, e.Tail, e.First)
}
