package engine_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/segment"
)

// inDir matches the segment files of one log.
func inDir(l *engine.Log) func(string) bool {
	return func(path string) bool { return filepath.Dir(path) == l.Dir() && isLog(path) }
}

// soon bounds what must not wait for a flush that hangs: a few ticks.
func (r *flushRig) soon() context.Context {
	ctx, cancel := context.WithTimeout(r.ctx, 10*tickInterval)
	r.Cleanup(cancel)
	return ctx
}

func (r *flushRig) second() *engine.Log {
	r.Helper()
	l, err := r.store.OpenLog(r.ctx, testKey(1))
	if err != nil {
		r.Fatal(err)
	}
	return l
}

func putOne(t testing.TB, l *engine.Log) uint64 {
	t.Helper()
	got, err := l.Append(t.Context(), engine.Record{Payload: make([]byte, 80)})
	if err != nil {
		t.Fatal(err)
	}
	return got.Last
}

func TestAFlushThatHangsKeepsNoOtherLogWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFlushRig(t, engine.FsyncPeriodic, false)
		hanging, other := r.log, r.second()
		putOne(t, hanging)
		putOne(t, other)
		held := hold(t, r.disk, faultdisk.Flush, inDir(hanging), faultdisk.Forever)
		// One tick flushes both; later ones have the other log alone.
		for range 3 {
			if err := other.WaitDurable(r.soon(), putOne(t, other)); err != nil {
				t.Error("the timer:", err)
			}
			if held.Hits() != 1 {
				t.Fatalf("%d flushes hang", held.Hits())
			}
		}
		putOne(t, other)
		if err := other.Sync(r.soon()); err != nil {
			t.Error(err)
		}
		for r.log = other; r.active().ID < 3; {
			putOne(t, other)
		}
		if _, err := other.EnforceRetention(r.soon()); err != nil {
			t.Error(err)
		}
		if _, err := other.Seal(r.soon()); err != nil {
			t.Error(err)
		}
		putOne(t, other)
		if err := other.Close(r.soon()); err != nil {
			t.Error(err)
		}
		if got := hanging.DurableOffset(); got != 0 {
			t.Errorf("durable %d while the flush hangs", got)
		}
		last := putOne(t, hanging)
		held.Remove()
		if err := hanging.WaitDurable(r.soon(), last); err != nil {
			t.Error("after it:", err)
		}
	})
}

// A log that has something under way when the timer comes is looked at again with
// the next tick, not when the slowest of those it was to be flushed with is done.
func TestALogThatWasBusyWhenAnotherBeganToHangIsFlushedByTheNextTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFlushRig(t, engine.FsyncPeriodic, true)
		hanging := r.second()
		busy := hold(t, r.disk, faultdisk.Flush, named(segment.LogName(r.active().ID)), 1)
		if err := r.putUntil(func() bool { return r.store.Stats().RollsBackground > 0 }); err != nil {
			t.Fatal(err)
		}
		putOne(t, hanging)
		held := hold(t, r.disk, faultdisk.Flush, inDir(hanging), faultdisk.Forever)
		synctest.Wait()
		if busy.Hits() != 1 {
			t.Fatal("the seal in the background is not at its flush")
		}
		time.Sleep(2 * tickInterval)
		synctest.Wait()
		if held.Hits() != 1 {
			t.Fatal("the other log's flush does not hang")
		}
		busy.Release()
		if err := r.log.WaitDurable(r.soon(), r.log.TailOffset()-1); err != nil {
			t.Error(err)
		}
	})
}

// When descriptors run out, whoever needs one flushes others so that they can give
// up theirs. One that hangs is not waited for when another gave one up.
func TestADescriptorIsFoundBesideAFlushThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const descriptors = 8 // half of them; the other half is for sealed segments
		r := newFlushRig(t, engine.FsyncNone, false, func(c *engine.Config) { c.OpenFilesMax = 2 * descriptors })
		logs := []*engine.Log{r.log}
		for i := range descriptors {
			l, err := r.store.OpenLog(r.ctx, testKey(i+1))
			if err != nil {
				t.Fatal(err)
			}
			logs = append(logs, l)
		}
		for _, l := range logs[:descriptors] {
			putOne(t, l)
		}
		held := hold(t, r.disk, faultdisk.Flush, inDir(logs[0]), faultdisk.Forever)
		appended := make(chan error, 1)
		go func() {
			_, err := logs[descriptors].Append(r.ctx, engine.Record{})
			appended <- err
		}()
		select {
		case err := <-appended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Second):
			t.Error("the append waits for another log's flush")
		}
		if n := r.store.Stats().OpenWriters; held.Hits() != 1 || n > descriptors {
			t.Errorf("%d flushes hang, %d descriptors", held.Hits(), n)
		}
		held.Remove()
	})
}

// Closing writes a last flush, which may hang as any other.
func TestClosingReturnsInTimeWhileItsFlushHangs(t *testing.T) {
	for what, closing := range map[string]func(*flushRig) func(context.Context) error{
		"log":   func(r *flushRig) func(context.Context) error { return r.log.Close },
		"store": func(r *flushRig) func(context.Context) error { return r.store.Close },
	} {
		t.Run(what, func(t *testing.T) {
			eachMode(t, func(t *testing.T, choose func(*engine.Config)) {
				var c engine.Config
				choose(&c)
				kinds := faultdisk.Flush
				if c.FsyncMode == engine.FsyncOnCommit {
					kinds = faultdisk.Write | faultdisk.WriteDsync // the mark's: nothing is left to flush
				}
				synctest.Test(t, func(t *testing.T) {
					r := newFlushRig(t, c.FsyncMode, false)
					if err := r.put(); err != nil {
						t.Fatal(err)
					}
					unsynced := r.log.UnsyncedBytes()
					held := hold(t, r.disk, kinds, nil, 1)
					const patience = 3 * time.Second
					for range 2 {
						ctx, cancel := context.WithTimeout(r.ctx, patience)
						started := time.Now()
						err := closing(r)(ctx)
						cancel()
						if took := time.Since(started); took != patience {
							t.Errorf("closing took %v of %v", took, patience)
						}
						said := fmt.Sprintf("(%d bytes not flushed)", unsynced)
						if errorAs[*engine.LogError](t, err); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), said) {
							t.Errorf("%v, want %q", err, said)
						}
					}
					if held.Hits() != 1 {
						t.Errorf("%d operations are held", held.Hits())
					}
					if _, err := r.log.Append(r.ctx, engine.Record{}); !errors.Is(err, engine.ErrClosed) {
						t.Errorf("an append beside it: %v", err)
					}
					if _, err := r.store.OpenLog(r.ctx, testKey(0)); err == nil {
						t.Errorf("a log was opened beside itself")
					}
					held.Release()
					if err := closing(r)(r.ctx); err != nil {
						t.Errorf("closing again: %v", err)
					}
					if err := closing(r)(r.ctx); !errors.Is(err, engine.ErrClosed) {
						t.Errorf("closing a closed one: %v", err)
					}
					if what == "log" {
						r.close()
					}
					if n := r.mark.world.fs.open.Load(); n != 0 {
						t.Errorf("%d files are still open", n)
					}
					r.open()
					if tail, below := r.log.TailOffset(), r.log.Recovery().TruncatedBelowMark; tail != 1 || below != 0 {
						t.Errorf("tail %d, %d bytes cut below the mark", tail, below)
					}
				})
			})
		})
	}
}

// A caller without time learns either that an idle log is closed or that it is not
// yet; nothing stays behind in either case.
func TestAnIdleLogIsClosedByACallerWithoutTimeOrByTheNext(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			r := newFlushRig(t, engine.FsyncOnCommit, false)
			if err := r.put(); err != nil {
				t.Fatal(err)
			}
			first := r.log.Close(expired())
			if first != nil && !errors.Is(first, context.Canceled) {
				t.Error(first)
			}
			switch second := r.log.Close(r.ctx); {
			case first == nil && !errors.Is(second, engine.ErrClosed):
				t.Errorf("closing a closed log: %v", second)
			case first != nil && second != nil:
				t.Errorf("closing after %v: %v", first, second)
			}
			if r.log, first = r.store.OpenLog(r.ctx, testKey(0)); first != nil || r.log.TailOffset() != 1 {
				t.Fatal(first)
			}
			r.close()
			if n := r.mark.world.fs.open.Load(); n != 0 {
				t.Errorf("%d files are still open", n)
			}
		})
	}
}
