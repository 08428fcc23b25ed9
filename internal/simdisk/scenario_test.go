package simdisk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

// The power-loss scenarios run a small log on a simulated disk, cut the power
// again and again, and open what is left. FELIX_POWER_LOSS_SEED replays one seed,
// FELIX_POWER_LOSS_SEEDS sets how many are run.

// scenario is one way to run the workload.
type scenario struct {
	name      string
	mode      engine.FsyncMode
	threshold int // of a roll; 100 rolls inline only
	writeback simdisk.Writeback
}

func scenarios() []scenario {
	var list []scenario
	for _, mode := range []engine.FsyncMode{engine.FsyncOnCommit, engine.FsyncPeriodic, engine.FsyncNone} {
		for _, threshold := range []int{100, 60} {
			for _, order := range []simdisk.Writeback{simdisk.InOrder, simdisk.AnySubset} {
				name := fmt.Sprintf("%v, %s rolls, pages %s", mode,
					map[int]string{100: "inline", 60: "background"}[threshold],
					map[simdisk.Writeback]string{simdisk.InOrder: "in order", simdisk.AnySubset: "in any order"}[order])
				list = append(list, scenario{name, mode, threshold, order})
			}
		}
	}
	return list
}

// The shape of the workload.
const (
	firstSeed           = 0x5eed0001
	checkpoints         = 12
	appendsPerCheck     = 7
	recordsPerAppendMax = 4
	imagesPerCheck      = 6
	payloadMax          = 600
)

// seeds are those to run, by the environment.
func seeds(t *testing.T, count int) []uint64 {
	t.Helper()
	if s := os.Getenv("FELIX_POWER_LOSS_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 0, 64)
		if err != nil {
			t.Fatal("FELIX_POWER_LOSS_SEED:", err)
		}
		return []uint64{seed}
	}
	if s := os.Getenv("FELIX_POWER_LOSS_SEEDS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal("FELIX_POWER_LOSS_SEEDS:", err)
		}
		count = n
	} else if testing.Short() {
		count = 1
	}
	list := make([]uint64, count)
	for i := range list {
		list[i] = firstSeed + uint64(i)
	}
	return list
}

func TestAPowerLossTakesNothingAcknowledged(t *testing.T) {
	var all verdicts
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			var sum verdicts
			for _, seed := range seeds(t, 8) {
				synctest.Test(t, func(t *testing.T) {
					w := &workload{T: t, scenario: s, seed: seed, sum: &sum, rand: simdisk.NewRand(seed)}
					w.run()
				})
			}
			t.Log(&sum)
			all.add(&sum)
		})
	}
	t.Log(&all)
}

// verdicts counts what became of images.
type verdicts struct {
	sync.Mutex
	images, midway, acked         int
	whole, short, refused, lost   int
	flushes, dirFlushes, dsyncs   uint64
	records, recordsLostUnsynced  int
	afterRecovery, reopenedAppend int
}

func (v *verdicts) String() string {
	return fmt.Sprintf("images=%d (midway=%d) acked=%d whole=%d short=%d refused=%d lost=%d; "+
		"power cut again=%d, appended and reopened=%d; flushes=%d dsync=%d dir=%d",
		v.images, v.midway, v.acked, v.whole, v.short, v.refused, v.lost, v.afterRecovery, v.reopenedAppend,
		v.flushes, v.dsyncs, v.dirFlushes)
}

func (v *verdicts) add(o *verdicts) {
	v.images += o.images
	v.midway += o.midway
	v.acked += o.acked
	v.whole += o.whole
	v.short += o.short
	v.refused += o.refused
	v.lost += o.lost
	v.flushes += o.flushes
	v.dirFlushes += o.dirFlushes
	v.dsyncs += o.dsyncs
	v.afterRecovery += o.afterRecovery
	v.reopenedAppend += o.reopenedAppend
}

// workload is one run of one scenario with one seed.
type workload struct {
	*testing.T
	scenario
	seed uint64
	sum  *verdicts
	rand *simdisk.Rand

	disk  *simdisk.Disk
	log   *engine.Log
	want  [][]byte // payloads by offset, those under way included
	mu    sync.Mutex
	acked uint64
	// midway are the images taken in the middle of an operation since the last
	// checkpoint, changes the number of changes since, at where to take one.
	midway      []image
	changes, at int
}

// image is a disk after a crash with what it has to hold.
type image struct {
	disk *simdisk.Disk
	// seed made it; durable is one past the last offset that must be there,
	// written one past the last that may be.
	seed             uint64
	durable, written uint64
}

func (s scenario) config(queue *simdisk.Queue, disk *simdisk.Disk) engine.Config {
	c := engine.DefaultConfig()
	c.FsyncMode, c.FsyncInterval = s.mode, 2*time.Millisecond
	c.SegmentBytes, c.IndexSpacingBytes = 3*4096+700, 512
	c.RolloverThresholdPercent, c.MaxOvershootPercent = s.threshold, 200
	c.MinFreeBytes, c.MinFreeInodes = 0, 0
	c.Logger = slog.New(slog.DiscardHandler)
	c.FS, c.Queue = disk, queue
	return c
}

func scenarioKey() engine.ShardKey {
	return engine.ShardKey{Tenant: "t", Namespace: "n", Stream: "s"}
}

// run ends at the first image that fails.
func (w *workload) run() {
	w.disk = newDisk()
	queue := w.disk.NewQueue(simdisk.QueueOptions{Mode: simdisk.Adversarial, Seed: w.seed, ShortPercent: 5, Sleep: true})
	ctx := context.Background()
	store, err := engine.OpenStore(ctx, root+"/store", w.config(queue, w.disk))
	if err != nil {
		w.Fatal(err)
	}
	if w.log, err = store.OpenLog(ctx, scenarioKey()); err != nil {
		w.Fatal(err)
	}
	defer func() {
		w.disk.BeforeChange(nil)
		if err := errors.Join(store.Close(ctx), queue.Close()); err != nil {
			w.Error(err)
		}
	}()
	w.disk.BeforeChange(w.maybeCrash)
	for range checkpoints {
		w.mu.Lock()
		w.changes, w.at = 0, int(w.rand.Below(4*appendsPerCheck))
		w.mu.Unlock()
		for range appendsPerCheck {
			w.append(ctx)
		}
		w.checkpoint()
	}
	counts := w.disk.Counts()
	w.sum.flushes += counts.Flushes
	w.sum.dirFlushes += counts.DirFlushes
	w.sum.dsyncs += counts.DsyncWrites
	w.sum.acked += int(w.acked)
}

func (w *workload) payload() []byte {
	b := make([]byte, w.rand.Below(payloadMax))
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
func (w *workload) append(ctx context.Context) {
	time.Sleep(time.Duration(w.rand.Below(uint64(30 * time.Millisecond))))
	records := make([]engine.Record, 1+w.rand.Below(recordsPerAppendMax))
	w.mu.Lock()
	for i := range records {
		records[i].Payload = w.payload()
		w.want = append(w.want, records[i].Payload)
	}
	w.mu.Unlock()
	result, err := w.log.Append(ctx, records...)
	if err != nil {
		w.Fatalf("seed %#x: %v", w.seed, err)
	}
	w.mu.Lock()
	w.acked = result.Last + 1
	w.mu.Unlock()
	if w.mode == engine.FsyncNone && w.rand.Below(4) == 0 {
		if err := w.log.Sync(ctx); err != nil {
			w.Fatalf("seed %#x: %v", w.seed, err)
		}
	}
	if w.rand.Below(4) == 0 {
		w.disk.WriteBack(w.rand.Next())
	}
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

func (w *workload) crash(seed uint64) image {
	durable := w.bound()
	disk := w.disk.Crash(simdisk.CrashOptions{Writeback: w.writeback, Seed: seed})
	w.mu.Lock()
	defer w.mu.Unlock()
	return image{disk, seed, durable, uint64(len(w.want))}
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
	taken := w.crash(w.seed + uint64(w.at))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.midway = append(w.midway, taken)
}

func (w *workload) checkpoint() {
	var images []image
	for range imagesPerCheck {
		images = append(images, w.crash(w.rand.Next()))
	}
	w.mu.Lock()
	images = append(images, w.midway...)
	w.sum.midway += len(w.midway)
	w.midway = nil
	w.mu.Unlock()
	for _, i := range images {
		found := i.disk.Crash(simdisk.CrashOptions{})
		if err := w.check(i); err != nil {
			w.Fatalf("FELIX_POWER_LOSS_SEED=%#x, image seed %#x: %v\nof %d records %d were durable; the crash left\n%s",
				w.seed, i.seed, err, i.written, i.durable, listing(w, found))
		}
	}
}

// listing describes a shard's files for a failure.
func listing(t testing.TB, d *simdisk.Disk) string {
	dir := root + "/store/" + scenarioKey().DirName()
	entries, err := d.ReadDir(dir)
	if err != nil {
		return err.Error()
	}
	var text strings.Builder
	for _, e := range entries {
		b := bytesOf(t, d, "store/"+scenarioKey().DirName()+"/"+e.Name)
		fmt.Fprintf(&text, "%s: %d bytes", e.Name, len(b))
		if mark, ok := recovery.DecodeMark(b); ok {
			fmt.Fprintf(&text, ", mark %+v", mark)
		}
		if strings.HasSuffix(e.Name, ".log") {
			scan, err := segment.Scan(bytes.NewReader(b), int64(len(b)), segment.ScanOptions{})
			fmt.Fprintf(&text, ", offsets %d to %d, intact to %d", scan.Header.BaseOffset, scan.NextOffset, scan.ValidEnd)
			if err != nil {
				fmt.Fprintf(&text, ", %v", err)
			}
			if scan.Damage != nil {
				fmt.Fprintf(&text, ", %v, %d intact after", scan.Damage.Cause, scan.Damage.IntactAfter)
			}
		}
		text.WriteByte('\n')
	}
	return text.String()
}

var errLost = errors.New("records are lost")

// check opens what a crash left and counts the verdict.
func (w *workload) check(i image) error {
	w.sum.images++
	tail, err := w.survives(i)
	switch {
	case errors.Is(err, errLost):
		w.sum.lost++
	case err != nil:
		w.sum.refused++
	case tail == i.written:
		w.sum.whole++
	default:
		w.sum.short++
	}
	return err
}

// survives checks that the image opens, that it holds at least what is durable
// as an exact prefix of what was appended, that another power loss takes nothing
// that was served, and that the log goes on.
func (w *workload) survives(i image) (tail uint64, err error) {
	want := w.want[:i.written]
	err = w.opened(i.disk, func(l *engine.Log) error {
		tail = l.TailOffset()
		if tail < i.durable {
			return fmt.Errorf("%w: the tail is %d, durable was %d of %d", errLost, tail, i.durable, i.written)
		}
		if tail > i.written {
			return fmt.Errorf("the tail is %d of %d", tail, i.written)
		}
		return holds(l, want[:tail])
	})
	if err != nil {
		return tail, err
	}
	return tail, nil
}

// opened opens the log of a disk, lets check look at it, cuts the power once
// more, appends and opens again.
func (w *workload) opened(disk *simdisk.Disk, check func(*engine.Log) error) error {
	var tail uint64
	var again *simdisk.Disk
	if err := w.with(disk, func(l *engine.Log) error {
		if err := check(l); err != nil {
			return err
		}
		tail = l.TailOffset()
		again = disk.Crash(simdisk.CrashOptions{Writeback: w.writeback, Seed: tail})
		return w.extend(l, 3)
	}); err != nil {
		return err
	}
	if err := w.with(again, func(l *engine.Log) error {
		if got := l.TailOffset(); got != tail {
			return fmt.Errorf("%w: %d were served after recovery, and after another power loss the tail is %d", errLost, tail, got)
		}
		return check(l)
	}); err != nil {
		return fmt.Errorf("after a second power loss: %w", err)
	}
	w.sum.afterRecovery++
	if err := w.with(disk, func(l *engine.Log) error {
		if got := l.TailOffset(); got != tail+3 {
			return fmt.Errorf("%w: the tail is %d after appending 3 to %d and opening again", errLost, got, tail)
		}
		return w.extend(l, 1)
	}); err != nil {
		return fmt.Errorf("opened again: %w", err)
	}
	w.sum.reopenedAppend++
	return nil
}

func (w *workload) extend(l *engine.Log, n int) error {
	for range n {
		if _, err := l.Append(context.Background(), engine.Record{Payload: []byte("after the crash")}); err != nil {
			return err
		}
	}
	return nil
}

// with opens the log of a disk for the time of do.
func (w *workload) with(disk *simdisk.Disk, do func(*engine.Log) error) (err error) {
	ctx := context.Background()
	queue := disk.NewQueue(simdisk.QueueOptions{})
	defer func() { err = errors.Join(err, queue.Close()) }()
	store, err := engine.OpenStore(ctx, root+"/store", w.config(queue, disk))
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

// holds checks that a log is exactly these payloads.
func holds(l *engine.Log, want [][]byte) error {
	if base := l.BaseOffset(); base != 0 {
		return fmt.Errorf("%w: the log begins at %d", errLost, base)
	}
	next := uint64(0)
	for next < uint64(len(want)) {
		page, err := l.ReadRange(context.Background(), next, 64<<10)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return fmt.Errorf("%w: a read at %d below the tail %d is empty", errLost, next, len(want))
		}
		for _, r := range page {
			if r.Offset != next || !bytes.Equal(r.Payload, want[next]) {
				return fmt.Errorf("%w: offset %d holds record %d with other bytes", errLost, next, r.Offset)
			}
			next++
		}
	}
	return nil
}
