package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"felix.local/felix/device"
	"felix.local/felix/segment"
)

// retention is what a log may let go of.
type retention struct {
	// bytes and age are what is kept at least; 0 keeps all.
	bytes int64
	age   time.Duration
	// before is the highest offset that TrimBefore was told: records below it are
	// not wanted any more. It never exceeds the tail, or records to come would go
	// as well.
	before uint64
}

// SetRetention replaces the log's bounds from the next pass on: bytes as
// Config.RetentionBytes, age as Config.RetentionAge; 0 keeps all. Values out of
// range, or a bound in a store without RetentionInterval, are a *ConfigError and
// change nothing.
func (l *Log) SetRetention(bytes int64, age time.Duration) error {
	cfg := l.cfg
	cfg.RetentionBytes, cfg.RetentionAge = bytes, age
	if err := cfg.Validate(); err != nil {
		return &LogError{Label: l.label, Op: "set retention", Err: err}
	}
	l.mu.Lock()
	l.mu.retention.bytes, l.mu.retention.age = bytes, age
	l.mu.Unlock()
	l.store.needTimers(l)
	return nil
}

// retains says whether a pass of the timer has anything to look at.
func (l *Log) retains() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &l.mu.retention
	return r.bytes > 0 || r.age > 0 || r.before > l.baseLocked()
}

// RetentionResult says what a pass removed.
type RetentionResult struct {
	Segments int
	Bytes    int64
	// BaseOffset is the oldest offset held afterwards.
	BaseOffset uint64
}

// EnforceRetention makes one pass now. Whole sealed segments go, oldest first,
// while the log is larger than its RetentionBytes, or all records of the oldest
// are older than its RetentionAge or below what TrimBefore was told; the active
// segment never does, nor, while HoldRetentionAtCommit says so, one that holds an
// offset at or past the commit offset.
func (l *Log) EnforceRetention(ctx context.Context) (RetentionResult, error) {
	done, err := l.takeTurn(ctx, l.maintenance, "retention")
	if err != nil {
		return RetentionResult{}, err
	}
	defer done()
	l.mu.Lock()
	keep := l.mu.retention
	l.mu.Unlock()
	return l.retentionPass(ctx, keep)
}

// TrimBefore lets go of the records below offset: sealed segments that hold no
// other go now, oldest first, and later passes of retention take those that come
// to hold no other once they are sealed. No segment is cut, and the active one
// stays, so that BaseOffset may remain below offset. The offset is remembered
// until the log is closed, and is followed by the store's timer if the store has
// a RetentionInterval. One past the tail is an *InvalidRangeError.
func (l *Log) TrimBefore(ctx context.Context, offset uint64) (RetentionResult, error) {
	done, err := l.takeTurn(ctx, l.maintenance, "trim")
	if err != nil {
		return RetentionResult{}, err
	}
	defer done()
	if err := l.forget(offset); err != nil {
		return RetentionResult{BaseOffset: l.BaseOffset()}, err
	}
	l.store.needTimers(l)
	return l.retentionPass(ctx, retention{before: offset})
}

// forget notes that the records below offset are not wanted any more.
func (l *Log) forget(offset uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch tail := l.tailLocked(); {
	case l.mu.closed:
		return &ClosedError{Label: l.label}
	case l.mu.poison != nil:
		return l.mu.poison
	case offset > tail:
		return &InvalidRangeError{Label: l.label, Reason: fmt.Sprintf(
			"records before %d were to be trimmed; the log ends at %d", offset, tail)}
	}
	l.mu.retention.before = max(l.mu.retention.before, offset)
	return nil
}

// retentionPass removes what keep lets go of; the caller holds maintenance.
func (l *Log) retentionPass(ctx context.Context, keep retention) (RetentionResult, error) {
	result, err := l.trim(ctx, keep)
	l.pruneProducers()
	result.BaseOffset = l.BaseOffset()
	l.store.counters.retentionBase.Store(result.BaseOffset)
	if err != nil && !errors.Is(err, ErrClosed) && ctx.Err() == nil {
		l.store.counters.retentionFailures.Add(1)
	}
	return result, err
}

func (l *Log) trim(ctx context.Context, keep retention) (result RetentionResult, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return result, &LogError{Label: l.label, Op: "retention", Err: err}
		}
		d, expired, err := l.oldestExpired(keep)
		if err != nil || !expired {
			return result, err
		}
		if removed, err := l.removeOldest(d); err != nil || !removed {
			return result, err
		}
		result.Segments++
		result.Bytes += d.Size
		l.store.counters.retentionSegments.Add(1)
		l.store.counters.retentionBytes.Add(uint64(d.Size))
	}
}

// oldestExpired looks at the oldest sealed segment.
func (l *Log) oldestExpired(keep retention) (segment.Descriptor, bool, error) {
	l.mu.Lock()
	if l.mu.closed {
		l.mu.Unlock()
		return segment.Descriptor{}, false, &ClosedError{Label: l.label}
	}
	if l.mu.poison != nil {
		err := l.mu.poison
		l.mu.Unlock()
		return segment.Descriptor{}, false, err
	}
	sealed := l.mu.sealed
	total := l.mu.active.size
	successor := l.mu.active.createdAt
	if l.mu.retired != nil {
		total += l.mu.retired.size
		successor = l.mu.retired.createdAt
	}
	anchored := len(sealed) > 1 || l.anchoredLocked()
	held := len(sealed) > 0 && l.heldBackLocked(sealed[0].NextOffset)
	l.mu.Unlock()
	if len(sealed) == 0 || !anchored || held {
		return segment.Descriptor{}, false, nil
	}
	for _, d := range sealed {
		total += d.Size
	}
	if len(sealed) > 1 {
		successor = sealed[1].CreatedAtMicros
	}
	oldest := sealed[0]
	if oldest.NextOffset <= keep.before || keep.bytes > 0 && total > keep.bytes {
		return oldest, true, nil
	}
	if keep.age == 0 {
		return oldest, false, nil
	}
	newest, err := l.newestTimestamp(oldest)
	if err != nil {
		return oldest, false, err
	}
	return oldest, expired(l.store.nowMicros(), newest, successor, keep.age), nil
}

// expired decides by the bytes in the files, never by the filesystem's times, so
// that copying a directory does not reset the clock. All records of a segment
// were written before its successor was created: the earlier of its newest
// timestamp and that creation is its age, and one record from the future cannot
// hold it for ever. A clock set back makes a segment young, never negative.
func expired(now, newestRecord, successorCreated uint64, age time.Duration) bool {
	last := min(newestRecord, successorCreated)
	return now > last && now-last > uint64(age.Microseconds())
}

// anchoredLocked says whether a segment that is not sealed has a durable header. A
// background roll writes the header without a flush; if the last sealed segment
// went before that, a power loss could leave nothing that says at which offset the
// log stands.
func (l *Log) anchoredLocked() bool {
	r := l.mu.retired
	return l.mu.active.synced >= segment.HeaderSize || r != nil && r.synced >= segment.HeaderSize
}

func (l *Log) newestTimestamp(d segment.Descriptor) (uint64, error) {
	file, entries, err := l.store.sealed.get(l, d)
	if err != nil {
		return 0, &LogError{Label: l.label, Op: "retention", Err: err}
	}
	defer file.release()
	var from segment.IndexEntry
	if len(entries) > 0 {
		from = entries[len(entries)-1]
	}
	newest, ok, err := segment.LastTimestamp(file, from, d.Size)
	if err != nil {
		return 0, &LogError{Label: l.label, Op: "retention", Err: err}
	}
	if !ok {
		return 0, nil // a segment without records is as old as can be
	}
	return newest, nil
}

// removeOldest takes the oldest segment off the log.
//
// The index goes first: where names cannot be removed, that is found out before
// readers are told that the records are gone, and a missing index costs only
// time. Then the segment leaves the list, so that no new read plans for it;
// readers that have it open finish. One directory flush per segment, oldest
// first: after any crash what is left is a contiguous log that begins later.
//
// It is not removed when it was held back since it was chosen.
func (l *Log) removeOldest(d segment.Descriptor) (removed bool, err error) {
	dir, err := l.store.fs.OpenDir(l.dir)
	if err != nil {
		return false, &LogError{Label: l.label, Op: "retention", Err: err}
	}
	if err = l.store.journal.fence(l.name, d.ID); err == nil {
		err = l.store.fs.Remove(filepath.Join(l.dir, segment.IndexName(d.ID)))
	}
	if err == nil || device.IsNotExist(err) {
		removed, err = l.unlistAndRemove(d)
	}
	if err != nil || !removed {
		_ = dir.Close() // nothing was flushed through it
		if err != nil {
			err = &LogError{Label: l.label, Op: "retention", Err: err}
		}
		return false, err
	}
	if err := l.store.flushOpenDir(dir); err != nil {
		l.store.counters.syncFailures.Add(1)
		return true, l.poisonWith(err)
	}
	return true, nil
}

// unlistAndRemove puts the segment back on the list when its file stays. It asks
// again whether it is held back in the step that unlists it: once HoldRetentionAtCommit
// has returned, what is on the list and held stays.
func (l *Log) unlistAndRemove(d segment.Descriptor) (removed bool, err error) {
	l.mu.Lock()
	if l.heldBackLocked(d.NextOffset) {
		l.mu.Unlock()
		return false, nil
	}
	l.mu.sealed = append([]segment.Descriptor(nil), l.mu.sealed[1:]...)
	l.mu.Unlock()
	l.store.sealed.drop(l, d.ID, false)
	err = l.store.fs.Remove(filepath.Join(l.dir, segment.LogName(d.ID)))
	if err == nil || device.IsNotExist(err) {
		return true, nil
	}
	l.mu.Lock()
	l.mu.sealed = append([]segment.Descriptor{d}, l.mu.sealed...)
	l.mu.Unlock()
	return false, err
}
