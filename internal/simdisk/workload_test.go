package simdisk_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
)

// The shape of the workload: batches of up to four small records, in segments of
// three pages and a bit.
const (
	appendsPerCheck     = 7
	recordsPerAppendMax = 4
	payloadMax          = 600
	payloadFixed        = 500
)

// workload is one run of one scenario with one seed.
type workload struct {
	*testing.T
	scenario
	host host
	seed uint64
	sum  *verdicts
	rand *simdisk.Rand

	checkpoints, imagesPerCheck int
	// pauseMax bounds the pause before each append, in which timers may run.
	pauseMax time.Duration
	// crashRecovery takes an image in front of each change that opening makes.
	crashRecovery bool

	log   *engine.Log
	syncs sync.WaitGroup // under way
	mu    sync.Mutex
	want  [][]byte // payloads by offset, those under way included
	acked uint64
	// midway are the images taken in the middle of something since the last
	// checkpoint; changes counts the changes since, and at is where to take one.
	midway      []image
	changes, at int
}

func newWorkload(t *testing.T, s scenario, seed uint64, sum *verdicts) *workload {
	return &workload{
		T: t, scenario: s, seed: seed, sum: sum, rand: simdisk.NewRand(seed),
		checkpoints: 12, imagesPerCheck: 6, pauseMax: 30 * time.Millisecond,
	}
}

// image is what a crash left, with what it has to hold.
type image struct {
	host host
	seed uint64 // made it
	// held is one past the last offset that must be there, durable one past the
	// last that must be there if the power goes before the log is open, written
	// one past the last that may be there.
	held, durable, written uint64
}

func (s scenario) config(fs device.FS, queue device.Queue) engine.Config {
	c := engine.DefaultConfig()
	c.FsyncMode, c.FsyncInterval = s.mode, 2*time.Millisecond
	c.SegmentBytes, c.IndexSpacingBytes = 3*4096+700, 512
	c.RolloverThresholdPercent, c.MaxOvershootPercent = s.threshold, 200
	c.MinFreeBytes, c.MinFreeInodes = 0, 0
	c.Logger = slog.New(slog.DiscardHandler)
	c.FS, c.Queue = fs, queue
	return c
}

func scenarioKey() engine.ShardKey {
	return engine.ShardKey{Tenant: "t", Namespace: "n", Stream: "s"}
}

// with opens the log of a host for the time of do.
func (s scenario) with(h host, do func(*engine.Log) error) (err error) {
	ctx := context.Background()
	fs, queue := h.boot()
	defer func() { err = errors.Join(err, queue.Close()) }()
	store, err := engine.OpenStore(ctx, h.store(), s.config(fs, queue))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close(ctx)) }()
	l, err := store.OpenLog(ctx, scenarioKey())
	if err != nil {
		return err
	}
	return do(l)
}

// run ends at the first image that fails.
func (w *workload) run() {
	err := w.with(w.host, func(l *engine.Log) error {
		w.log = l
		w.host.model().BeforeChange(w.maybeCrash)
		defer w.host.model().BeforeChange(nil)
		for range w.checkpoints {
			w.mu.Lock()
			w.changes, w.at = 0, int(w.rand.Below(4*appendsPerCheck))
			w.mu.Unlock()
			for range appendsPerCheck {
				if err := w.append(); err != nil {
					return err
				}
			}
			w.checkpoint()
		}
		w.syncs.Wait()
		return nil
	})
	if err != nil {
		w.Fatalf("FELIX_POWER_LOSS_SEED=%#x: %v", w.seed, err)
	}
	counts := w.host.model().Counts()
	w.sum.flushes += counts.Flushes
	w.sum.dirFlushes += counts.DirFlushes
	w.sum.dsyncs += counts.DsyncWrites
	w.sum.acked += int(w.acked)
}

// payload is of any size, or, with every second seed, of one: then a record may
// take exactly the place of another that a crash damaged, and make what follows
// that one valid again if it was not cut off durably.
func (w *workload) payload() []byte {
	n := uint64(payloadFixed)
	if w.seed%2 == 0 {
		n = w.rand.Below(payloadMax)
	}
	b := make([]byte, n)
	for i := 0; i < len(b); i += 8 {
		n := w.rand.Next()
		for j := i; j < min(len(b), i+8); j++ {
			b[j] = byte(n)
			n >>= 8
		}
	}
	return b
}

// append appends a batch, after a pause in which timers may run.
func (w *workload) append() error {
	ctx := context.Background()
	time.Sleep(time.Duration(w.rand.Below(uint64(w.pauseMax))))
	records := make([]engine.Record, 1+w.rand.Below(recordsPerAppendMax))
	w.mu.Lock()
	for i := range records {
		records[i].Payload = w.payload()
		w.want = append(w.want, records[i].Payload)
	}
	w.mu.Unlock()
	result, err := w.log.Append(ctx, records...)
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.acked = result.Last + 1
	w.mu.Unlock()
	if w.mode == engine.FsyncNone {
		switch w.rand.Below(8) {
		case 0:
			if err := w.log.Sync(ctx); err != nil {
				return err
			}
		case 1: // beside the appends to come, and rolls
			w.syncs.Go(func() { _ = w.log.Sync(ctx) })
		}
	}
	if w.rand.Below(4) == 0 {
		w.host.model().WriteBack(w.rand.Next())
	}
	return nil
}

// bound is what has to survive a power loss now.
func (w *workload) bound() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mode == engine.FsyncOnCommit {
		return w.acked
	}
	return w.log.DurableOffset()
}

// crash takes an image. What must survive is read first, since it only grows.
func (w *workload) crash(o simdisk.CrashOptions) image {
	durable := w.bound()
	h := w.host.crash(o)
	w.mu.Lock()
	defer w.mu.Unlock()
	return image{host: h, seed: o.Seed, held: durable, durable: durable, written: uint64(len(w.want))}
}

// maybeCrash takes one image per checkpoint in the middle of something.
func (w *workload) maybeCrash(simdisk.Change) {
	w.mu.Lock()
	now := w.changes == w.at
	w.changes++
	w.mu.Unlock()
	if !now {
		return
	}
	taken := w.crash(simdisk.CrashOptions{Writeback: w.writeback, Seed: w.seed + uint64(w.at)})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.midway = append(w.midway, taken)
}

// checkpoint takes images and checks them and those taken since the last one.
// One more is of a process death.
func (w *workload) checkpoint() {
	var images []image
	for range w.imagesPerCheck {
		images = append(images, w.crash(simdisk.CrashOptions{Writeback: w.writeback, Seed: w.rand.Next()}))
	}
	death := w.crash(simdisk.CrashOptions{Kind: simdisk.ProcessDeath, Seed: w.rand.Next()})
	death.held = w.acked // the page cache stays, and with it all that was acknowledged
	images = append(images, death)
	w.sum.deaths++
	w.mu.Lock()
	images = append(images, w.midway...)
	w.sum.midway += len(w.midway)
	w.midway = nil
	w.mu.Unlock()
	for _, i := range images {
		found := i.host.crash(simdisk.CrashOptions{Kind: simdisk.ProcessDeath})
		tail, err := w.check(i)
		w.sum.count(i, tail, err)
		if err != nil {
			w.Fatalf("FELIX_POWER_LOSS_SEED=%#x, image seed %#x: %v\nof %d records %d had to be there; the crash left\n%s",
				w.seed, i.seed, err, i.written, i.held, listing(w, found))
		}
		i.host.discard()
	}
}
