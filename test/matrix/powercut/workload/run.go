package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"felix.local/felix/engine"
)

// ErrBad says that Run found something wrong, which it told.
var ErrBad = errors.New("what was read back is wrong")

// openStore is a store of the run with its logs, in the order of Shapes.
type openStore struct {
	Store
	engine *engine.Store
	logs   []*engine.Log
}

// Run opens the stores, reads everything back, and appends as the Spec says. It tells
// what happens on out. Under Spec.Forever it does not return, but for an error: ErrBad
// when something that was read back is wrong, which was told.
func Run(ctx context.Context, spec Spec, out io.Writer) error {
	told := newLines(out)
	stores, err := openAll(ctx, spec, told)
	if err != nil {
		return errors.Join(err, closeAll(ctx, stores))
	}
	witness := told.tell
	var marks *Marks
	if spec.Marks != "" {
		if marks, err = OpenMarks(spec.Marks, spec.MarksPosition); err != nil {
			return errors.Join(err, closeAll(ctx, stores))
		}
		witness = marks.tell
	}
	told.tell(Event{Kind: Ready})
	err = appendAll(ctx, spec, stores, witness)
	if marks != nil {
		err = errors.Join(err, marks.Close())
	}
	if err = errors.Join(err, closeAll(ctx, stores), told.failed()); err != nil {
		return err
	}
	told.tell(Event{Kind: Done})
	return told.failed()
}

// openAll opens and reads every store, also when one is bad: what the others hold is
// worth knowing then.
func openAll(ctx context.Context, spec Spec, told *lines) ([]*openStore, error) {
	var stores []*openStore
	var bad error
	for _, s := range spec.Stores {
		told.tell(Event{Kind: Opening, Store: s.Name})
		config, err := s.Config()
		if err != nil {
			return stores, err
		}
		store, err := engine.OpenStore(ctx, filepath.Join(spec.Root, s.Name), config)
		if err != nil {
			told.tell(Event{Kind: Bad, Store: s.Name, Log: "*", Text: "cannot be opened: " + err.Error()})
			bad = ErrBad
			continue
		}
		open := &openStore{Store: s, engine: store}
		stores = append(stores, open)
		if !open.openLogs(ctx, told) {
			bad = ErrBad
		}
	}
	return stores, bad
}

// openLogs opens and reads the logs of one store; false when one is bad.
func (s *openStore) openLogs(ctx context.Context, told *lines) bool {
	good := true
	for _, shape := range Shapes() {
		at := Event{Kind: Bad, Store: s.Name, Log: shape.Log}
		l, err := s.engine.OpenLog(ctx, Key(shape.Log))
		if err != nil {
			at.Text = "cannot be opened: " + err.Error()
			told.tell(at)
			return false
		}
		s.logs = append(s.logs, l)
		if err := shape.readBack(ctx, s.Name, l); err != nil {
			at.Text, good = err.Error(), false
		} else {
			at.Kind, at.Base, at.Bound = Have, l.BaseOffset(), l.TailOffset()
		}
		told.tell(at)
	}
	return good
}

// readBack reads a log from end to end and says what is wrong with its records.
func (s Shape) readBack(ctx context.Context, store string, l *engine.Log) error {
	const pageBytes = 256 << 10
	page := make([]byte, pageBytes+64<<10)
	next, tail := l.BaseOffset(), l.TailOffset()
	for next < tail {
		records, _, err := l.ReadInto(ctx, next, pageBytes, 1000, page)
		if err != nil {
			return fmt.Errorf("read at %d: %w", next, err)
		}
		if len(records) == 0 {
			return fmt.Errorf("nothing can be read at %d, the log ends at %d", next, tail)
		}
		for _, r := range records {
			if r.Offset != next {
				return fmt.Errorf("offset %d follows where %d is next", r.Offset, next)
			}
			if err := s.check(r.Payload, store, r.Offset); err != nil {
				return fmt.Errorf("record %d: %w", r.Offset, err)
			}
			next++
		}
	}
	return nil
}

func closeAll(ctx context.Context, stores []*openStore) error {
	var errs []error
	for _, s := range stores {
		errs = append(errs, s.engine.Close(ctx))
	}
	return errors.Join(errs...)
}

// appendAll runs all publishers of all stores at once.
func appendAll(ctx context.Context, spec Spec, stores []*openStore, witness func(Event)) error {
	var publishers, watchers sync.WaitGroup
	stop := make(chan struct{})
	failures := make(chan error, 1)
	for _, s := range stores {
		for i, shape := range Shapes() {
			at := &turn{store: s.Store, shape: shape, log: s.logs[i], next: s.logs[i].TailOffset(), witness: witness}
			for range shape.Publishers {
				publishers.Go(func() {
					if err := at.publish(ctx, spec); err != nil {
						select {
						case failures <- err:
						default: // the first one is enough
						}
					}
				})
			}
			watchers.Go(func() { at.watch(stop) })
		}
	}
	publishers.Wait()
	close(stop)
	watchers.Wait()
	select {
	case err := <-failures:
		return err
	default:
		return nil
	}
}

// turn hands the offsets of one log to its publishers, since a record has to know its
// own before it is appended.
type turn struct {
	store   Store
	shape   Shape
	log     *engine.Log
	witness func(Event)

	mu   sync.Mutex
	next uint64
}

// publish appends, one append at a time, and tells of each acknowledgement.
func (t *turn) publish(ctx context.Context, spec Spec) error {
	for i := 0; spec.Forever || i < spec.Appends; i++ {
		result, err := t.append(ctx)
		if err != nil {
			return fmt.Errorf("%s/%s: %w", t.store.Name, t.shape.Log, err)
		}
		t.witness(Event{Kind: Acked, Store: t.store.Name, Log: t.shape.Log, Bound: result.Last})
		time.Sleep(t.pause())
	}
	return nil
}

// pauseUnsynced is the least pause where no append waits for the disk: such publishers
// would leave the others no time.
const pauseUnsynced = 10 * time.Millisecond

func (t *turn) pause() time.Duration {
	if t.log.FsyncMode() == engine.FsyncOnCommit {
		return t.shape.Pause
	}
	return max(t.shape.Pause, pauseUnsynced)
}

// append blocks where there is one publisher, as its caller would; several stage their
// appends in turn and wait beside each other.
func (t *turn) append(ctx context.Context) (engine.AppendResult, error) {
	t.mu.Lock()
	first := t.next
	records := t.shape.Records(t.store.Name, first)
	if t.shape.Publishers == 1 {
		defer t.mu.Unlock()
		result, err := t.log.Append(ctx, records...)
		t.next = result.Last + 1
		return result, orMoved(err, first, result)
	}
	pending, err := t.log.AppendAsync(ctx, records...)
	if err == nil {
		err = orMoved(nil, first, pending.Offsets())
		t.next = pending.Offsets().Last + 1
	}
	t.mu.Unlock()
	if err != nil {
		return engine.AppendResult{}, err
	}
	return pending.Wait(ctx)
}

// orMoved fails when an append that went well got other offsets than its records are
// made for.
func orMoved(err error, first uint64, result engine.AppendResult) error {
	if err == nil && result.First != first {
		return fmt.Errorf("an append got offset %d where %d is next", result.First, first)
	}
	return err
}

// watch tells how far the log reports itself durable, as that moves.
func (t *turn) watch(stop <-chan struct{}) {
	tick := time.NewTicker(fsyncInterval / 2)
	defer tick.Stop()
	told := uint64(0)
	for {
		if durable := t.log.DurableOffset(); durable > told {
			told = durable
			t.witness(Event{Kind: Durable, Store: t.store.Name, Log: t.shape.Log, Bound: durable})
		}
		select {
		case <-tick.C:
		case <-stop:
			return
		}
	}
}
