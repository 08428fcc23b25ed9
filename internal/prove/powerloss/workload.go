package powerloss

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"sync"
	"time"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
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

	checkpoints, imagesPerCheck int
	// pauseMax bounds the pause before each append, in which timers may run.
	pauseMax time.Duration
	// recoverEach cuts the opening of one image in so many short; 1 means all.
	// judged counts the images.
	recoverEach, judged uint64

	syncs sync.WaitGroup // under way

	mu     sync.Mutex
	shards []*truth
	// midway are the images taken in the middle of something since the last
	// checkpoint; changes counts the changes since, and at says where to take one.
	midway  []image
	changes int
	at      map[int]bool
	// hot says, with mu held, which changes are to give an image besides; seed is
	// what the image would be made with.
	hot func(c simdisk.Change, seed uint64) bool
	// seen counts the changes like each other.
	seen map[simdisk.Change]uint64
}

// image is what a crash left, with what it has to hold of each shard.
type image struct {
	host   host
	seed   uint64 // made it
	at     string // the moment, when it is worth telling
	expect []expectation
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

func newWorkload(s scenario, seed uint64, images int, h host) *workload {
	w := &workload{
		scenario: s, host: h, seed: seed, rand: simdisk.NewRand(seed), liveConfig: s.config,
		checkpoints: 12, imagesPerCheck: images, pauseMax: 30 * time.Millisecond, recoverEach: recoverEachDefault,
	}
	w.begin(1, 0)
	w.judged = w.recoverEach - seed%5 // so that one of the first five is
	if _, isReal := h.(*real); isReal {
		// Each image takes real flushes to open.
		w.checkpoints, w.pauseMax = 5, 3*time.Millisecond
	}
	return w
}

// life is one life of a store: from opening its shards to closing it.
type life struct {
	shards int
	config func(device.FS, device.Queue) engine.Config
	// start is where a shard begins that is not there yet.
	start uint64
}

// on opens the shards of a host for the time of do.
func (l life) on(h host, do func(*engine.Store, []*engine.Log) error) (err error) {
	ctx := context.Background()
	fs, queue, err := h.boot()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, queue.Close()) }()
	store, err := engine.OpenStore(ctx, h.store(), l.config(fs, queue))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close(ctx)) }()
	var logs []*engine.Log
	for shard := range l.shards {
		log, err := store.OpenLogAt(ctx, shardKey(shard), l.start)
		if err != nil {
			return err
		}
		logs = append(logs, log)
	}
	return do(store, logs)
}

// live opens the workload's own logs for the time of do, and counts what that
// life did. Images in the middle of something may be taken from when the logs
// are open until the next life of another store.
func (w *workload) live(do func() error) error {
	config := func(fs device.FS, queue device.Queue) engine.Config {
		w.host.model().BeforeChange(w.maybeCrash)
		return w.liveConfig(fs, queue)
	}
	err := life{len(w.shards), config, w.start}.on(w.host, func(store *engine.Store, logs []*engine.Log) error {
		w.mu.Lock()
		for i, t := range w.shards {
			t.opened(logs[i])
		}
		w.mu.Unlock()
		before := w.host.model().Counts()
		err := do()
		w.syncs.Wait()
		w.sum.addLife(store.Stats(), before, w.host.model().Counts())
		return err
	})
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.shards {
		t.closed()
	}
	return nil
}

// payload is of any size, or, with every second seed, of one: then a record may
// take exactly the place of another that a crash damaged, and make what follows
// that one valid again if it was not cut off durably.
func payload(rand *simdisk.Rand, seed uint64) []byte {
	n := uint64(payloadFixed)
	if seed%2 == 0 {
		n = rand.Below(payloadMax)
	}
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

// append appends a batch to a workload's only shard, after a pause in which
// timers may run.
func (w *workload) append() error {
	ctx := context.Background()
	time.Sleep(time.Duration(w.rand.Below(uint64(w.pauseMax))))
	t := w.shards[0]
	records := make([]engine.Record, 1+w.rand.Below(recordsPerAppendMax))
	w.mu.Lock()
	first := t.submitted
	for i := range records {
		records[i].Payload = payload(w.rand, w.seed)
		t.want = append(t.want, records[i].Payload)
	}
	t.submitted += uint64(len(records))
	w.mu.Unlock()
	result, err := t.log.Append(ctx, records...)
	if err != nil {
		return err
	}
	if result.First != first || result.Last != first+uint64(len(records))-1 {
		return fmt.Errorf("%d records appended at %d got offsets %d to %d", len(records), first, result.First, result.Last)
	}
	w.mu.Lock()
	t.acked = result.Last + 1
	t.segments()
	w.mu.Unlock()
	w.sum.Acked += len(records)
	if w.mode == engine.FsyncNone {
		if err := w.syncSometimes(t); err != nil {
			return err
		}
	}
	if w.rand.Below(4) == 0 {
		w.host.model().WriteBack(w.rand.Next())
	}
	return nil
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

// crash takes an image. What must survive is read first, since it only grows.
func (w *workload) crash(o simdisk.CrashOptions) image {
	i := image{seed: o.Seed}
	w.mu.Lock()
	for _, t := range w.shards {
		i.expect = append(i.expect, t.promise(w.mode))
	}
	w.mu.Unlock()
	i.host = w.host.crash(o)
	w.mu.Lock()
	defer w.mu.Unlock()
	for s, t := range w.shards {
		t.complete(&i.expect[s])
	}
	return i
}

// death takes an image of a process death: the page cache stays, and with it all
// that was acknowledged or read.
func (w *workload) death() image {
	w.mu.Lock()
	var acked []uint64
	for _, t := range w.shards {
		acked = append(acked, max(t.acked, t.read))
	}
	w.mu.Unlock()
	i := w.crash(simdisk.CrashOptions{Kind: simdisk.ProcessDeath, Seed: w.rand.Next()})
	for s := range i.expect {
		i.expect[s].held = max(i.expect[s].held, acked[s])
	}
	w.sum.Deaths++
	return i
}

// maybeCrash is the disk's hook. It takes images in the middle of something.
func (w *workload) maybeCrash(c simdisk.Change) {
	w.mu.Lock()
	seed := w.seedOfLocked(c)
	now := w.shards[0].log != nil && (w.at[w.changes] || w.hot != nil && w.hot(c, seed))
	w.changes++
	w.mu.Unlock()
	if !now {
		return
	}
	taken := w.crash(simdisk.CrashOptions{Writeback: w.writeback, Seed: seed})
	taken.at = describeChange(c)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.midway = append(w.midway, taken)
}

// seedOfLocked gives the seed of an image in front of a change. It depends on the
// change and on how many like it came before, and not on what other goroutines
// did, so that a replay gives the same image under another schedule.
func (w *workload) seedOfLocked(c simdisk.Change) uint64 {
	c.Path = filepath.Base(c.Path)
	if w.seen == nil {
		w.seen = make(map[simdisk.Change]uint64)
	}
	w.seen[c]++
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %s %d %d %d", c.What, c.Path, c.Kind, c.Pos, w.seen[c])
	return simdisk.NewRand(w.seed ^ h.Sum64()).Next()
}

// aim chooses at how many and which of the next changes maybeCrash takes an image.
func (w *workload) aim(images, below int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changes, w.at = 0, make(map[int]bool)
	for range images {
		w.at[int(w.rand.Below(uint64(below)))] = true
	}
}

// checkpoint takes images and checks them and those taken since the last one.
// One more is of a process death.
func (w *workload) checkpoint() error {
	var images []image
	for range w.imagesPerCheck {
		images = append(images, w.crash(simdisk.CrashOptions{Writeback: w.writeback, Seed: w.rand.Next()}))
	}
	images = append(images, w.death())
	return w.judge(append(images, w.takeMidway()...))
}

// takeMidway gives the images taken in the middle of something. With many
// publishers it is known now, at rest, which records they may hold.
func (w *workload) takeMidway() []image {
	w.mu.Lock()
	defer w.mu.Unlock()
	images := w.midway
	w.sum.Midway += len(images)
	w.midway = nil
	if w.kind == Publishers {
		for _, i := range images {
			for s, t := range w.shards {
				i.expect[s].want = t.want
			}
		}
	}
	return images
}

// appends is the plain workload.
func (w *workload) appends() error {
	if err := w.live(func() error { return w.appendAndCheck(w.checkpoints, nil) }); err != nil {
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
