package engine_test

import (
	"errors"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/internal/simdisk"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
	"felix.local/felix/sidecar"
)

// smallestJournal has a journal whose files are used again soon.
func smallestJournal(c *engine.Config) { c.JournalBytes = engine.JournalBytesMin }

// newSplitJournalRig is a store with a journal on a disk that writes in pieces.
func newSplitJournalRig(t testing.TB, seed uint64) *simRig {
	disk := simdisk.New()
	disk.MakeDir(simRoot)
	queue := disk.NewQueue(simdisk.QueueOptions{Mode: simdisk.Adversarial, Seed: seed, ShortPercent: 100})
	return &simRig{disk: disk, rig: newRigIn(t, simRoot, journaled, smallestJournal, func(c *engine.Config) {
		c.FS, c.Queue = disk, queue
	})}
}

// afterPowerLoss opens what a power loss now leaves.
func (r *simRig) afterPowerLoss(seed uint64) *rig {
	r.Helper()
	cfg := r.cfg
	return simRigOn(r.TB, r.disk.Crash(simdisk.CrashOptions{Seed: seed}), func(c *engine.Config) { *c = cfg })
}

// A write covers its last piece alone when it took several, and so does that of a
// frame.
func TestAFrameInSeveralPiecesIsDurableWhenItIsAcknowledged(t *testing.T) {
	r := newSplitJournalRig(t, 1)
	const each = 30
	for n := range uint64(each) {
		if err := appendEach(r.ctx, r.log, 1, journalWorldBytes); err != nil {
			t.Fatal(err)
		}
		image := r.afterPowerLoss(n)
		image.holds(image.log, n+1)
		image.close()
	}
	if entries := r.store.Stats().JournalEntries; entries < each/2 {
		t.Errorf("%d entries in the journal", entries)
	}
}

// newSimFaultRig is a store with a small journal on a simulated disk that fails when
// told to, and loses power.
func newSimFaultRig(t testing.TB) (*simRig, *faultdisk.Disk) {
	disk := simdisk.New()
	disk.MakeDir(simRoot)
	faults := faultdisk.New(disk, disk.NewQueue(simdisk.QueueOptions{}), faultdisk.Options{})
	return &simRig{disk: disk, rig: newRigIn(t, simRoot, journaled, smallestJournal, func(c *engine.Config) {
		c.FS, c.Queue = faults.FS(), faults.Queue()
	})}, faults
}

// eachLoss takes what some power losses in front of each change leave, and looks at
// all of it when that ends. note is called before, for what has to be there.
func (r *simRig) eachLoss(losses uint64, concerns func(simdisk.Change) bool, note func() uint64, look func(image *rig, least uint64)) (stop func() (images int)) {
	type loss struct {
		disk  *simdisk.Disk
		least uint64
	}
	var mu sync.Mutex
	var taken []loss
	r.disk.BeforeChange(func(c simdisk.Change) {
		mu.Lock()
		defer mu.Unlock()
		if !concerns(c) {
			return
		}
		for range losses {
			least := note()
			taken = append(taken, loss{r.disk.Crash(simdisk.CrashOptions{Seed: uint64(len(taken))}), least})
		}
	})
	return func() int {
		r.disk.BeforeChange(nil)
		mu.Lock()
		defer mu.Unlock()
		for _, one := range taken {
			image := simRigOn(r.TB, one.disk, func(c *engine.Config) { *c = r.cfg })
			look(image, one.least)
			image.close()
		}
		return len(taken)
	}
}

// While the flush of one log's segment hangs, the frames that hold its bytes stay: the
// others fill the journal, and go on in their segments. Then its files come free and
// are written over, not before a durable frame says that they may be: at no moment
// does a power loss take what was acknowledged, or make of a torn frame a missing one.
func TestAPowerLossBesideAPinnedJournalTakesNothing(t *testing.T) {
	r, faults := newSimFaultRig(t)
	logs := r.openShards(2)
	const pinned, fillMax, after = 10, 200, 20 // the first fit in one file: nobody writes them down early
	held := faults.Inject(faultdisk.Fault{Kinds: faultdisk.Flush, Path: inShard(0), Stall: true})
	if err := appendEach(r.ctx, logs[0], pinned, journalWorldBytes); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.store.Checkpoint()
	}()
	<-held.Reached()
	var acked atomic.Uint64
	look := func(image *rig, least uint64) {
		opened := image.openShards(2)
		image.holds(opened[0], pinned)
		image.holds(opened[1], least)
	}
	appendOne := func() {
		t.Helper()
		if err := appendEach(r.ctx, logs[1], 1, journalWorldBytes); err != nil {
			t.Fatal(err)
		}
		acked.Add(1)
	}
	for n := uint64(0); r.store.Stats().JournalFull == 0 && acked.Load() < fillMax; n++ {
		appendOne()
		if n%20 == 19 {
			image := r.afterPowerLoss(n)
			look(image, acked.Load())
			image.close()
		}
	}
	if r.store.Stats().JournalFull == 0 {
		t.Errorf("%d appends never found the journal full", fillMax)
	}
	held.Release()
	<-done
	stop := r.eachLoss(8, func(c simdisk.Change) bool { return isFrame(c.Path) }, acked.Load, look)
	before := r.store.Stats().JournalEntries
	for range after {
		appendOne()
	}
	if images := stop(); images == 0 || r.store.Stats().JournalEntries == before {
		t.Errorf("%d images, %d entries once the files are free", images, r.store.Stats().JournalEntries-before)
	}
}

// What lags is written down before its frames are written over, though its log is
// not appended to any more.
func TestFramesStayUntilWhatLagsIsInItsSegment(t *testing.T) {
	r := newSimRig(t, journaled, smallestJournal)
	logs := r.openShards(2)
	const first, secondMax = 5, 5000
	if err := appendEach(r.ctx, logs[0], first, journalWorldBytes); err != nil {
		t.Fatal(err)
	}
	second := uint64(0)
	for ; r.store.Stats().JournalBytes < 2*engine.JournalBytesMin; second++ {
		if second == secondMax {
			t.Fatalf("%d bytes of frames after %d appends do not go round", r.store.Stats().JournalBytes, second)
		}
		full := r.store.Stats().JournalFull
		if err := appendEach(r.ctx, logs[1], 1, journalWorldBytes); err != nil {
			t.Fatal(err)
		}
		// One that found no room has woken the checkpointer, which runs beside appends.
		for r.store.Stats().JournalFull > full && r.store.JournalPins() > 0 {
			if r.ctx.Err() != nil {
				t.Fatal("no checkpoint for a journal that is full")
			}
			runtime.Gosched()
		}
	}
	image := r.afterPowerLoss(1)
	opened := image.openShards(2)
	image.holds(opened[0], first)
	image.holds(opened[1], second)
}

// While every segment is refused its bytes for lack of space, logs end, and nothing
// hangs. What was acknowledged is read, survives a power loss, and is there once there
// is space.
func TestADiskThatIsFullDuringACheckpointLosesNothing(t *testing.T) {
	r, faults := newSimFaultRig(t)
	logs := r.openShards(3)
	const each = 4 // which fit in one file: nobody writes them down early
	full := faults.Inject(faultdisk.Fault{Kinds: faultdisk.Writes, Path: isLog, Errno: syscall.ENOSPC, Lands: faultdisk.Half, Times: faultdisk.Forever})
	for _, l := range logs {
		if err := appendEach(r.ctx, l, each, journalWorldBytes); err != nil {
			t.Fatal(err)
		}
	}
	r.store.Checkpoint()
	for _, l := range logs {
		if err := appendEach(r.ctx, l, 1, journalWorldBytes); !errors.Is(err, engine.ErrPoisoned) || !errors.Is(err, syscall.ENOSPC) {
			t.Error("an append behind bytes that found no space:", err)
		}
		r.holds(l, each)
	}
	for seed := range uint64(10) {
		image := r.afterPowerLoss(seed)
		for _, l := range image.openShards(3) {
			image.holds(l, each)
		}
		image.close()
	}
	if err := r.store.Close(r.ctx); !errors.Is(err, engine.ErrPoisoned) {
		t.Error(err)
	}
	full.Remove()
	r.open()
	for _, l := range r.openShards(3) {
		r.holds(l, each)
		if err := appendEach(r.ctx, l, 1, journalWorldBytes); err != nil {
			t.Error(err)
		}
	}
}

// A segment holds everything of its own before it is left behind.
func TestASealedSegmentHoldsWhatLagged(t *testing.T) {
	r := newSimRig(t, journaled, smallestJournal)
	if err := appendEach(r.ctx, r.log, 10, journalWorldBytes); err != nil {
		t.Fatal(err)
	}
	if _, err := r.log.Seal(r.ctx); err != nil {
		t.Fatal(err)
	}
	r.holds(r.log, 10)
	if err := appendEach(r.ctx, r.log, 10, journalWorldBytes); err != nil {
		t.Fatal(err)
	}
	r.holds(r.log, 20)
	image := r.afterPowerLoss(1)
	image.holds(image.log, 20)
}

// The journal is told of a truncation: a start would bring back what was cut, or find
// other records in its place.
func TestWhatWasTruncatedIsNotReplayed(t *testing.T) {
	r := newSimRig(t, journaled, smallestJournal)
	if err := appendEach(r.ctx, r.log, 10, journalWorldBytes); err != nil {
		t.Fatal(err)
	}
	if err := r.log.Truncate(r.ctx, 5); err != nil {
		t.Fatal(err)
	}
	image := r.afterPowerLoss(1)
	if tail := image.log.TailOffset(); tail != 5 {
		t.Errorf("cut to 5, and %d are there", tail)
	}
	image.close()
	if _, err := r.log.Append(r.ctx, engine.Record{Payload: payload(5, 100)}); err != nil {
		t.Fatal(err)
	}
	image = r.afterPowerLoss(2)
	if tail := image.log.TailOffset(); tail != 6 {
		t.Errorf("one was appended behind the cut, and the log ends at %d", tail)
	}
}

// The journal is told of a deletion: a start would miss the segments, or bring the
// records to those of the shard that has the name now.
func TestWhatWasDeletedIsNotReplayed(t *testing.T) {
	r := newSimRig(t, journaled, smallestJournal)
	if err := appendEach(r.ctx, r.log, 10, journalWorldBytes); err != nil {
		t.Fatal(err)
	}
	if err := r.store.DeleteLog(r.ctx, testKey(0)); err != nil {
		t.Fatal(err)
	}
	image := r.afterPowerLoss(1)
	if tail := image.log.TailOffset(); tail != 0 {
		t.Errorf("deleted, and %d are there", tail)
	}
	image.close()
	l, err := r.store.OpenLog(r.ctx, testKey(0))
	if err != nil {
		t.Fatal(err)
	}
	if err := appendEach(r.ctx, l, 3, journalWorldBytes); err != nil {
		t.Fatal(err)
	}
	image = r.afterPowerLoss(2)
	if tail := image.log.TailOffset(); tail != 3 {
		t.Errorf("3 were appended to the shard that was made again, and %d are there", tail)
	}
	image.holds(image.log, 3)
}

// durable.mark counts what the segment holds: whoever opens it without the journal
// takes what is missing below the mark for rot.
func TestAMarkDoesNotVouchForWhatOnlyTheJournalHolds(t *testing.T) {
	r := newSimRig(t, journaled, smallestJournal)
	name := filepath.Join(simRoot, testKey(0).DirName())
	for range 3 {
		if err := appendEach(r.ctx, r.log, 5, journalWorldBytes); err != nil {
			t.Fatal(err)
		}
		r.store.MarkTick(1 << 10)()
		image := r.disk.Crash(simdisk.CrashOptions{Seed: 1})
		mark, ok := recovery.DecodeMark(simContent(t, image, filepath.Join(name, recovery.MarkName)))
		held := int64(len(simContent(t, image, filepath.Join(name, segment.LogName(mark.Segment)))))
		if !ok || mark.Synced > held {
			t.Errorf("the mark says %+v, %v, and the segment has %d bytes", mark, ok, held)
		}
		r.store.Checkpoint()
	}
}

func simContent(t testing.TB, disk *simdisk.Disk, path string) []byte {
	t.Helper()
	b, err := simdisk.ReadFile(disk, path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A generation that begins among records that only the journal holds is known after a
// replay.
func TestAGenerationWhoseRecordsLagIsKnownAfterAReplay(t *testing.T) {
	r := newSimRig(t, journaled, smallestJournal)
	const former, newest, begins, tail = 7, 8, 4, 6
	shipment := engine.Shipment{
		Generation: newest, Leader: "broker-1", Tail: tail,
		Generations: []sidecar.Epoch{{Generation: former, Start: 0}, {Generation: newest, Start: begins}},
	}
	for offset := range uint64(tail) {
		shipment.Records = append(shipment.Records, segment.Record{Offset: offset, Payload: payload(offset, journalWorldBytes)})
	}
	if err := r.log.ApplyShipment(r.ctx, shipment); err != nil {
		t.Fatal(err)
	}
	image := simRigOn(t, r.disk.Crash(simdisk.CrashOptions{Seed: 1}), func(c *engine.Config) {
		*c = r.cfg
		c.Journal = engine.JournalOff
	})
	image.holds(image.log, tail)
	for offset, want := range map[uint64]uint64{0: former, begins - 1: former, begins: newest, tail - 1: newest} {
		if got, known := image.log.GenerationAt(offset); got != want || !known {
			t.Errorf("record %d is of generation %d, want %d: %+v", offset, got, want, image.log.Generations())
		}
	}
}

// frameQueue counts the frames in flight, and takes its time with them.
type frameQueue struct {
	device.Queue
	inFlight, most atomic.Int64
}

func (q *frameQueue) Submit(ops ...*device.Op) {
	for _, op := range ops {
		if op.Kind != device.WriteDsync || !isFrame(op.File.Name()) {
			q.Queue.Submit(op)
			continue
		}
		op.Prepare()
		if n := q.inFlight.Add(1); n > q.most.Load() {
			q.most.Store(n)
		}
		go func() {
			for range 100 {
				runtime.Gosched()
			}
			inner := device.Op{Kind: op.Kind, File: op.File, Buf: op.Buf, Pos: op.Pos}
			err := device.Do(q.Queue, &inner)
			op.Pieces = inner.Pieces
			q.inFlight.Add(-1)
			op.Complete(inner.N, err)
		}()
	}
}

// A frame is durable before the next is begun: a later one beside one that is missing
// is rot to a start.
func TestOneFrameIsInFlight(t *testing.T) {
	disk := simdisk.New()
	disk.MakeDir(simRoot)
	queue := &frameQueue{Queue: disk.NewQueue(simdisk.QueueOptions{})}
	r := &simRig{disk: disk, rig: newRigIn(t, simRoot, journaled, smallestJournal, func(c *engine.Config) { c.FS, c.Queue = disk, queue })}
	var all sync.WaitGroup
	logs := r.openShards(8)
	for _, l := range logs {
		all.Go(func() {
			if err := appendEach(r.ctx, l, 20, journalWorldBytes); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if most := queue.most.Load(); most != 1 {
		t.Errorf("%d frames were in flight at once", most)
	}
	image := r.afterPowerLoss(1)
	for _, l := range image.openShards(len(logs)) {
		image.holds(l, 20)
	}
}
