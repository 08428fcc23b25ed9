package engine

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"felix.local/felix/device"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

// Store is one root directory: its lock, its I/O backend, the memory and
// descriptors its logs share, and the timers that flush, mark and trim them.
type Store struct {
	cfg      Config
	root     string
	fs       device.FS
	queue    device.Queue
	ownQueue bool
	backend  Backend
	locks    []io.Closer
	logger   *slog.Logger
	observer Observer

	arena        *device.Arena
	staging      *budget
	sealed       *sealedCache
	writers      *writerCache
	space        *spaceGuard
	inlinePlaces *inlinePlaces
	solo         solo
	opening      chan struct{}
	allocateOff  atomic.Bool
	lost         atomic.Bool // an outcome was unknown: the backend broke
	counters     counters
	dirty        dirtyLists
	// signals are channels with room for one value; see batch.lone.
	signals sync.Pool

	// stop ends the timers; running counts them and those who are opening a log,
	// and stopped is closed when, after stop, there are none left.
	stop, stopped chan struct{}
	running       sync.WaitGroup
	// closing is held by the one Close under way.
	closing chan struct{}
	mu      struct {
		sync.Mutex
		// closed refuses new work, released says that everything was given back.
		closed, released bool
		logs             map[string]*Log
		// opening holds directories that are being recovered.
		opening map[string]ShardKey
	}
}

// Backend says how the store reaches the disk and why.
func (s *Store) Backend() Backend { return s.backend }

// Root is the store's directory.
func (s *Store) Root() string { return s.root }

// disk is what package recovery works on.
func (s *Store) disk() recovery.Disk {
	return recovery.Disk{FS: s.fs, Queue: s.queue, NoDsync: !s.backend.DsyncWrite, IndexFailed: func(string, error) {
		s.counters.indexWriteFailures.Add(1)
	}}
}

// do runs one operation through the queue. After an unknown outcome the kernel
// may still be at work on the file, so it is kept open until the process ends.
func (s *Store) do(op *device.Op) error {
	err := device.Do(s.queue, op)
	s.keepIfUnknown(op)
	return err
}

func (s *Store) keepIfUnknown(op *device.Op) {
	if op.Err == nil || device.ClassOf(op.Err) != device.ClassOutcomeUnknown {
		return
	}
	if f, ok := op.File.(*openFile); ok {
		f.hold()
	}
	s.backendLost(op.Err)
}

// backendLost poisons every log: none of them can flush any more, and a log that
// goes on acknowledging what it hands to the page cache would not notice for long.
func (s *Store) backendLost(cause error) {
	if s.lost.Swap(true) {
		return
	}
	go s.poisonAll(cause)
}

func (s *Store) poisonAll(cause error) {
	for _, l := range s.logs() {
		_ = l.poisonWith(cause)
	}
}

// watchBackend notices a broken backend when nobody submits anything, and poisons
// logs that were being opened when it broke.
func (s *Store) watchBackend() {
	if lost := s.queue.Stats().Lost; lost != nil {
		s.poisonAll(&device.Error{Op: "submit", Path: s.root, Pos: -1, Class: device.ClassOutcomeUnknown, Err: lost})
	}
}

// closeAfter closes a file that one operation used, unless its outcome is
// unknown: then the kernel may still be at work on it.
func (s *Store) closeAfter(f device.File, err error) {
	if device.ClassOf(err) == device.ClassOutcomeUnknown {
		return
	}
	_ = f.Close() // whatever had to be durable was flushed through f before
}

// flushDir makes the names in a directory durable.
func (s *Store) flushDir(dir string) error {
	f, err := s.fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return s.flushOpenDir(f)
}

func (s *Store) flushOpenDir(f device.File) error {
	err := s.do(&device.Op{Kind: device.FlushAll, File: f})
	s.closeAfter(f, err)
	return err
}

// observed is false when nobody observes: an append then reads no clock for it.
func (s *Store) observed() bool { return s.cfg.Observer != nil }

// nowMicros is the wall clock in microseconds since 1970.
func (s *Store) nowMicros() uint64 {
	if s.cfg.NowMicros != nil {
		return s.cfg.NowMicros()
	}
	return uint64(max(0, time.Now().UnixMicro()))
}

func (s *Store) logs() []*Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*Log, 0, len(s.mu.logs))
	for _, l := range s.mu.logs {
		out = append(out, l)
	}
	return out
}

// OpenLog opens a shard, recovering it first; a shard that does not exist is
// created at offset 0.
func (s *Store) OpenLog(ctx context.Context, key ShardKey) (*Log, error) {
	return s.OpenLogAt(ctx, key, 0)
}

// OpenLogAt is OpenLog, but a shard without segments begins at base. A log that
// holds segments keeps its own base.
func (s *Store) OpenLogAt(ctx context.Context, key ShardKey, base uint64) (*Log, error) {
	name := key.DirName()
	if err := s.claim(name, key); err != nil {
		return nil, err
	}
	defer s.running.Done()
	l, err := s.openDir(ctx, filepath.Join(s.root, name), key.Label(), base)
	s.settle(name, l)
	return l, err
}

// claim keeps a directory for one opener.
func (s *Store) claim(name string, key ShardKey) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return &ClosedError{Label: s.root}
	}
	label, taken := "", false
	if other, ok := s.mu.opening[name]; ok {
		label, taken = other.Label(), true
	} else if l := s.mu.logs[name]; l != nil {
		label, taken = l.label, true
	}
	switch {
	case taken && label != key.Label():
		return &ShardMismatchError{Dir: name, Expected: label, Found: key.Label()}
	case taken:
		return &AlreadyOpenError{Label: label}
	}
	s.mu.opening[name] = key
	s.running.Add(1)
	return nil
}

func (s *Store) settle(name string, l *Log) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.opening, name)
	if l != nil {
		l.name = name
		s.mu.logs[name] = l
	}
}

// openersMax bounds how many logs are recovered at once, and so the threads and
// descriptors that takes.
const openersMax = 8

func (s *Store) openDir(ctx context.Context, dir, label string, base uint64) (*Log, error) {
	select {
	case s.opening <- struct{}{}:
		defer func() { <-s.opening }()
	case <-ctx.Done():
		return nil, &LogError{Label: label, Op: "open", Err: ctx.Err()}
	}
	recovered, err := recovery.Open(s.disk(), dir, label, recovery.Policy{
		RepairChecksumTail: s.cfg.RepairChecksumTail,
		VerifyAllOnOpen:    s.cfg.VerifyAllOnOpen,
		IndexSpacingBytes:  s.cfg.IndexSpacingBytes,
		PlacedBase:         base,
		SideCopiesKept:     s.cfg.SideCopiesKept,
		FileMode:           s.cfg.FileMode,
		DirMode:            s.cfg.DirMode,
		NowMicros:          s.nowMicros,
	})
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
	return s.newLog(dir, label, recovered), nil
}

func (s *Store) newLog(dir, label string, r *recovery.Recovered) *Log {
	l := &Log{
		store: s, cfg: s.cfg, dir: dir, label: label, report: r.Report,
		stagedBytes: newBudget(s.cfg.StagedBytesPerLogMax),
		maintenance: make(chan struct{}, 1),
	}
	l.commitFn = func() { l.commit(nil) }
	l.flushFn = func() { s.flushLogs([]*Log{l}, nil) }
	a := r.Active
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
	// Recovery flushed everything it kept.
	l.mu.written, l.mu.durable = a.NextOffset, a.NextOffset
	l.mu.marked, l.mu.markSynced = r.Mark, r.Mark
	l.replanLocked()
	s.tellRecovered(dir, label, r.Report)
	s.observer.Recovered(r.Report)
	return l
}

// Close drains and closes every log, then the backend, then gives the root's lock
// back. When ctx ends first it returns what was not flushed; the store is closed
// to new work either way, and Close may be called again to go on.
//
// After a lost ring the kernel may still be at work on buffers and files. They
// stay, and so does the lock: the root can be opened again by a new process only.
func (s *Store) Close(ctx context.Context) error {
	s.refuseWork()
	select {
	case s.closing <- struct{}{}:
		defer func() { <-s.closing }()
	case <-ctx.Done():
		return errors.Join(&LogError{Label: s.root, Op: "close", Err: ctx.Err()}, errors.Join(s.closeLogs(ctx)...))
	}
	s.mu.Lock()
	released := s.mu.released
	s.mu.Unlock()
	if released {
		return &ClosedError{Label: s.root}
	}
	// Timers and openers end before logs are closed, or a log could be opened
	// behind the closing ones.
	select {
	case <-s.stopped:
	case <-ctx.Done():
		return errors.Join(&LogError{Label: s.root, Op: "close", Err: ctx.Err()}, errors.Join(s.closeLogs(ctx)...))
	}
	errs := s.closeLogs(ctx)
	if lost := s.queue.Stats().Lost; lost != nil {
		return errors.Join(append(errs, &BackendLostError{Root: s.root, Cause: lost})...)
	}
	if len(s.logs()) > 0 {
		// Operations are under way that ctx left no time for: what they name
		// must stay.
		return errors.Join(errs...)
	}
	return errors.Join(append(errs, s.release())...)
}

// refuseWork is the part of closing that takes no time: no log is opened any
// more, and the timers end.
func (s *Store) refuseWork() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return
	}
	s.mu.closed = true
	close(s.stop)
	go func() {
		s.running.Wait()
		close(s.stopped)
	}()
}

// release gives back what the store itself holds; no log is open any more.
func (s *Store) release() error {
	s.mu.Lock()
	s.mu.released = true
	s.mu.Unlock()
	var errs []error
	if s.ownQueue {
		errs = append(errs, s.queue.Close())
	}
	s.arena.Close()
	for _, lock := range s.locks {
		errs = append(errs, lock.Close())
	}
	return errors.Join(errs...)
}

// closersMax bounds how many logs are closed at once.
const closersMax = 16

func (s *Store) closeLogs(ctx context.Context) []error {
	var (
		wait sync.WaitGroup
		mu   sync.Mutex
		errs []error
		slot = make(chan struct{}, closersMax)
	)
	for _, l := range s.logs() {
		slot <- struct{}{}
		wait.Go(func() {
			defer func() { <-slot }()
			if err := l.Close(ctx); err != nil && !errors.Is(err, ErrClosed) {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	return errs
}
