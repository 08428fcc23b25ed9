package engine

import (
	"context"

	"felix.local/felix/segment"
)

// StartGeneration is a leader's first act at a generation, before it serves the
// log: it notes where the generation begins and, on a log that holds records,
// writes the record that says so as the generation's first, so that what a
// majority holds of it covers all that was inherited. It returns when the record is
// acknowledged under the log's fsync mode; the note is durable before.
//
// offset is where the generation begins; recorded is false where no record was
// written: on an empty log, and where the generation has records already. A segment
// that cannot hold such a record is rolled first. Appends wait meanwhile.
//
// A log that followed another leader takes appends again once it returned.
//
// leader is the node id of the caller, "" when it is not named. A generation that is
// older than one that was accepted or that wrote here is a *SupersededError, one that
// was accepted from another leader a *PromisedError, one that was given up a
// *GivenUpError, and one that was not accepted here yet an *InvalidRangeError.
func (l *Log) StartGeneration(ctx context.Context, generation uint64, leader string) (offset uint64, recorded bool, err error) {
	leave, err := l.exclusive(ctx, "start generation")
	if err != nil {
		return 0, false, err
	}
	defer leave()
	unlock, err := l.takeTurn(ctx, l.sidecars, "start generation")
	if err != nil {
		return 0, false, err
	}
	defer unlock()
	if offset, recorded, err = l.startGeneration(ctx, generation, leader); err != nil {
		return offset, recorded, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.replication.following = false
	return offset, recorded, nil
}

// startGeneration is for a caller that has the log to itself, and the turn.
func (l *Log) startGeneration(ctx context.Context, generation uint64, leader string) (offset uint64, recorded bool, err error) {
	l.mu.Lock()
	refused := l.followedLocked(generation, leader)
	accepted := l.mu.replication.promise.Generation
	newest, any := l.mu.replication.epochs.Newest()
	base, next, poison := l.baseLocked(), l.mu.written, l.mu.poison
	l.mu.Unlock()
	switch {
	case poison != nil:
		return 0, false, poison
	case any && generation < newest.Generation:
		return 0, false, &SupersededError{Label: l.label, Generation: generation, Accepted: max(accepted, newest.Generation)}
	case refused != nil:
		return 0, false, refused
	case any && newest.Generation == generation && newest.Start < next:
		return newest.Start, false, nil
	}
	if err := l.recordGeneration(generation, next); err != nil || base == next {
		return next, false, err
	}
	err = l.appendExclusive(ctx, Record{
		Payload: segment.GenerationStartPayload(generation),
		Mark:    segment.Mark{Kind: segment.GenerationStart},
	})
	return next, err == nil, err
}
