package powerloss

import (
	"context"
	"fmt"
	"slices"

	"felix.local/felix/engine"
	"felix.local/felix/segment"
	"felix.local/felix/sidecar"
)

// replicas crashes a log whose leaders change: it leads at a generation, follows one
// by shipments, gives one up, and is told what is committed. Images, of process
// deaths too, are taken in front of some changes of each step.
//
// In every image the log holds itself to the leader that was accepted last or that is
// being accepted; every record is of the generation that wrote it, which was accepted;
// the commit offset is one that was advanced to, and under on_commit none past the
// tail; and retention is held if that was asked for.
func (w *workload) replicas() error { return w.replicated(w.changeLeader) }

// resets crashes such a log while it is truncated, restored and reset.
func (w *workload) resets() error { return w.replicated(w.dropRecords) }

func (w *workload) replicated(between func(*truth) error) error {
	w.begin(1, 0)
	t := w.shards[0]
	t.standing = &standing{}
	w.hot, w.killed = w.hotWithin, true
	return w.lives(2, func() error {
		if t.standing.writing() == 0 {
			return w.amid(func() error { return w.lead(t) })
		}
		if w.rand.Below(5) != 0 {
			return nil
		}
		w.syncs.Wait()
		if err := w.amid(func() error { return between(t) }); err != nil || !t.standing.follows {
			return err
		}
		// A log that follows takes no appends of its own.
		return w.amid(func() error { return w.lead(t) })
	})
}

// changeLeader does something about the leader of a log.
func (w *workload) changeLeader(t *truth) error {
	switch w.rand.Below(6) {
	case 0:
		return w.lead(t)
	case 1:
		return w.giveUp(t)
	case 2:
		return w.holdRetention(t)
	case 3:
		return w.commit(t)
	default:
		return w.follow(t)
	}
}

// dropRecords drops records of a log, or readies it for that.
func (w *workload) dropRecords(t *truth) error {
	s := t.standing
	committed := min(s.commitMax, t.submitted)
	switch w.rand.Below(6) {
	case 0:
		return w.lead(t)
	case 1:
		return w.commit(t)
	case 2:
		return w.truncate(t, committed+w.rand.Below(t.submitted-committed+1))
	case 3, 4:
		base := t.log.BaseOffset()
		return w.restore(t, base+w.rand.Below(t.submitted-base+1))
	default:
		return w.reset(t, committed+w.rand.Below(100))
	}
}

// leaderNames are of those whom a log follows; the last one is not named.
var leaderNames = [...]string{"broker-1", "broker-2", ""}

func (w *workload) someLeader() string { return leaderNames[w.rand.Below(uint64(len(leaderNames)))] }

// raised is a generation above the accepted one.
func (w *workload) raised(t *truth) uint64 {
	return t.standing.promise.Generation + 1 + w.rand.Below(2)
}

// promising notes what a log is to hold itself to while do has it promise that.
func (w *workload) promising(t *truth, next sidecar.Promise, do func() error) error {
	w.mu.Lock()
	t.standing.nextPromise = &next
	w.mu.Unlock()
	if err := do(); err != nil {
		return err
	}
	w.sum.Accepted++
	w.mu.Lock()
	defer w.mu.Unlock()
	t.standing.promise, t.standing.nextPromise = next, nil
	return nil
}

// lead has the log lead at a new generation.
func (w *workload) lead(t *truth) error {
	ctx := context.Background()
	generation, leader := w.raised(t), w.someLeader()
	if err := w.promising(t, sidecar.Promise{Generation: generation, Leader: leader}, func() error {
		_, err := t.log.AcceptGeneration(ctx, generation, leader)
		return err
	}); err != nil {
		return err
	}
	first := t.submitted
	filled := first > t.log.BaseOffset()
	w.mu.Lock()
	if filled {
		w.submitLocked(t, generation, segment.GenerationStartPayload(generation))
	}
	t.standing.newest, t.standing.follows = generation, false
	w.mu.Unlock()
	offset, recorded, err := t.log.StartGeneration(ctx, generation, leader)
	if err == nil && (offset != first || recorded != filled) {
		err = fmt.Errorf("generation %d begins at %d, recorded %v, in a log of [%d, %d)", generation, offset, recorded, t.log.BaseOffset(), first)
	}
	if err != nil {
		return err
	}
	w.acknowledged(t)
	return nil
}

// submitLocked notes records that are about to be appended.
func (w *workload) submitLocked(t *truth, generation uint64, payloads ...[]byte) {
	t.want = append(t.want, payloads...)
	t.submitted += uint64(len(payloads))
	t.standing.writes(generation, len(payloads))
}

// acknowledged notes that all that was submitted was acknowledged.
func (w *workload) acknowledged(t *truth) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sum.Acked += int(t.submitted - t.acked)
	t.acked = t.submitted
	t.segments()
}

// follow has the log apply a shipment: some records of the newest generation here,
// and then those of the leader's, which may be a new one.
func (w *workload) follow(t *truth) error {
	s := t.standing
	next := s.promise
	if next.GivenUp || w.rand.Coin() {
		next = sidecar.Promise{Generation: w.raised(t), Leader: w.someLeader()}
	}
	shipment := engine.Shipment{
		Generation: next.Generation, Leader: next.Leader, First: t.submitted, Base: t.log.BaseOffset(),
		Generations: []sidecar.Epoch{{Generation: s.newest, Start: s.begins(s.newest)}},
	}
	former, own := w.rand.Below(3), 1+w.rand.Below(4)
	w.mu.Lock()
	for n := range former + own {
		generation := s.newest
		if n >= former {
			generation = next.Generation
		}
		if generation != s.newest {
			shipment.Generations = append(shipment.Generations, sidecar.Epoch{Generation: generation, Start: t.submitted})
		}
		p := payload(w.rand, w.seed)
		shipment.Records = append(shipment.Records, segment.Record{Offset: t.submitted, Payload: p})
		w.submitLocked(t, generation, p)
	}
	shipment.Tail, shipment.Commit = t.submitted, s.commitMax+w.rand.Below(t.submitted-min(s.commitMax, t.submitted)+1)
	s.commitMax = max(s.commitMax, min(shipment.Commit, t.submitted))
	w.mu.Unlock()
	if err := w.promising(t, next, func() error { return t.log.ApplyShipment(context.Background(), shipment) }); err != nil {
		return err
	}
	w.sum.Shipped += len(shipment.Records)
	s.follows = true
	w.acknowledged(t)
	return nil
}

func (w *workload) giveUp(t *truth) error {
	next, _ := t.standing.promise.GiveUp()
	return w.promising(t, next, func() error { return t.log.GiveUpGeneration(context.Background()) })
}

// commit advances the commit offset.
func (w *workload) commit(t *truth) error {
	s := t.standing
	if s.commitMax >= t.acked {
		return nil
	}
	w.mu.Lock()
	s.commitMax += 1 + w.rand.Below(t.acked-s.commitMax)
	w.mu.Unlock()
	return t.log.AdvanceCommitOffset(s.commitMax)
}

// holdRetention holds retention at the commit offset, or lets go of it.
func (w *workload) holdRetention(t *truth) error {
	s := t.standing
	next := !s.hold
	w.mu.Lock()
	s.nextHold = &next
	w.mu.Unlock()
	if err := t.log.HoldRetentionAtCommit(context.Background(), next); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s.hold, s.nextHold = next, nil
	return nil
}

// restore brings the log back to an offset, below the commit offset too.
func (w *workload) restore(t *truth, offset uint64) error {
	w.sum.Restored++
	s := t.standing
	w.mu.Lock()
	s.commitMin = min(s.commitMin, offset)
	w.mu.Unlock()
	if err := w.cutTo(t, offset, func() error { return t.log.RestoreTo(context.Background(), offset) }); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s.commitMax = min(s.commitMax, offset)
	return nil
}

// reset empties the log and has it begin elsewhere.
func (w *workload) reset(t *truth, base uint64) error {
	w.sum.Reset++
	held := t.log.BaseOffset()
	w.mu.Lock()
	t.cut, t.anew, t.standing.resetting = &held, &base, true
	w.mu.Unlock()
	if err := t.log.ResetTo(context.Background(), base); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	former := t.standing
	empty := newTruth(base)
	empty.standing = &standing{
		promise: former.promise, hold: former.hold, commitMin: former.commitMin, commitMax: former.commitMax,
		wrote: slices.Repeat([]uint64{0}, int(base)),
	}
	empty.opened(t.log)
	*t = *empty
	return nil
}
