package sidecar

// Promise is what a broker holds itself to for a shard: at Generation it follows
// Leader and nobody else, and below it nobody at all.
type Promise struct {
	// Generation is the highest accepted; 0 when none was.
	Generation uint64
	// Leader is whom Generation was accepted from, "" when nobody is on record.
	Leader string
	// GivenUp says that Generation has no leader, this broker included. Leader is
	// "" then.
	GivenUp bool
}

// HasLeader says that somebody is on record for the generation.
func (p Promise) HasLeader() bool { return p.Leader != "" }

// Reconcile makes one promise of the two files, either of which may be absent
// (nil). A ballot ahead of the replica is a raise whose second write the power
// cut short: its generation counts, which can only make the broker stricter. A
// ballot behind it belongs to a generation that is over, and names nobody.
func Reconcile(replica *Replica, ballot *Ballot) Promise {
	var generation uint64
	if replica != nil {
		generation = replica.Generation
	}
	if ballot == nil || ballot.Generation < generation {
		return Promise{Generation: generation}
	}
	return Promise{Generation: ballot.Generation, Leader: ballot.Leader, GivenUp: ballot.GivenUp()}
}

// Verdict is the answer to a leader.
type Verdict uint8

const (
	// Superseded: a newer generation was accepted; the leader is replaced.
	Superseded Verdict = iota + 1
	// Promised: the generation was accepted from another leader.
	Promised
	// GivenUp: the generation has no leader any more.
	GivenUp
	// Current: the leader is the one that is followed.
	Current
	// Raised: the leader is followed from here on.
	Raised
)

// String gives the verdict's name, as logs and metrics print it.
func (v Verdict) String() string {
	switch v {
	case Superseded:
		return "superseded"
	case Promised:
		return "promised"
	case GivenUp:
		return "given_up"
	case Current:
		return "current"
	case Raised:
		return "raised"
	default:
		return "unknown"
	}
}

// Accepted says that what the leader sent may be stored, once the decision's
// writes are durable.
func (v Verdict) Accepted() bool { return v == Current || v == Raised }

// Decision is a verdict and what it takes. The writes are made durable in order,
// Ballot before Replica, before anything from the leader is stored or
// acknowledged; only then does Next hold. After a failed write the old promise
// still holds in memory, and neither it nor Next is known to be on disk.
type Decision struct {
	Verdict Verdict
	// Next is the promise afterwards; the same as before when nothing is written.
	Next Promise
	// Ballot is the ballot to write, or nil.
	Ballot *Ballot
	// Replica says that a replica with Next.Generation is to be written, its
	// commit offset and flags kept.
	Replica bool
}

// Accept decides about a leader that speaks at a generation; leader is "" when it
// is not named. A leader's id has to pass CheckLeader first.
func (p Promise) Accept(generation uint64, leader string) Decision {
	unchanged := func(v Verdict) Decision { return Decision{Verdict: v, Next: p} }
	switch {
	case generation < p.Generation:
		return unchanged(Superseded)
	case generation > p.Generation:
		d := Decision{Verdict: Raised, Next: Promise{Generation: generation, Leader: leader}, Replica: true}
		if leader != "" {
			d.Ballot = &Ballot{Generation: generation, Leader: leader}
		}
		return d
	case p.GivenUp:
		// An unnamed leader is one too.
		return unchanged(GivenUp)
	case leader == "" || leader == p.Leader:
		return unchanged(Current)
	case p.HasLeader():
		return unchanged(Promised)
	default:
		return Decision{
			Verdict: Current,
			Next:    Promise{Generation: generation, Leader: leader},
			Ballot:  &Ballot{Generation: generation, Leader: leader},
		}
	}
}

// GiveUp gives the accepted generation up: nobody is followed at it again. It is
// what a leader does that comes back from a crash which may have cost it records
// it had acknowledged. The ballot has to be durable before the log is served.
func (p Promise) GiveUp() (next Promise, ballot Ballot) {
	return Promise{Generation: p.Generation, GivenUp: true}, Ballot{Generation: p.Generation}
}
