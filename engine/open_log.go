package engine

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"felix.local/felix/device"
	"felix.local/felix/internal/budget"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

// LogOptions are what one log may have of its own.
type LogOptions struct {
	// Base is where a shard without segments begins.
	Base uint64
	// FsyncMode, RetentionBytes and RetentionAge replace the store's; nil takes
	// the store's. A bound of 0 keeps all.
	FsyncMode      *FsyncMode
	RetentionBytes *int64
	RetentionAge   *time.Duration
	// Follower is told what the log commits; nil for none.
	Follower Follower
}

// apply gives the configuration of a log with these options.
func (o LogOptions) apply(cfg Config) Config {
	if o.FsyncMode != nil {
		cfg.FsyncMode = *o.FsyncMode
	}
	if o.RetentionBytes != nil {
		cfg.RetentionBytes = *o.RetentionBytes
	}
	if o.RetentionAge != nil {
		cfg.RetentionAge = *o.RetentionAge
	}
	return cfg
}

// OpenLog opens a shard, recovering it first; a shard that does not exist is
// created at offset 0.
func (s *Store) OpenLog(ctx context.Context, key ShardKey) (*Log, error) {
	return s.OpenLogAt(ctx, key, 0)
}

// OpenLogAt is OpenLog, but a shard without segments begins at base. A log that
// holds segments keeps its own base.
func (s *Store) OpenLogAt(ctx context.Context, key ShardKey, base uint64) (*Log, error) {
	return s.OpenLogWith(ctx, key, LogOptions{Base: base})
}

// OpenLogWith is OpenLog for a log with options of its own. Options that are out
// of range, or that need an interval the store has not, are a *ConfigError. A key of
// another incarnation than the stream's, or of a stream that is being deleted, is an
// *IncarnationError; a marker that cannot be read is a *MarkerError.
func (s *Store) OpenLogWith(ctx context.Context, key ShardKey, opts LogOptions) (*Log, error) {
	if err := opts.apply(s.cfg).Validate(); err != nil {
		return nil, &LogError{Label: key.Label(), Op: "open", Err: err}
	}
	name := key.DirName()
	if err := s.claim(name, key); err != nil {
		return nil, err
	}
	defer s.running.Done()
	l, err := s.openClaimed(ctx, name, key, opts)
	s.settle(name, l)
	return l, err
}

func (s *Store) openClaimed(ctx context.Context, name string, key ShardKey, opts LogOptions) (*Log, error) {
	err := s.checkIncarnation(key)
	if err == nil {
		err = s.runAcksIn(opts.apply(s.cfg).FsyncMode)
	}
	switch {
	case errors.Is(err, ErrFull):
		return nil, err
	case err != nil:
		return nil, &LogError{Label: key.Label(), Op: "open", Err: err}
	}
	return s.openDir(ctx, filepath.Join(s.root, name), key.Label(), opts)
}

// claim keeps a directory for one opener.
func (s *Store) claim(name string, key ShardKey) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.freeLocked(name, key); err != nil {
		return err
	}
	if l := s.mu.logs[name]; l != nil {
		if l.label != key.Label() {
			return &ShardMismatchError{Dir: name, Expected: l.label, Found: key.Label()}
		}
		return &AlreadyOpenError{Label: l.label}
	}
	if s.journal.holds(name) {
		// It was poisoned and closed: the next start brings them to its segments.
		return &JournalPendingError{Root: s.root, Shard: name}
	}
	s.mu.opening[name] = key
	s.running.Add(1)
	return nil
}

// freeLocked fails while somebody opens or deletes the shard in a directory.
func (s *Store) freeLocked(name string, key ShardKey) error {
	if s.mu.closed {
		return &ClosedError{Label: s.root}
	}
	opener, opening := s.mu.opening[name]
	deleter, deleting := s.mu.deleting[name]
	switch {
	case opening && opener != key:
		return &ShardMismatchError{Dir: name, Expected: opener.Label(), Found: key.Label()}
	case opening:
		return &AlreadyOpenError{Label: key.Label()}
	case deleting && deleter != key:
		return &ShardMismatchError{Dir: name, Expected: deleter.Label(), Found: key.Label()}
	case deleting:
		return &DeletingError{Label: key.Label()}
	}
	return nil
}

func (s *Store) settle(name string, l *Log) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.opening, name)
	if l != nil {
		l.name = name
		s.journal.goesOn(l)
		s.mu.logs[name] = l
	}
}

// openersMax bounds how many logs are recovered at once, and so the threads and
// descriptors that takes.
const openersMax = 8

func (s *Store) openDir(ctx context.Context, dir, label string, opts LogOptions) (*Log, error) {
	select {
	case s.opening <- struct{}{}:
		defer func() { <-s.opening }()
	case <-ctx.Done():
		return nil, &LogError{Label: label, Op: "open", Err: ctx.Err()}
	}
	// What nothing can rebuild is read first: an open that it refuses changes nothing.
	beside, err := s.loadReplication(dir, label)
	if err != nil {
		return nil, &LogError{Label: label, Op: "open", Err: err}
	}
	producers := s.readProducers(dir)
	policy := s.recoveryPolicy()
	policy.PlacedBase, policy.Marked = opts.Base, producers.marked
	recovered, err := recovery.Open(s.disk(), dir, label, policy)
	if err == nil {
		err = s.dropPastTail(dir, label, &beside, recovered.Active.NextOffset)
	}
	if err != nil {
		if recovered != nil {
			s.tellRecovered(dir, label, recovered.Report)
		}
		if device.ClassOf(err) == device.ClassFull {
			s.counters.full.Add(1)
			return nil, &FullError{Label: label, Cause: err}
		}
		return nil, &LogError{Label: label, Op: "open", Err: err}
	}
	l := s.newLog(dir, label, recovered, beside, opts)
	if err = l.loadProducers(producers); err == nil {
		err = l.dropUnfitKeys()
	}
	if err != nil {
		return nil, &LogError{Label: label, Op: "open", Err: err}
	}
	return l, nil
}

// recoveryPolicy is what the configuration says of recovery.
func (s *Store) recoveryPolicy() recovery.Policy {
	return recovery.Policy{
		RepairChecksumTail: s.cfg.RepairChecksumTail,
		VerifyAllOnOpen:    s.cfg.VerifyAllOnOpen,
		IndexSpacingBytes:  s.cfg.IndexSpacingBytes,
		SideCopiesKept:     s.cfg.SideCopiesKept,
		FileMode:           s.cfg.FileMode,
		DirMode:            s.cfg.DirMode,
		NowMicros:          s.nowMicros,
	}
}

func (s *Store) newLog(dir, label string, r *recovery.Recovered, beside replication, opts LogOptions) *Log {
	l := &Log{
		store: s, cfg: opts.apply(s.cfg), dir: dir, label: label, report: r.Report, follower: opts.Follower,
		stagedBytes: budget.NewBytes(s.cfg.StagedBytesPerLogMax),
		maintenance: make(chan struct{}, 1), sidecars: make(chan struct{}, 1), applying: make(chan struct{}, 1),
	}
	l.journaled.log = l
	l.commitFn = func() { l.commit(nil) }
	l.flushFn = func() { s.flushLogs([]*Log{l}, nil) }
	a := r.Active
	l.mu.replication = beside
	l.mu.sealed = r.Sealed
	l.mu.active = writer{
		id: a.ID, base: a.BaseOffset, createdAt: a.CreatedAtMicros, version: a.Version,
		size: a.Size, synced: a.Size, next: a.NextOffset,
		entries: r.ActiveEntries, indexed: len(r.ActiveEntries),
		builder: segment.IndexBuilder{Spacing: s.cfg.IndexSpacingBytes, Since: r.ActiveSince},
	}
	if r.Report.IndexFailures > 0 {
		l.mu.active.indexed, l.mu.active.indexStale = 0, true
	}
	l.mu.produced.replace(noProducers())
	// Recovery flushed everything it kept.
	l.mu.written, l.mu.durable = a.NextOffset, a.NextOffset
	l.mu.marked, l.mu.markSynced = r.Mark, r.Mark
	l.mu.retention = retention{bytes: l.cfg.RetentionBytes, age: l.cfg.RetentionAge}
	l.replanLocked()
	s.needTimers(l)
	s.tellRecovered(dir, label, r.Report)
	s.observer.Recovered(r.Report)
	return l
}
