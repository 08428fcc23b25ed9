package engine

import (
	"errors"
	"fmt"
	"path/filepath"

	"felix.local/felix/device"
	"felix.local/felix/sidecar"
)

// replication is what a log knows beside its records. It lies in Log.mu.
//
// Of the files replica, ballot and epochs one is written at a time, by whoever
// holds Log.sidecars. What is here changes after the file does, but for the commit
// offset, which the file follows, and but for a truncation, after which nothing is
// served from what was dropped.
type replication struct {
	promise sidecar.Promise
	// commit only rises, but by RestoreTo.
	commit uint64
	// held: retention deletes nothing at or past commit.
	held bool
	// otherFlags are bits of the file that this build does not know.
	otherFlags uint16
	// stored is what replica says on the device; known is false when a write failed.
	stored sidecar.Replica
	known  bool
	epochs sidecar.Epochs
	// level is known from shipments alone, and not after a restart.
	level level
	// following: shipments are applied, and nothing else is appended until a
	// generation starts here. It is not known after a restart either.
	following bool
	// saving: a write behind an advance of commit is under way. retrying: the last
	// one failed, and the next tick tries again. failing: that was reported.
	saving, retrying, failing bool
}

// loadReplication reads the small files of a shard. Those that nothing can rebuild
// fail the open when they cannot be read.
func (s *Store) loadReplication(dir, label string) (replication, error) {
	replica, err := sidecar.LoadReplica(s.fs, dir)
	if err != nil {
		return replication{}, damagedPromise(dir, sidecar.ReplicaName, err)
	}
	ballot, err := sidecar.LoadBallot(s.fs, dir)
	if err != nil {
		return replication{}, damagedPromise(dir, sidecar.BallotName, err)
	}
	r := replication{promise: sidecar.Reconcile(replica, ballot), known: true}
	if replica != nil {
		r.commit, r.held, r.otherFlags, r.stored = replica.Commit, replica.RetentionHeld, replica.OtherFlags, *replica
	}
	epochs, err := sidecar.LoadEpochs(s.fs, dir)
	var damaged *sidecar.DecodeError
	switch {
	case errors.As(err, &damaged):
		s.counters.epochsUnusable.Add(1)
		s.logger.Warn("the history of generations is unusable and counts as empty: a divergence cannot be repaired without an operator",
			"log", label, "error", err)
	case err != nil:
		return replication{}, err
	case epochs != nil:
		r.epochs = *epochs
	}
	return r, nil
}

// damagedPromise says what to do about a file that cannot be read as it is.
func damagedPromise(dir, name string, err error) error {
	var damaged *sidecar.DecodeError
	if !errors.As(err, &damaged) {
		return err
	}
	return fmt.Errorf("%w; %s says which leader this replica follows and nothing can rebuild it: "+
		"bring it back from a backup of this replica, or move the shard's directory away and rebuild the replica from its leader",
		err, filepath.Join(dir, name))
}

// dropPastTail takes the generations away whose records a crash took, durably: a
// newer one recorded at a lower offset would otherwise leave a history that is not
// one. It runs at open, once the tail is known.
func (s *Store) dropPastTail(dir, label string, r *replication, tail uint64) error {
	if !r.epochs.DropPast(tail) {
		return nil
	}
	s.logger.Info("generations that began past the end of the log were dropped", "log", label, "tail", tail)
	return sidecar.Replace(s.fs, s.queue, dir, sidecar.EpochsName, r.epochs.AppendTo(nil), s.cfg.FileMode, true)
}

// replaceFile makes data the content of a small file, durably. A failure to flush
// the directory poisons: it leaves open which names the directory holds, those of
// segments included. After any other failure the log is usable and the old content
// may be tried to be replaced again.
func (l *Log) replaceFile(name string, data []byte) error {
	err := sidecar.Replace(l.store.fs, l.store.queue, l.dir, name, data, l.cfg.FileMode, true)
	if err == nil {
		return nil
	}
	unknown := device.ClassOf(err) == device.ClassOutcomeUnknown
	if unknown {
		l.store.backendLost(err)
	}
	var change *sidecar.ChangeError
	if unknown || errors.As(err, &change) && change.Step == sidecar.StepDirectory && !neverSubmitted(err) {
		l.store.counters.syncFailures.Add(1)
		return l.poisonWith(err)
	}
	return l.usable("write "+name, err)
}

// servingLocked fails for a log that is closed or poisoned.
func (l *Log) servingLocked() error {
	if l.mu.closed {
		return &ClosedError{Label: l.label}
	}
	return l.mu.poison
}

// storeReplica writes replica. The caller has the turn.
func (l *Log) storeReplica(r sidecar.Replica) error {
	err := l.replaceFile(sidecar.ReplicaName, r.AppendTo(nil))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.replication.stored, l.mu.replication.known = r, err == nil
	return err
}

// wantedReplicaLocked is what replica is to say.
func (l *Log) wantedReplicaLocked() sidecar.Replica {
	r := &l.mu.replication
	return sidecar.Replica{
		Generation: r.promise.Generation, Commit: r.commit, RetentionHeld: r.held, OtherFlags: r.otherFlags,
	}
}

// replicaDueLocked says that the file does not say what it should. A ballot ahead
// of it alone is no reason to write: the two are one promise as they are.
func (l *Log) replicaDueLocked() bool {
	want, r := l.wantedReplicaLocked(), &l.mu.replication
	want.Generation = r.stored.Generation
	return !r.known || want != r.stored
}
