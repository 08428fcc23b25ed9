package powerloss

import (
	"context"
	"fmt"
	"sync"
	"time"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
	"felix.local/felix/sidecar"
)

// The shape of a workload: batches of up to four small records.
const (
	appendsPerCheck     = 7
	recordsPerAppendMax = 4
	payloadMax          = 600
	payloadFixed        = 500
)

// workload is one run of one scenario with one seed.
type workload struct {
	scenario
	host host
	seed uint64
	rand *simdisk.Rand
	sum  Counts

	// liveConfig is that of the logs that are crashed; start is where they begin.
	liveConfig func(device.FS, device.Queue) engine.Config
	start      uint64
	// liveMode, when set, is the mode of those logs in a store of another.
	liveMode *engine.FsyncMode

	checkpoints, imagesPerCheck int
	// pauseMax bounds the pause before each append, in which timers may run.
	pauseMax time.Duration
	// recoverEach cuts the opening of one image in so many short; 1 means all.
	// judged counts the images.
	recoverEach, judged uint64
	// openings counts how often images were opened.
	openings uint64
	// hotEach has one in so many changes of what a workload is about give images.
	hotEach uint64
	// sideBySide has shards appended to at once. In a bubble that cannot be: no time
	// passes while the leader of a journal waits for the batches of others.
	sideBySide bool

	syncs sync.WaitGroup // under way

	mu     sync.Mutex
	shards []*truth
	// name is what was done to the name of the shards' stream; nil where that is
	// nothing.
	name *name
	// id is the storage id of the store that runs or ran last.
	id *sidecar.StorageID
	// resting says that no shard is being appended to: the store starts or stops.
	// within says that something is done which every so many changes of give images.
	resting, within bool
	// midway are the images taken in the middle of something since the last
	// checkpoint; changes counts the changes since, and at says where to take one.
	midway  []image
	changes int
	at      map[int]bool
	// hot says, with mu held, which changes are to give an image besides; seed is
	// what the image would be made with. killed has every second such change
	// give one of a process death too.
	hot    func(c simdisk.Change, seed uint64) bool
	killed bool
	// seen counts the changes like each other.
	seen map[simdisk.Change]uint64
}

// begin makes the record of shards that are to be made, beginning at start.
func (w *workload) begin(shards int, start uint64) {
	w.start = start
	w.shards = nil
	for range shards {
		w.shards = append(w.shards, newTruth(start))
	}
}

// recoverEachDefault cuts enough openings short that every kind of workload has
// some, at little cost.
const recoverEachDefault = 40

// The defaults of workload.hotEach. On real files each image takes real flushes to
// open.
const (
	hotEachDefault = 10
	hotEachOnReal  = 60
)

func newWorkload(s scenario, seed uint64, images int, h host) *workload {
	w := &workload{
		scenario: s, host: h, seed: seed, rand: simdisk.NewRand(seed), liveConfig: s.config,
		checkpoints: 12, imagesPerCheck: images, pauseMax: 30 * time.Millisecond, recoverEach: recoverEachDefault, hotEach: hotEachDefault,
	}
	if s.journaled {
		// An image has the journal's files beside those of the logs, and takes longer.
		w.imagesPerCheck, w.recoverEach = (images+1)/2, 2*recoverEachDefault
	}
	w.begin(1, 0)
	w.judged = w.recoverEach - seed%5 // so that one of the first five is
	if _, isReal := h.(*real); isReal {
		// Each image takes real flushes to open.
		w.checkpoints, w.pauseMax, w.hotEach = 5, 3*time.Millisecond, hotEachOnReal
		w.sideBySide = true
	}
	return w
}

// payload is of any size, or, with every second seed, of one: then a record may
// take exactly the place of another that a crash damaged, and make what follows
// that one valid again if it was not cut off durably.
func payload(rand *simdisk.Rand, seed uint64) []byte {
	n := uint64(payloadFixed)
	if seed%2 == 0 {
		n = rand.Below(payloadMax)
	}
	return randomBytes(rand, n)
}

func randomBytes(rand *simdisk.Rand, n uint64) []byte {
	b := make([]byte, n)
	for i := 0; i < len(b); i += 8 {
		n := rand.Next()
		for j := i; j < min(len(b), i+8); j++ {
			b[j] = byte(n)
			n >>= 8
		}
	}
	return b
}

// append appends a batch to a workload's first shard.
func (w *workload) append() error { return w.appendTo(w.shards[0]) }

// appendTo appends a batch to a shard, after a pause in which timers may run.
func (w *workload) appendTo(t *truth) error {
	time.Sleep(time.Duration(w.rand.Below(uint64(w.pauseMax))))
	records := make([]engine.Record, 1+w.rand.Below(recordsPerAppendMax))
	for i := range records {
		records[i].Payload = payload(w.rand, w.seed)
	}
	return w.appendRecords(t, records)
}

func (w *workload) appendRecords(t *truth, records []engine.Record) error {
	if err := w.submit(t, records); err != nil {
		return err
	}
	if w.mode == engine.FsyncNone {
		if err := w.syncSometimes(t); err != nil {
			return err
		}
	}
	w.writeBackSometimes()
	return nil
}

// submit appends records, and checks where they are said to be. Several shards may be
// appended to side by side.
func (w *workload) submit(t *truth, records []engine.Record) error {
	w.mu.Lock()
	first := t.submitted
	for _, r := range records {
		t.want = append(t.want, r.Payload)
	}
	t.submitted += uint64(len(records))
	t.standing.writes(t.standing.writing(), len(records))
	w.mu.Unlock()
	result, err := t.log.Append(context.Background(), records...)
	if err != nil {
		return err
	}
	if result.First != first || result.Last != first+uint64(len(records))-1 {
		return fmt.Errorf("%d records appended at %d got offsets %d to %d", len(records), first, result.First, result.Last)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.acked = result.Last + 1
	t.segments()
	w.sum.Acked += len(records)
	return nil
}

func (w *workload) writeBackSometimes() {
	if w.rand.Below(4) == 0 {
		w.host.model().WriteBack(w.rand.Next())
	}
}

func (w *workload) syncSometimes(t *truth) error {
	ctx := context.Background()
	switch w.rand.Below(8) {
	case 0:
		return t.log.Sync(ctx)
	case 1: // beside the appends to come, and rolls
		w.syncs.Go(func() { _ = t.log.Sync(ctx) })
	}
	return nil
}

// appends is the plain workload.
func (w *workload) appends() error {
	if err := w.live(func(*engine.Store) error { return w.appendAndCheck(w.checkpoints, nil) }); err != nil {
		return err
	}
	return w.judge(w.takeMidway())
}

// appendAndCheck appends so many times to a checkpoint, with something between
// an append and the next.
func (w *workload) appendAndCheck(checkpoints int, between func() error) error {
	for range checkpoints {
		w.aim(1, 4*appendsPerCheck)
		for range appendsPerCheck {
			if err := w.append(); err != nil {
				return err
			}
			if between == nil {
				continue
			}
			if err := between(); err != nil {
				return err
			}
		}
		if err := w.checkpoint(); err != nil {
			return err
		}
	}
	return nil
}

// recoveries is shorter, since each image gives many more.
func (w *workload) recoveries() error {
	w.checkpoints, w.imagesPerCheck, w.recoverEach = max(1, w.checkpoints/2), max(1, w.imagesPerCheck/6), 1
	return w.appends()
}
