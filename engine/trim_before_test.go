package engine_test

import (
	"context"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/internal/simdisk"
	"felix.local/felix/segment"
)

// trimRig has a log of several small segments and no bound of its own.
func trimRig(t testing.TB, change ...func(*engine.Config)) *rig {
	t.Helper()
	change = append([]func(*engine.Config){func(c *engine.Config) {
		c.SegmentBytes, c.RetentionInterval = 512, 1<<40
	}}, change...)
	r := newRig(t, change...)
	for range 17 {
		r.appendSizes(80)
	}
	return r
}

// baseAfter is where the log begins once all sealed segments below offset went.
func baseAfter(segments []segment.Descriptor, offset uint64) uint64 {
	for _, d := range segments[:len(segments)-1] {
		if d.NextOffset > offset {
			return d.BaseOffset
		}
	}
	return segments[len(segments)-1].BaseOffset
}

// Whole sealed segments below the offset go and no others, whatever the offset,
// and what stays reads as before.
func TestTrimBeforeRemovesWhatLiesWhollyBelow(t *testing.T) {
	for offset := uint64(0); offset <= 17; offset++ {
		r := trimRig(t)
		before := r.log.Segments()
		if len(before) < 4 {
			t.Fatalf("%d segments", len(before))
		}
		want := baseAfter(before, offset)
		got, err := r.log.TrimBefore(r.ctx, offset)
		if err != nil {
			t.Fatal(err)
		}
		after := r.checkChain()
		if got.BaseOffset != want || r.log.BaseOffset() != want || got.Segments != len(before)-len(after) {
			t.Errorf("before %d: %+v with %d of %d segments left, want base %d", offset, got, len(after), len(before), want)
		}
		size := int64(0)
		for _, d := range before[:got.Segments] {
			size += d.Size
		}
		if got.Bytes != size {
			t.Errorf("before %d: %d bytes removed, want %d", offset, got.Bytes, size)
		}
		if again, err := r.log.TrimBefore(r.ctx, offset); err != nil || again != (engine.RetentionResult{BaseOffset: want}) {
			t.Errorf("again: %+v, %v", again, err)
		}
		r.reopen()
		if base := r.log.BaseOffset(); base != want {
			t.Errorf("before %d: opened at %d, want %d", offset, base, want)
		}
		r.checkPayloads(func(uint64) int { return 80 })
	}
}

// A log's other bounds are not for TrimBefore to enforce.
func TestTrimBeforeLeavesTheOtherBoundsToRetention(t *testing.T) {
	r := trimRig(t, func(c *engine.Config) { c.RetentionBytes = 1 })
	want := baseAfter(r.log.Segments(), 5)
	if got, err := r.log.TrimBefore(r.ctx, 5); err != nil || got.BaseOffset != want || want == 0 {
		t.Errorf("%+v, %v; want base %d", got, err, want)
	}
}

// A segment that ends below the offset only once it is sealed goes with a later
// pass; lower offsets told since do not bring it back.
func TestWhatIsSealedBelowATrimGoesLater(t *testing.T) {
	r := trimRig(t)
	tail := r.log.TailOffset()
	for _, offset := range []uint64{tail, 3} {
		if _, err := r.log.TrimBefore(r.ctx, offset); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.log.Segments()); n != 1 {
		t.Fatalf("%d segments, want the active one", n)
	}
	if _, err := r.log.Seal(r.ctx); err != nil {
		t.Fatal(err)
	}
	for range 9 {
		r.appendSizes(80)
	}
	if got, err := r.log.EnforceRetention(r.ctx); err != nil || got.Segments != 1 || got.BaseOffset != tail {
		t.Errorf("%+v, %v; want one segment removed and base %d", got, err, tail)
	}
	if got, err := r.log.EnforceRetention(r.ctx); err != nil || got.Segments != 0 {
		t.Errorf("the next pass: %+v, %v", got, err)
	}
	if err := r.log.SetRetention(0, 0); err != nil {
		t.Fatal(err)
	}
	r.checkPayloads(func(uint64) int { return 80 })
}

// The timer follows a trim in a store without any bound.
func TestTheTimerFollowsATrim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFlushRig(t, engine.FsyncOnCommit, false, func(c *engine.Config) {
			c.RetentionBytes, c.RetentionInterval = 0, tickInterval
		})
		defer func() { _ = r.store.Close(r.ctx) }()
		r.appendSizes(80, 80, 80)
		if got, err := r.log.TrimBefore(r.ctx, 3); err != nil || got.Segments != 0 {
			t.Fatalf("%+v, %v", got, err)
		}
		if _, err := r.log.Seal(r.ctx); err != nil {
			t.Fatal(err)
		}
		r.appendSizes(80)
		time.Sleep(tickInterval)
		synctest.Wait()
		if base := r.log.BaseOffset(); base != 3 {
			t.Errorf("the base is %d after a tick, want 3", base)
		}
	})
}

// Records that take the offsets of truncated ones are new: a trim that was told
// before says nothing about them.
func TestATrimDoesNotReachRecordsAppendedAfterATruncation(t *testing.T) {
	for _, cut := range []uint64{0, 1, 4} {
		r := trimRig(t)
		if _, err := r.log.TrimBefore(r.ctx, 17); err != nil {
			t.Fatal(err)
		}
		if err := r.log.Truncate(r.ctx, cut); err != nil {
			t.Fatal(err)
		}
		for range 17 {
			r.appendSizes(80)
		}
		if got, err := r.log.EnforceRetention(r.ctx); err != nil || got.Segments != 0 || got.BaseOffset != cut {
			t.Errorf("cut at %d: %+v, %v", cut, got, err)
		}
	}
}

func TestTrimBeforeRefusesWhatItCannotDo(t *testing.T) {
	disk, onDisk := withFaults(t)
	r := trimRig(t, onDisk)
	before := r.log.Segments()
	_, err := r.log.TrimBefore(r.ctx, 18)
	errorAs[*engine.InvalidRangeError](t, err)
	ended, cancel := context.WithCancel(r.ctx)
	cancel()
	if _, err := r.log.TrimBefore(ended, 17); errorAs[*engine.LogError](t, err).Err != context.Canceled {
		t.Error(err)
	}
	if n := len(r.log.Segments()); n != len(before) {
		t.Errorf("%d segments of %d after refusals", n, len(before))
	}
	disk.Inject(faultdisk.Fault{Kinds: faultdisk.FlushDir, Errno: syscall.EIO})
	got, err := r.log.TrimBefore(r.ctx, 17)
	errorAs[*engine.PoisonedError](t, err)
	if got.Segments != 0 {
		t.Errorf("%+v", got)
	}
	_, err = r.log.TrimBefore(r.ctx, 17)
	errorAs[*engine.PoisonedError](t, err)
	_ = r.log.Close(r.ctx)
	_, err = r.log.TrimBefore(r.ctx, 17)
	errorAs[*engine.ClosedError](t, err)
}

// A power loss during a trim leaves a log without a gap that ends where it did and
// begins where it did, or at the end of a segment that was to go.
func TestAPowerLossInATrimLeavesAContiguousLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no timer is due meanwhile
		r := newSimRig(t, func(c *engine.Config) { c.SegmentBytes, c.RetentionInterval = 512, 1<<40 })
		for range 17 {
			r.appendSizes(80)
		}
		segments := r.log.Segments()
		allowed := map[uint64]bool{}
		for _, d := range segments[:len(segments)-1] {
			allowed[d.BaseOffset] = d.BaseOffset <= baseAfter(segments, 13)
		}
		want := r.readAll()
		bases := make(map[uint64]int)
		images := r.eachImage(func() error {
			_, err := r.log.TrimBefore(r.ctx, 13)
			return err
		}, func(image *rig) {
			base := image.log.BaseOffset()
			bases[base]++
			if !allowed[base] || image.log.TailOffset() != 17 {
				t.Errorf("[%d, %d) after a crash", base, image.log.TailOffset())
				return
			}
			for i, record := range image.readAll() {
				if string(record.Payload) != string(want[base+uint64(i)].Payload) {
					t.Errorf("record %d reads back differently", record.Offset)
				}
			}
		})
		t.Logf("%d images, by base: %v", images, bases)
		if len(bases) < 3 {
			t.Errorf("bases %v: the images are not about a trim", bases)
		}
	})
}

// simRig is a rig on a disk that can lose power.
type simRig struct {
	*rig
	disk *simdisk.Disk
}

const simRoot = "/felix"

func newSimRig(t testing.TB, change ...func(*engine.Config)) *simRig {
	t.Helper()
	disk := simdisk.New()
	disk.MakeDir(simRoot)
	return &simRig{rig: simRigOn(t, disk, change...), disk: disk}
}

// simRigOn opens a store and its log on a disk.
func simRigOn(t testing.TB, disk *simdisk.Disk, change ...func(*engine.Config)) *rig {
	t.Helper()
	return newRigIn(t, simRoot, append(change, func(c *engine.Config) {
		c.FS, c.Queue = disk, disk.NewQueue(simdisk.QueueOptions{})
	})...)
}

// imagesAtOnce bounds the images of one moment.
const imagesAtOnce = 32

// eachImage runs work and looks at what a power loss before each change that it
// makes, and after the last, leaves: opened with the rig's configuration. It is for
// bubbles, in which no timer makes changes of its own meanwhile.
func (r *simRig) eachImage(work func() error, look func(image *rig)) (images int) {
	r.Helper()
	return r.eachImageAfter(func() {}, work, look)
}

// eachImageAfter is eachImage for work that goes on in the background while images
// are looked at: note is called before those of a moment are built, to take down
// what has to be in them.
func (r *simRig) eachImageAfter(note func(), work func() error, look func(image *rig)) (images int) {
	r.Helper()
	var mu sync.Mutex
	over := false // what goes on in the background after the work is not looked at
	lookAt := func() {
		mu.Lock()
		defer mu.Unlock()
		if over {
			return
		}
		note()
		for image := range r.disk.States(simdisk.Bound{StatesMax: imagesAtOnce, Seed: 1}).All() {
			images++
			cfg := r.cfg
			opened := simRigOn(r.TB, image, func(c *engine.Config) { *c = cfg })
			look(opened)
			// Not Fatal: this may be a goroutine of the store's.
			if err := opened.store.Close(opened.ctx); err != nil {
				r.Errorf("closing an image: %v", err)
			}
			opened.store = nil
		}
	}
	r.disk.BeforeChange(func(simdisk.Change) { lookAt() })
	err := work()
	r.disk.BeforeChange(nil)
	if err != nil {
		r.Fatal(err)
	}
	lookAt()
	mu.Lock()
	defer mu.Unlock()
	over = true
	return images
}
