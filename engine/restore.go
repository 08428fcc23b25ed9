package engine

import "context"

// RestoreTo drops the records from offset on, committed ones too: it brings a log
// that is a copy, such as a backup, to where its other replicas stand. It is for an
// operator, while nobody uses the log; nothing else lowers the commit offset.
//
// An offset that the log does not hold, nor ends at, is an *OutsideLogError. The
// commit offset is lowered first, durably, and then records are cut as Truncate
// does it: after a crash in between the log holds more than was asked for and may
// be restored again.
func (l *Log) RestoreTo(ctx context.Context, offset uint64) error {
	leave, err := l.alone(ctx, "restore")
	if err != nil {
		return err
	}
	defer leave()
	l.mu.Lock()
	base, written := l.baseLocked(), l.mu.written
	want := l.wantedReplicaLocked()
	l.mu.Unlock()
	if offset < base || offset > written {
		return &OutsideLogError{Label: l.label, Offset: offset, Base: base, Tail: written}
	}
	if want.Commit > offset {
		want.Commit = offset
		if err := l.storeReplica(want); err != nil {
			return err
		}
		l.mu.Lock()
		l.mu.replication.commit = offset
		l.mu.Unlock()
	}
	if offset == written {
		return nil
	}
	return l.cutBack(ctx, offset)
}
