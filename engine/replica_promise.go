package engine

import (
	"context"
	"fmt"

	"felix.local/felix/sidecar"
)

// AcceptedGeneration is the highest generation at which a leader was accepted, 0
// for none.
func (l *Log) AcceptedGeneration() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.replication.promise.Generation
}

// AcceptedLeader is whom the accepted generation was accepted from, "" when nobody
// is on record. givenUp says that it has no leader.
func (l *Log) AcceptedLeader() (leader string, givenUp bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.replication.promise.Leader, l.mu.replication.promise.GivenUp
}

// AcceptGeneration asks whether the leader of a generation is the one to follow;
// leader is its node id, "" when it is not named. The verdict is Current or Raised
// for one that is. Otherwise the error is a *SupersededError, a *PromisedError or
// a *GivenUpError, and nothing changed.
//
// What it takes to hold to the answer after any crash is durable when it returns:
// the ballot, which names the leader, before replica, which raises the generation.
// In between a power loss leaves a generation that is accepted from the leader that
// was to be named, which can only make this replica stricter.
//
// After any other error the former answers hold. A ballot that was written then
// counts once the log is opened again.
func (l *Log) AcceptGeneration(ctx context.Context, generation uint64, leader string) (sidecar.Verdict, error) {
	if err := sidecar.CheckLeader(leader); err != nil {
		return 0, &UnsupportedError{Label: l.label, Reason: "a leader cannot be named so: " + err.Error()}
	}
	// Nothing is to be written for a leader that is followed already.
	d, err := l.decide(generation, leader)
	if err != nil || d.Ballot == nil && !d.Replica {
		return d.Verdict, err
	}
	unlock, err := l.takeTurn(ctx, l.sidecars, "accept generation")
	if err != nil {
		return 0, err
	}
	defer unlock()
	if d, err = l.decide(generation, leader); err != nil {
		return d.Verdict, err
	}
	if d.Ballot != nil {
		if err := l.storeBallot(*d.Ballot); err != nil {
			return 0, err
		}
	}
	if d.Replica {
		l.mu.Lock()
		r := l.wantedReplicaLocked()
		l.mu.Unlock()
		r.Generation = d.Next.Generation
		if err := l.storeReplica(r); err != nil {
			return 0, err
		}
	}
	l.promise(d.Next)
	return d.Verdict, nil
}

// decide gives the answer to a leader as things stand.
func (l *Log) decide(generation uint64, leader string) (sidecar.Decision, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.servingLocked(); err != nil {
		return sidecar.Decision{}, err
	}
	return l.answerLocked(generation, leader)
}

// answerLocked is decide for a log in whatever state.
func (l *Log) answerLocked(generation uint64, leader string) (sidecar.Decision, error) {
	p := l.mu.replication.promise
	d := p.Accept(generation, leader)
	switch d.Verdict {
	case sidecar.Superseded:
		return d, &SupersededError{Label: l.label, Generation: generation, Accepted: p.Generation}
	case sidecar.Promised:
		return d, &PromisedError{Label: l.label, Generation: generation, Leader: p.Leader}
	case sidecar.GivenUp:
		return d, &GivenUpError{Label: l.label, Generation: generation}
	default:
		return d, nil
	}
}

// followedLocked fails for a leader other than the one that is followed.
func (l *Log) followedLocked(generation uint64, leader string) error {
	d, err := l.answerLocked(generation, leader)
	if err == nil && d.Verdict != sidecar.Current {
		return &InvalidRangeError{Label: l.label, Reason: fmt.Sprintf(
			"generation %d was not accepted here, only those to %d; accept it first", generation, l.mu.replication.promise.Generation)}
	}
	return err
}

// ownLocked refuses records of this broker's own while the log gets those of a leader:
// they would lie among that leader's, under its generation's name.
func (l *Log) ownLocked() error {
	r := &l.mu.replication
	switch {
	case !r.following:
		return nil
	case r.promise.GivenUp:
		return &GivenUpError{Label: l.label, Generation: r.promise.Generation}
	default:
		return &PromisedError{Label: l.label, Generation: r.promise.Generation, Leader: r.promise.Leader}
	}
}

// promise is what the log holds itself to from now on; the files say so.
func (l *Log) promise(next sidecar.Promise) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.replication.promise = next
	l.notifyLocked()
}

func (l *Log) storeBallot(b sidecar.Ballot) error {
	data, err := b.AppendTo(nil)
	if err != nil {
		return &UnsupportedError{Label: l.label, Reason: err.Error()}
	}
	return l.replaceFile(sidecar.BallotName, data)
}

// GiveUpGeneration makes the accepted generation one without a leader, this broker
// included, durably. It is for a leader that comes back from a crash which may have
// cost it records that it had acknowledged, before it serves the log.
func (l *Log) GiveUpGeneration(ctx context.Context) error {
	unlock, err := l.takeTurn(ctx, l.sidecars, "give up generation")
	if err != nil {
		return err
	}
	defer unlock()
	l.mu.Lock()
	err = l.servingLocked()
	next, ballot := l.mu.replication.promise.GiveUp()
	l.mu.Unlock()
	if err != nil {
		return err
	}
	if err := l.storeBallot(ballot); err != nil {
		return err
	}
	l.promise(next)
	return nil
}
