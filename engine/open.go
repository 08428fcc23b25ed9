package engine

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"

	"golang.org/x/sys/unix"

	"felix.local/felix/device"
	"felix.local/felix/fallback"
	"felix.local/felix/internal/budget"
	"felix.local/felix/recovery"
)

// OpenStore opens a root directory, creating it if need be: it takes the root's
// lock, chooses the I/O backend by using it there, settles the directory's identity
// and starts the timers. Shards are opened one by one with OpenLog.
//
// An identity that cannot be read or written is an *IdentityError, or a *FullError.
func OpenStore(ctx context.Context, root string, cfg Config) (*Store, error) {
	return openStore(ctx, root, cfg, false)
}

// OpenSingle opens one shard directory by itself, for tools. The directory is
// locked, and its parent in shared mode: a store that has the parent open as its
// root refuses the tool, and the other way round. The identity of the root is left
// alone.
func OpenSingle(ctx context.Context, dir, label string, cfg Config) (*Store, *Log, error) {
	s, err := openStore(ctx, dir, cfg, true)
	if err != nil {
		return nil, nil, err
	}
	l, err := s.openDir(ctx, s.root, label, LogOptions{})
	if err != nil {
		// Given back also when ctx ended: no log is open that could take time.
		return nil, nil, errors.Join(err, s.Close(context.WithoutCancel(ctx)))
	}
	s.settle(".", l)
	return s, l, nil
}

func openStore(ctx context.Context, root string, cfg Config, single bool) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, &LogError{Label: root, Op: "open", Err: err}
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, &LogError{Label: root, Op: "open", Err: err}
	}
	s := newStore(root, cfg)
	s.single = single
	if err := s.makeRoot(); err != nil {
		return nil, &LogError{Label: root, Op: "open", Err: err}
	}
	if err := s.lock(single); err != nil {
		return nil, err
	}
	if err := s.chooseQueue(ctx); err != nil {
		return nil, errors.Join(err, s.unlock())
	}
	if !single {
		if err := s.identify(ctx); err != nil {
			return nil, errors.Join(s.identityProblem("open", err), s.giveUp())
		}
	}
	if err := s.replayJournal(); err != nil {
		return nil, errors.Join(&LogError{Label: root, Op: "open", Err: err}, s.giveUp())
	}
	s.space.look()
	s.startTimers()
	if err := s.journal.open(ctx); err != nil {
		return nil, errors.Join(err, s.Close(context.WithoutCancel(ctx)))
	}
	if !single {
		s.reclaimLeftovers()
	}
	return s, nil
}

func newStore(root string, cfg Config) *Store {
	s := &Store{
		cfg: cfg, root: root, logger: cfg.Logger, observer: cfg.Observer,
		arena: device.NewArena(), staging: budget.NewBytes(cfg.StagedBytesMax),
		inlinePlaces: newInlinePlaces(), opening: make(chan struct{}, openersMax), commitSavers: make(chan struct{}, commitSaversMax),
		stop: make(chan struct{}), stopped: make(chan struct{}), closing: make(chan struct{}, 1),
	}
	if s.logger == nil {
		s.logger = slog.Default()
	}
	if s.observer == nil {
		s.observer = noObserver{}
	}
	fs := cfg.FS
	if fs == nil {
		fs = device.OS()
	}
	s.fs = newLimitedFS(fs)
	s.journal = newCommitJournal(s)
	s.signals.New = func() any { return make(chan struct{}, 1) }
	sealed, writers := descriptorBounds(cfg)
	s.sealed, s.writers = newSealedCache(sealed), newWriterCache(writers)
	s.space = newSpaceGuard(s.fs, root, cfg.MinFreeBytes, cfg.MinFreeInodes, s.logger)
	s.mu.logs = make(map[string]*Log)
	s.mu.opening, s.mu.deleting = make(map[string]ShardKey), make(map[string]ShardKey)
	s.mu.unsure, s.markers.durable = make(map[string]bool), make(map[string]bool)
	return s
}

// descriptorReserve is kept free of cached descriptors: for recovery, rolls,
// marks, directories, and for what else the process opens.
const descriptorReserve = 256

// descriptorBounds divides the descriptors between sealed segments and writers.
func descriptorBounds(cfg Config) (sealed, writers int) {
	total := cfg.OpenFilesMax
	if total == 0 {
		var limit unix.Rlimit
		total = 1024
		if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
			total = int(min(limit.Cur, 1<<20))
		}
		total -= min(descriptorReserve, total/4)
	}
	sealed = max(1, min(cfg.OpenSealedMax, total/2))
	return sealed, max(4, total-sealed)
}

// makeRoot creates the root and makes its name durable, also when an earlier
// process created it and crashed before it could. The backend is chosen by using
// it in the root, so a pool does the flushes here.
func (s *Store) makeRoot() error {
	queue := s.cfg.Queue
	if queue == nil {
		pool := fallback.Open(fallback.Options{Workers: 1})
		defer pool.Close()
		queue = pool
	}
	return recovery.MakeDirs(recovery.Disk{FS: s.fs, Queue: queue}, s.root, s.cfg.DirMode)
}

func (s *Store) lock(single bool) error {
	own, err := s.fs.Lock(s.root, false)
	if err != nil {
		return err
	}
	s.locks = []io.Closer{own}
	if !single {
		return nil
	}
	parent, err := s.fs.Lock(filepath.Dir(s.root), true)
	var locked *device.LockedError
	switch {
	case err == nil:
		s.locks = append(s.locks, parent)
	case errors.As(err, &locked):
		return errors.Join(err, own.Close())
	default:
		// A parent that cannot be opened is no store's root that this user
		// could damage.
	}
	return nil
}

func (s *Store) chooseQueue(ctx context.Context) error {
	if s.cfg.Queue != nil {
		s.queue = s.cfg.Queue
		s.backend = Backend{Name: s.queue.Stats().Backend, Requested: s.cfg.IOURing, Reason: "given by the caller", DsyncWrite: true}
		return nil
	}
	queue, backend, err := selectBackend(s.fs, s.root, s.cfg.IOURing, backendOptions{
		RingEntries: s.cfg.RingEntries, RingWorkersMax: s.cfg.RingWorkersMax, PoolWorkers: s.cfg.PoolWorkers,
	})
	if err != nil {
		return err
	}
	s.queue, s.backend, s.ownQueue = queue, backend, true
	backend.log(ctx, s.logger, s.root)
	return nil
}

// giveUp undoes an open that got as far as the backend. What that broke over stays
// as Close leaves it.
func (s *Store) giveUp() error {
	if lost := s.queue.Stats().Lost; lost != nil {
		return &BackendLostError{Root: s.root, Cause: lost}
	}
	return s.release()
}

func (s *Store) unlock() error {
	var errs []error
	for _, lock := range s.locks {
		errs = append(errs, lock.Close())
	}
	return errors.Join(errs...)
}
