package engine

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// commitSaveInterval is how often a commit offset that moved is written under
// none and periodic, and how long a write that failed waits to be tried again.
const commitSaveInterval = time.Second

// commitSaversMax bounds how many of a store's logs write their commit offset at
// once, and so the threads and descriptors that takes.
const commitSaversMax = 64

// CommitOffset is one past the last record that a majority is known to hold; 0 for
// a log that is not replicated.
func (l *Log) CommitOffset() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.replication.commit
}

// AdvanceCommitOffset raises the commit offset, at once and in memory; a lower one
// changes nothing, and one past what is written is an *InvalidRangeError.
//
// The file follows, and nothing waits for it: under on_commit its write begins now,
// and one write carries every advance that is made while another is under way;
// under none and periodic it is written at most once a second. Closing the log
// writes it in every mode. A write that failed is tried again every second. After a
// crash the offset may thus be an earlier one, which guards fewer records until the
// next advance.
func (l *Log) AdvanceCommitOffset(offset uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &l.mu.replication
	switch {
	case l.mu.closing:
		return &ClosedError{Label: l.label}
	case offset <= r.commit:
		return nil
	case offset > l.mu.written:
		return &InvalidRangeError{Label: l.label, Reason: fmt.Sprintf(
			"the commit offset was to be %d; the log ends at %d", offset, l.mu.written)}
	}
	r.commit = offset
	if l.mu.poison != nil {
		return nil
	}
	if l.cfg.FsyncMode == FsyncOnCommit && !r.retrying {
		l.startSavingLocked()
	} else {
		l.store.listCommit(l)
	}
	return nil
}

// startSavingLocked starts a write of replica unless one is under way, which then
// takes care of this one too.
func (l *Log) startSavingLocked() {
	r := &l.mu.replication
	if r.saving || l.mu.closing || l.mu.poison != nil || !l.replicaDueLocked() {
		return
	}
	r.saving = true
	go l.saveCommit()
}

// saveCommit writes replica, under on_commit until the file says what it should.
func (l *Log) saveCommit() {
	for {
		l.store.commitSavers <- struct{}{}
		unlock := l.takeSidecars()
		err := l.saveReplica()
		unlock()
		<-l.store.commitSavers
		l.mu.Lock()
		r := &l.mu.replication
		due := l.replicaDueLocked() && !l.mu.closing && l.mu.poison == nil
		if err == nil && due && l.cfg.FsyncMode == FsyncOnCommit {
			l.mu.Unlock()
			continue
		}
		r.saving = false
		r.retrying = err != nil && due
		if due {
			l.store.listCommit(l)
		}
		l.notifyLocked()
		l.mu.Unlock()
		return
	}
}

// saveReplica writes replica if it is due. The caller has the turn.
func (l *Log) saveReplica() error {
	l.mu.Lock()
	want, due, poison := l.wantedReplicaLocked(), l.replicaDueLocked(), l.mu.poison
	l.mu.Unlock()
	if poison != nil || !due {
		return poison
	}
	err := l.storeReplica(want)
	l.mu.Lock()
	failing := &l.mu.replication.failing
	first := err != nil && !*failing
	*failing = err != nil
	l.mu.Unlock()
	if err != nil {
		l.store.counters.replicaWriteFailures.Add(1)
	}
	if first {
		l.store.logger.Warn("the commit offset could not be written; it is tried again every second", "log", l.label, "error", err)
	}
	return err
}

// saveCommits is the work of one tick.
func (s *Store) saveCommits() {
	for _, l := range s.takeCommitList() {
		l.mu.Lock()
		l.mu.replication.retrying = false
		l.startSavingLocked()
		l.mu.Unlock()
	}
}

// endSaving waits for the write that is under way when a log is closed.
func (l *Log) endSaving() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.mu.replication.saving {
		_ = l.waitLocked(context.Background())
	}
}

// saveReplicaAtClose writes the last commit offset.
func (l *Log) saveReplicaAtClose() error {
	err := l.saveReplica()
	if err == nil || errors.Is(err, ErrPoisoned) {
		return err
	}
	return &LogError{Label: l.label, Op: "write the commit offset", Err: err}
}

// HoldRetentionAtCommit keeps retention and TrimBefore from deleting a segment
// that holds an offset at or past the commit offset, or lets them do so again. It
// is durable when it returns, and a restart finds it.
//
// After an error retention is held; whether it is after a restart is not known.
func (l *Log) HoldRetentionAtCommit(ctx context.Context, hold bool) error {
	unlock, err := l.takeTurn(ctx, l.sidecars, "hold retention")
	if err != nil {
		return err
	}
	defer unlock()
	l.mu.Lock()
	r := &l.mu.replication
	if err := l.servingLocked(); err != nil {
		l.mu.Unlock()
		return err
	}
	if r.known && r.held == hold && r.stored.RetentionHeld == hold {
		l.mu.Unlock()
		return nil
	}
	r.held = true // meanwhile, and should the write fail
	want := l.wantedReplicaLocked()
	want.RetentionHeld = hold
	l.mu.Unlock()
	if err := l.storeReplica(want); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r.held = hold
	return nil
}

// RetentionHeld says that retention is held at the commit offset.
func (l *Log) RetentionHeld() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.replication.held
}

// heldBackLocked says that a segment that ends at next must stay for records that
// are not known to be on a majority.
func (l *Log) heldBackLocked(next uint64) bool {
	r := &l.mu.replication
	return r.held && next > r.commit
}

// belowCommitLocked refuses to drop the records from offset on while one of them is
// committed and held.
func (l *Log) belowCommitLocked(offset uint64) error {
	commit := min(l.mu.replication.commit, l.mu.written)
	if offset >= commit {
		return nil
	}
	return &BelowCommitError{Label: l.label, Offset: offset, Commit: commit}
}
