package engine_test

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/segment"
)

// besideAReader stops a reader on its way into a sealed segment that is not in
// memory yet, does something to the log meanwhile, lets the reader go on, and calls
// what do returned. check follows; before is how many files were open when the
// reader began.
func besideAReader(t *testing.T, maxBytes int64, do func(r *flushRig) (finish func() error), check func(t *testing.T, r *flushRig, before int64)) {
	for where, at := range map[string]faultdisk.Fault{
		"opening the segment": {Kinds: faultdisk.Open, Path: isSegment(0)},
		"opening the index":   {Kinds: faultdisk.Open, Path: named(segment.IndexName(0))},
		"reading":             {Kinds: faultdisk.Read, Path: isSegment(0)},
	} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFlushRig(t, engine.FsyncOnCommit, false)
				if err := r.putUntil(func() bool { return r.active().ID >= 5 }); err != nil {
					t.Fatal(err)
				}
				r.reopen() // with nothing in memory
				before := r.mark.world.fs.open.Load()
				reader := hold(t, r.disk, at.Kinds, at.Path, 1)
				read := make(chan error, 1)
				go func() {
					_, err := r.log.ReadRange(r.ctx, 0, maxBytes)
					read <- err
				}()
				synctest.Wait()
				if reader.Hits() != 1 {
					t.Fatal("the reader is not held")
				}
				finish := do(r)
				reader.Release()
				if err := <-read; err != nil && !errors.Is(err, engine.ErrClosed) && !errors.As(err, new(*engine.TrimmedError)) {
					t.Error(err)
				}
				if err := finish(); err != nil {
					t.Error(err)
				}
				check(t, r, before)
			})
		})
	}
}

func TestAReaderInsideALogThatIsClosedLeavesNothingOpen(t *testing.T) {
	closing := func(r *flushRig) func() error {
		err := r.log.Close(r.ctx)
		return func() error { return err }
	}
	besideAReader(t, 1<<20, closing, func(t *testing.T, r *flushRig, _ int64) {
		if n := r.store.Stats().OpenSealedSegments; n != 0 {
			t.Errorf("%d segments of a closed log are in the cache", n)
		}
		if n := r.mark.world.fs.open.Load(); n != 0 {
			t.Errorf("%d files are open", n)
		}
	})
}

func TestAReaderInsideASegmentThatIsTrimmedLeavesItClosed(t *testing.T) {
	trim := func(r *flushRig) func() error {
		_, err := r.log.EnforceRetention(r.ctx)
		return func() error { return err }
	}
	besideAReader(t, 1, trim, func(t *testing.T, r *flushRig, before int64) {
		if r.log.BaseOffset() == 0 {
			t.Fatal("nothing was trimmed")
		}
		if n := r.store.Stats().OpenSealedSegments; n != 0 {
			t.Errorf("%d segments are in the cache, and none but a trimmed one was read", n)
		}
		if n := r.mark.world.fs.open.Load(); n != before {
			t.Errorf("%d files are open, %d before", n, before)
		}
	})
}

// A segment that a truncation removed must not be found under its id when another
// one has it.
func TestAReaderInsideATruncationLeavesNoneOfItsSegments(t *testing.T) {
	const cut = 4
	// Readers have been told when the removal begins; what they planned before may
	// still name segments whose files are there until it goes on.
	truncate := func(r *flushRig) func() error {
		removal := hold(r, r.disk, faultdisk.Remove, nil, 1)
		done := make(chan error, 1)
		go func() { done <- r.log.Truncate(r.ctx, cut) }()
		synctest.Wait()
		if removal.Hits() != 1 {
			r.Error("the truncation removes nothing")
		}
		return func() error {
			removal.Release()
			return <-done
		}
	}
	besideAReader(t, 1<<20, truncate, func(t *testing.T, r *flushRig, _ int64) {
		if got := r.log.TailOffset(); got != cut {
			t.Fatalf("tail %d, want %d", got, cut)
		}
		if n := r.store.Stats().OpenSealedSegments; n != 0 {
			t.Errorf("%d segments are in the cache, and the log has none that is sealed", n)
		}
		if err := r.putUntil(func() bool { return r.active().ID >= 3 }); err != nil {
			t.Fatal(err)
		}
		for _, record := range r.readAll() {
			if !bytes.Equal(record.Payload, r.acked[record.Offset]) {
				t.Errorf("record %d reads back differently", record.Offset)
			}
		}
	})
}
