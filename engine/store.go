package engine

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"felix.local/felix/device"
	"felix.local/felix/internal/budget"
	"felix.local/felix/recovery"
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
	staging      *budget.Bytes
	sealed       *sealedCache
	writers      *writerCache
	space        *spaceGuard
	inlinePlaces *inlinePlaces
	solo         solo
	committers   committers
	opening      chan struct{}
	// single: a shard was opened by itself, without the root it lies in.
	single      bool
	journal     *commitJournal
	identity    identity
	markers     markers
	allocateOff atomic.Bool
	binMade     atomic.Bool // .deleted is there, durably
	lost        atomic.Bool // an outcome was unknown: the backend broke
	unclean     atomic.Bool // a log was poisoned, or closed with an error
	counters    counters
	dirty       dirtyLists
	// producerSavers are those who write a snapshot of producers now.
	producerSavers producerSavers
	// commitSavers has room for those who write a commit offset now.
	commitSavers chan struct{}
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
		// deleting holds directories that are being deleted; unsure are those whose
		// deletion was not made durable when it was tried.
		deleting map[string]ShardKey
		unsure   map[string]bool
		// reclaiming: the goroutine that frees deleted shards runs. reclaimAgain
		// asks it to look once more before it ends.
		reclaiming, reclaimAgain bool
		// flushTimer and retentionTimer say that the timer runs: the first log
		// that needs one starts it.
		flushTimer, retentionTimer bool
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

// Close drains and closes every log, notes that the run stopped cleanly if every
// log's last flush succeeded and none was poisoned, closes the backend and gives the
// root's lock back. When ctx ends first it returns what was not flushed; the store is
// closed to new work either way, and Close may be called again to go on.
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
	late, err := s.noteStopped(ctx)
	if lost := s.queue.Stats().Lost; lost != nil {
		err = errors.Join(err, &BackendLostError{Root: s.root, Cause: lost})
		late = true
	}
	if late {
		return errors.Join(append(errs, err)...)
	}
	return errors.Join(append(errs, err, s.release())...)
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
	s.committers.end()
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
	return errors.Join(append(errs, s.unlock())...)
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
