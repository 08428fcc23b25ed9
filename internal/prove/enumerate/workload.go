package enumerate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing/synctest"
	"time"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
	"felix.local/felix/segment"
)

const (
	root = "/data"
	// segmentBytes is a page and a half: a batch or a filling record may lie
	// across the boundary of two pages, of which a power loss takes either.
	segmentBytes = 6000
	spacingBytes = 512
	// payloadBytes is the size of an ordinary record, of which batchRecords make
	// a batch. Two batches pass the threshold of a background roll.
	payloadBytes     = 700
	batchRecords     = 3
	thresholdPercent = 60
	// fillRest is what a filling record leaves of a segment; no record fits.
	fillRest = 100
)

func key() engine.ShardKey {
	return engine.ShardKey{Tenant: "proof", Namespace: "enumerate", Stream: "log"}
}

func shardDir() string { return filepath.Join(root, key().DirName()) }

// The timers of a store, for as long as a workload lets time pass. They meet no
// other of its timers in any instant before 1.3 s: which of two comes first would
// be left to chance.
const (
	fsyncInterval    = 130 * time.Millisecond
	markSyncInterval = 200 * time.Millisecond
	// tickStep is how long the disk gets nothing done, and tickSteps of them have a
	// flush and two ticks of the mark. opsMaxMax times that is less than 1.3 s.
	tickStep  = 20 * time.Millisecond
	tickSteps = 12
	// farAway is an interval that never ends.
	farAway = 1000 * time.Hour
)

// config is that of everything opened after the power went: no timer does
// anything, and every pass of retention removes all sealed segments.
func config(c Case, fs device.FS, queue device.Queue) engine.Config {
	e := engine.DefaultConfig()
	e.FsyncMode, e.FsyncInterval = c.Mode, farAway
	e.SegmentBytes, e.IndexSpacingBytes = segmentBytes, spacingBytes
	e.RetentionBytes, e.RetentionInterval = 1, farAway
	e.MinFreeBytes, e.MinFreeInodes = 0, 0
	if c.Roll != Inline {
		e.RolloverThresholdPercent = thresholdPercent
	}
	if c.Journaled {
		e.Journal, e.JournalBytes = engine.JournalRequire, engine.JournalBytesMin
	}
	e.NowMicros = func() uint64 { return 1_700_000_000_000_000 }
	e.Logger = slog.New(slog.DiscardHandler)
	e.FS, e.Queue = fs, queue
	return e
}

// open opens the store and its log.
func open(c engine.Config) (*engine.Store, *engine.Log, error) {
	ctx := context.Background()
	store, err := engine.OpenStore(ctx, root, c)
	if err != nil {
		return nil, nil, err
	}
	log, err := store.OpenLog(ctx, key())
	if err != nil {
		return nil, nil, errors.Join(err, store.Close(ctx))
	}
	return store, log, nil
}

// moment is a crash point, with all disks that a power loss there may leave.
type moment struct {
	point  int
	change string
	states *simdisk.States
	expect expectation
}

// workload is one run of one case.
type workload struct {
	Case
	o     Options
	disk  *simdisk.Disk
	queue *heldQueue
	cfg   engine.Config
	store *engine.Store
	log   *engine.Log // nil before it was opened first
	model model
	deeds Deeds

	// watching: the last operation, or what follows it in the background, runs.
	watching bool
	// points counts the crash points, moments are those with states of their own.
	points  int
	moments []moment
	// silent: the change that the last crash point was in front of leaves the disk
	// as it was; expected is the key of what was expected there.
	silent   bool
	expected uint64
}

func newWorkload(c Case, o Options) *workload {
	w := &workload{Case: c, o: o, disk: simdisk.New()}
	w.disk.MakeDir(root)
	if c.Journaled {
		w.disk = withJournal(c, w.disk)
	}
	w.queue = newHeldQueue(w.disk, c.Roll == LatePreparation || c.Roll == LateSeal)
	queue := device.Queue(w.queue)
	if o.Wrap != nil {
		queue = o.Wrap(queue)
	}
	w.cfg = config(c, w.disk, queue)
	w.cfg.FsyncInterval, w.cfg.MarkSyncInterval = fsyncInterval, markSyncInterval
	w.disk.BeforeChange(w.crashPoint)
	return w
}

// withJournal gives a disk with the files of a journal and an empty log: making them
// writes more pages than there are states to try.
func withJournal(c Case, disk *simdisk.Disk) *simdisk.Disk {
	queue := disk.NewQueue(simdisk.QueueOptions{})
	store, _, err := open(config(c, disk, queue))
	if err == nil {
		err = errors.Join(store.Close(context.Background()), queue.Close())
	}
	if err != nil {
		panic(fmt.Sprintf("enumerate: no journal on an empty disk: %v", err))
	}
	return disk.Crash(simdisk.CrashOptions{})
}

// run takes the crash points of the last operation. It has to be called in a
// bubble. The error is that of an operation that failed.
func (w *workload) run() error {
	w.watching = len(w.Workload) == 0
	err := w.start()
	for i, op := range w.Workload {
		if err != nil {
			break
		}
		w.watching = i == len(w.Workload)-1
		if err = w.operate(op); err != nil {
			err = fmt.Errorf("operation %d, %s: %w", i+1, op, err)
		}
	}
	if err == nil {
		w.settle(nothing)
		w.watch("after the last change")
	}
	w.watching = false
	if w.store != nil {
		err = errors.Join(err, w.close())
	}
	w.settle(nothing)
	return errors.Join(err, w.queue.Close())
}

// drive runs one call and lets the disk take steps until it returned. Then note
// says what that means, when it did not fail, and the disk does what it does
// between two calls. Everything else waits when drive returns.
func (w *workload) drive(call func() error, note func()) error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	for {
		synctest.Wait()
		select {
		case err := <-done:
			if err == nil {
				note()
			}
			w.rest()
			return err
		default:
		}
		if !w.queue.step(nothing) {
			panic(fmt.Sprintf("enumerate: %v hangs: a call waits, and nothing is under way", w.Case))
		}
	}
}

// tick lets time pass until each timer had its turn: a flush under periodic, and
// the mark under either mode that has something durable without being asked.
func (w *workload) tick() {
	for range tickSteps {
		time.Sleep(tickStep)
		w.rest()
	}
}

// rest lets the disk do what it does between two calls.
func (w *workload) rest() {
	synctest.Wait()
	switch w.Roll {
	case LatePreparation:
	case LateSeal:
		w.settle(w.former())
	default:
		w.settle(nothing)
	}
}

// settle lets the disk do what is under way, and what follows from it, but for
// files that are held.
func (w *workload) settle(held func(path string) bool) {
	for {
		synctest.Wait()
		if !w.queue.step(held) {
			return
		}
	}
}

func nothing(string) bool { return false }

// former tells the files of all segments but the newest.
func (w *workload) former() func(path string) bool {
	if w.log == nil {
		return nothing
	}
	segments := w.log.Segments()
	active := segments[len(segments)-1].ID
	return func(path string) bool {
		id, ok := segment.ParseLogName(filepath.Base(path))
		if !ok {
			id, ok = segment.ParseIndexName(filepath.Base(path))
		}
		return ok && id < active
	}
}

func (w *workload) start() error {
	var store *engine.Store
	var log *engine.Log
	return w.drive(func() (err error) {
		store, log, err = open(w.cfg)
		return err
	}, func() { w.store, w.log = store, log })
}

// close closes the store, after which everything appended is durable, and adds up
// what it did.
func (w *workload) close() error {
	store := w.store
	w.store = nil
	err := w.durably(func() error { return store.Close(context.Background()) })
	stats := store.Stats()
	w.deeds.Rolls += int(stats.Rolls)
	w.deeds.RollsBackground += int(stats.RollsBackground)
	w.deeds.RollsDiscarded += int(stats.RollsDiscarded)
	w.deeds.Trimmed += int(stats.RetentionSegments)
	w.deeds.Entries += int(stats.JournalEntries)
	return err
}

func (w *workload) operate(op Operation) error {
	ctx := context.Background()
	switch op {
	case Append:
		return w.append(payloadBytes)
	case AppendBatch:
		sizes := make([]int, batchRecords)
		for i := range sizes {
			sizes[i] = payloadBytes
		}
		return w.append(sizes...)
	case RollOver:
		return w.rollOver()
	case Sync:
		if w.Mode != engine.FsyncNone {
			w.tick()
		}
		return w.durably(func() error { return w.log.Sync(ctx) })
	case Seal:
		return w.durably(func() error {
			_, err := w.log.Seal(ctx)
			return err
		})
	case Retention:
		return w.retention()
	case Truncate:
		return w.truncate()
	case Reopen:
		if err := w.close(); err != nil {
			return err
		}
		return w.start()
	default:
		panic("enumerate: " + string(op) + " is no operation")
	}
}

func (w *workload) append(sizes ...int) error {
	first := uint64(len(w.model.records))
	payloads := w.model.grow(sizes...)
	records := make([]engine.Record, len(payloads))
	for i, p := range payloads {
		records[i].Payload = p
	}
	var result engine.AppendResult
	if err := w.drive(func() (err error) {
		result, err = w.log.Append(context.Background(), records...)
		return err
	}, func() {
		w.model.acked = uint64(len(w.model.records))
		w.deeds.Acked += len(records)
	}); err != nil {
		return err
	}
	if last := w.model.acked - 1; result.First != first || result.Last != last {
		return fmt.Errorf("%d to %d were appended and got the offsets %d to %d", first, last, result.First, result.Last)
	}
	return nil
}

// rollOver fills the segment, unless it is nearly full, and appends one more.
func (w *workload) rollOver() error {
	segments := w.log.Segments()
	rest := segmentBytes - fillRest - int(segments[len(segments)-1].Size) - recordOverhead
	if rest > 0 {
		if err := w.append(rest); err != nil {
			return err
		}
	}
	return w.append(payloadBytes)
}

// durably runs a call after which everything appended is durable.
func (w *workload) durably(call func() error) error {
	return w.drive(call, func() { w.model.promised = uint64(len(w.model.records)) })
}

func (w *workload) retention() error {
	w.model.trimming = true
	return w.drive(func() error {
		_, err := w.log.EnforceRetention(context.Background())
		return err
	}, func() {
		w.model.trimming = false
		w.model.base = w.log.BaseOffset()
	})
}

func (w *workload) truncate() error {
	cut, base := uint64(len(w.model.records))/2, w.model.base
	if len(w.model.records) > 0 {
		w.model.cut, w.model.cutting = cut, true
	}
	if err := w.drive(func() error { return w.log.Truncate(context.Background(), cut) }, func() {
		if !w.model.cutting {
			return // there was nothing to cut
		}
		w.deeds.Cut++
		if cut < base {
			w.deeds.CutBelowBase++
		}
		w.model.cutOff(cut)
	}); err != nil {
		return err
	}
	if found := w.log.BaseOffset(); found != w.model.base {
		return fmt.Errorf("truncated to %d a log that began at %d begins at %d", cut, base, found)
	}
	return nil
}

// crashPoint is called in front of every change.
func (w *workload) crashPoint(c simdisk.Change) {
	if !w.watching {
		return
	}
	text := fmt.Sprintf("in front of %s %s", c.What, filepath.Base(c.Path))
	if c.What == "issue" || c.What == "land" || c.What == "settle" {
		text = fmt.Sprintf("in front of %s %v %s at %d", c.What, c.Kind, filepath.Base(c.Path), c.Pos)
	}
	w.watch(text)
	w.silent = isSilent(c)
}

// isSilent says that a change leaves every disk that a power loss may leave as
// possible as it was, and adds none: a flush covers nothing before it completes,
// a plain write is done with when it landed, and reserved blocks show nowhere.
func isSilent(c simdisk.Change) bool {
	switch c.What {
	case "issue":
		return c.Kind == device.Flush || c.Kind == device.FlushAll || c.Kind == device.Allocate
	case "settle":
		return c.Kind == device.Write || c.Kind == device.Allocate
	default:
		return false
	}
}

// watch notes a crash point.
func (w *workload) watch(change string) {
	var durable, base uint64
	if w.log != nil {
		durable, base = w.log.DurableOffset(), w.log.BaseOffset()
	}
	e := w.model.expect(durable, base, w.Mode == engine.FsyncOnCommit)
	point := w.points
	w.points++
	k := e.key()
	same := w.silent && k == w.expected
	w.expected, w.silent = k, false
	if same && !w.o.visitAll {
		return // the same disks, of which the same is expected
	}
	if w.Point < 0 || w.Point == point {
		w.moments = append(w.moments, moment{point, change, w.disk.States(w.o.Bound), e})
	}
}
