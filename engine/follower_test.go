package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/segment"
)

// recorder is a follower that keeps what it is told and notes what breaks the
// contract.
type recorder struct {
	// next is one past the last record told.
	next atomic.Uint64
	busy atomic.Bool
	mu   struct {
		sync.Mutex
		records   []segment.Record
		batches   int
		truncated []uint64
		poisoned  []uint64
		cause     error
		problems  []string
	}
}

func (f *recorder) problemLocked(format string, args ...any) {
	f.mu.problems = append(f.mu.problems, fmt.Sprintf(format, args...))
}

func (f *recorder) Committed(batch engine.Committed) {
	overlaps := f.busy.Swap(true)
	defer f.busy.Store(false)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.batches++
	next, bytes := f.next.Load(), int64(0)
	if overlaps || batch.First() != next || batch.Next() <= next {
		f.problemLocked("batch [%d, %d) after %d, overlapping %v", batch.First(), batch.Next(), next, overlaps)
	}
	for record := range batch.All() {
		if record.Offset != next {
			f.problemLocked("record %d where %d belongs", record.Offset, next)
		}
		next++
		bytes += int64(len(record.Payload))
		record.Payload = slices.Clone(record.Payload)
		f.mu.records = append(f.mu.records, record)
	}
	if next != batch.Next() || bytes != batch.PayloadBytes() || batch.Records() != int(next-batch.First()) {
		f.problemLocked("[%d, %d) of %d records and %d bytes held [%d, %d) with %d bytes",
			batch.First(), batch.Next(), batch.Records(), batch.PayloadBytes(), batch.First(), next, bytes)
	}
	f.next.Store(next)
}

func (f *recorder) Truncated(next uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.truncated = append(f.mu.truncated, next)
	f.mu.records = slices.DeleteFunc(f.mu.records, func(r segment.Record) bool { return r.Offset >= next })
	f.next.Store(next)
}

func (f *recorder) Poisoned(cause error, readable uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.poisoned = append(f.mu.poisoned, readable)
	f.mu.cause = cause
}

// sees checks that the follower knows every record of an append that returned.
func (f *recorder) sees(t testing.TB, got engine.AppendResult, records []engine.Record) {
	t.Helper()
	if next := f.next.Load(); next <= got.Last {
		t.Errorf("an append of %v returned when the follower was told [0, %d)", got, next)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	told := f.mu.records[got.First-f.mu.records[0].Offset:]
	for i, want := range records {
		if told[i].Offset != got.First+uint64(i) || !bytes.Equal(told[i].Payload, want.Payload) {
			t.Errorf("record %d was told with another payload", got.First+uint64(i))
		}
	}
}

// check compares what was told with what the log holds.
func (f *recorder) check(t testing.TB, ctx context.Context, l *engine.Log) {
	t.Helper()
	held := readAll(t, ctx, l)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, problem := range f.mu.problems {
		t.Error(problem)
	}
	told := f.mu.records
	if len(told) > len(held) {
		told = told[len(told)-len(held):] // the others were trimmed
	}
	if len(told) != len(held) || f.next.Load() != l.TailOffset() {
		t.Fatalf("%d records up to %d were told, %d up to %d are held", len(told), f.next.Load(), len(held), l.TailOffset())
	}
	for i := range held {
		if !reflect.DeepEqual(told[i], held[i]) {
			t.Fatalf("told %+v, held %+v", told[i], held[i])
		}
	}
}

// follow opens a second log of the rig's store with a follower.
func (r *rig) follow(change ...func(*engine.LogOptions)) (*engine.Log, *recorder) {
	r.Helper()
	f := &recorder{}
	opts := engine.LogOptions{Follower: f}
	for _, c := range change {
		c(&opts)
	}
	f.next.Store(opts.Base)
	l, err := r.store.OpenLogWith(r.ctx, testKey(1), opts)
	if err != nil {
		r.Fatal(err)
	}
	return l, f
}

// batchOf gives n records of one publisher that no other append has, of every
// kind in turn.
func batchOf(publisher, turn, n int) []engine.Record {
	records := make([]engine.Record, n)
	for i := range records {
		records[i] = engine.Record{
			Payload:         fmt.Appendf(nil, "%d/%d/%d:%s", publisher, turn, i, payload(uint64(turn), (turn*37)%400)),
			TimestampMicros: fixedMicros + uint64(turn),
		}
	}
	switch turn % 4 {
	case 1:
		records[0].Mark = segment.Mark{Kind: segment.BatchOpen, Producer: uint64(publisher), Sequence: uint64(turn), Len: uint32(n)}
		for i := 1; i < n; i++ {
			records[i].Mark.Kind = segment.BatchContinue
		}
	case 2:
		records[0] = engine.Record{
			Payload: segment.GenerationStartPayload(uint64(turn)), TimestampMicros: fixedMicros,
			Mark: segment.Mark{Kind: segment.GenerationStart},
		}
	case 3:
		records[n-1].Payload = nil
	}
	return records
}

// eachRoll runs a test with inline rolls and with background rolls.
func eachRoll(t *testing.T, test func(t *testing.T, choose func(*engine.Config))) {
	for name, percent := range map[string]int{"inline": 100, "background": 50} {
		t.Run(name, func(t *testing.T) {
			test(t, func(c *engine.Config) { c.RolloverThresholdPercent = percent })
		})
	}
}

// publishTo lets publishers append beside each other. Each append that returns well
// must be known to the follower; what else may come back is for allowed to say.
func publishTo(t testing.TB, ctx context.Context, l *engine.Log, f *recorder, publishers, turns int, allowed func(error) bool) (acked, failed int64) {
	t.Helper()
	var all sync.WaitGroup
	var good, bad atomic.Int64
	for p := range publishers {
		all.Go(func() {
			for turn := range turns {
				records := batchOf(p, turn, 1+(p+turn)%3)
				var got engine.AppendResult
				var err error
				if turn%5 == 4 {
					var pending engine.Pending
					if pending, err = l.AppendAsync(ctx, records...); err == nil {
						got, err = pending.Wait(ctx)
					}
				} else {
					got, err = l.Append(ctx, records...)
				}
				switch {
				case err == nil:
					good.Add(1)
					f.sees(t, got, records)
				case allowed != nil && allowed(err):
					bad.Add(1)
				default:
					t.Errorf("publisher %d, turn %d: %v", p, turn, err)
					return
				}
			}
		})
	}
	all.Wait()
	return good.Load(), bad.Load()
}

// In every mode, by every route and with every kind of record a follower knows
// a record before its append returns, in the order on disk and without a gap.
func TestAFollowerIsToldBeforeAnAppendReturns(t *testing.T) {
	onBoth(t, func(t *testing.T, backend func(*engine.Config)) {
		eachMode(t, func(t *testing.T, mode func(*engine.Config)) {
			eachRoll(t, func(t *testing.T, rolls func(*engine.Config)) {
				for _, publishers := range []int{1, 64} {
					t.Run(fmt.Sprint(publishers), func(t *testing.T) {
						r := newRig(t, backend, mode, rolls, func(c *engine.Config) { c.FsyncInterval = 1e6 })
						l, f := r.follow(func(o *engine.LogOptions) { o.Base = 1000 })
						turns := 640 / publishers
						acked, _ := publishTo(t, r.ctx, l, f, publishers, turns, nil)
						if acked != int64(publishers*turns) {
							t.Fatalf("%d appends of %d", acked, publishers*turns)
						}
						f.check(t, r.ctx, l)
						if publishers > 1 && f.mu.batches >= int(acked) {
							t.Errorf("%d batches of %d appends: none gathered", f.mu.batches, acked)
						}
						if inline := r.store.Stats().Inline; publishers == 1 && inline[device.Write]+inline[device.WriteDsync] == 0 {
							t.Error("no write went inline")
						}
					})
				}
			})
		})
	})
}

// What failed was never there for a follower, also when its offsets go to other
// records after the file was cut back.
func TestAFollowerIsNotToldWhatFailed(t *testing.T) {
	eachMode(t, func(t *testing.T, mode func(*engine.Config)) {
		eachRoll(t, func(t *testing.T, rolls func(*engine.Config)) {
			disk, onDisk := withFaults(t)
			r := newRig(t, mode, rolls, onDisk, func(c *engine.Config) { c.FsyncInterval = 1e6 })
			l, f := r.follow()
			inLog := func(path string) bool { return isLog(path) && bytes.HasPrefix([]byte(path), []byte(l.Dir())) }
			for at := 2; at < 60; at += 9 {
				for _, lands := range []faultdisk.Lands{faultdisk.Nothing, faultdisk.Half} {
					disk.Inject(faultdisk.Fault{
						Kinds: faultdisk.Writes, Path: inLog, At: at, Times: 2, Errno: syscall.ENOSPC, Lands: lands,
					})
				}
			}
			acked, failed := publishTo(t, r.ctx, l, f, 64, 10, func(err error) bool { return l.Poisoned() == nil })
			if acked == 0 || failed == 0 {
				t.Fatalf("%d appends returned well and %d failed: both are wanted", acked, failed)
			}
			f.check(t, r.ctx, l)
			if len(f.mu.poisoned) > 0 {
				t.Errorf("poisoned: %v", f.mu.cause)
			}
		})
	})
}

// A flush that fails takes back what was committed and not durable: the follower
// learns once where reads end now.
func TestAFollowerIsToldOnceThatALogIsPoisoned(t *testing.T) {
	eachMode(t, func(t *testing.T, mode func(*engine.Config)) {
		disk, onDisk := withFaults(t)
		r := newRig(t, mode, onDisk, func(c *engine.Config) { c.FsyncInterval = 1 << 40 })
		l, f := r.follow()
		for range 3 {
			if _, err := l.Append(r.ctx, batchOf(0, 0, 1)...); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Sync(r.ctx); err != nil {
			t.Fatal(err)
		}
		disk.Inject(faultdisk.Fault{Kinds: faultdisk.Flush | faultdisk.WriteDsync, Path: isLog, Times: faultdisk.Forever, Errno: syscall.EIO})
		_, err := l.Append(r.ctx, batchOf(0, 1, 2)...)
		if l.FsyncMode() == engine.FsyncOnCommit {
			errorAs[*engine.PoisonedError](t, err)
		} else if err != nil {
			t.Fatal(err)
		}
		errorAs[*engine.PoisonedError](t, l.Sync(r.ctx))
		_, err = l.Append(r.ctx, batchOf(0, 1, 2)...)
		errorAs[*engine.PoisonedError](t, err)
		if tail := l.TailOffset(); tail != 3 {
			t.Fatalf("the tail is %d", tail)
		}
		errorAs[*engine.PoisonedError](t, l.Close(r.ctx))
		want := uint64(3)
		if l.FsyncMode() != engine.FsyncOnCommit {
			want = 5 // committed, and taken back
		}
		if f.next.Load() != want || !slices.Equal(f.mu.poisoned, []uint64{3}) || f.mu.cause == nil {
			t.Errorf("told [0, %d), poisoned at %v: %v", f.next.Load(), f.mu.poisoned, f.mu.cause)
		}
	})
}

// A batch whose write ends in a log that was poisoned meanwhile fails, and nothing
// of it is told.
func TestAFollowerIsNotToldWhatAPoisonedLogWrote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFlushRig(t, engine.FsyncNone, false)
		l, f := r.follow()
		if _, err := l.Append(r.ctx, batchOf(0, 0, 1)...); err != nil {
			t.Fatal(err)
		}
		held := hold(t, r.disk, faultdisk.Write, isLog, 1)
		ended := make(chan error, 1)
		go func() {
			_, err := l.Append(r.ctx, batchOf(0, 0, 1)...)
			ended <- err
		}()
		synctest.Wait()
		if held.Hits() != 1 {
			t.Fatal("no write is held")
		}
		r.disk.Inject(faultdisk.Fault{Kinds: faultdisk.Flush, Path: isLog, Errno: syscall.EIO})
		errorAs[*engine.PoisonedError](t, l.Sync(r.ctx))
		held.Release()
		errorAs[*engine.PoisonedError](t, <-ended)
		if f.next.Load() != 1 || !slices.Equal(f.mu.poisoned, []uint64{0}) {
			t.Errorf("told [0, %d), poisoned at %v", f.next.Load(), f.mu.poisoned)
		}
		_ = r.store.Close(r.ctx)
	})
}

// A truncation moves the tail back, and below the base in two steps; the follower
// is told where the log ends before anything is appended there.
func TestAFollowerIsToldWhereATruncatedLogEnds(t *testing.T) {
	eachMode(t, func(t *testing.T, mode func(*engine.Config)) {
		r := newRig(t, mode)
		l, f := r.follow(func(o *engine.LogOptions) { o.Base = 50 })
		publishTo(t, r.ctx, l, f, 4, 20, nil)
		for _, at := range []uint64{l.TailOffset() + 1, l.TailOffset(), l.TailOffset() - 1, 60, 50, 7} {
			before, told := l.TailOffset(), len(f.mu.truncated)
			if err := l.Truncate(r.ctx, at); err != nil {
				t.Fatal(err)
			}
			if at >= before {
				if len(f.mu.truncated) != told {
					t.Errorf("told %v of a truncation at %d, past the tail", f.mu.truncated[told:], at)
				}
				continue
			}
			steps := f.mu.truncated[told:]
			if len(steps) == 0 || steps[len(steps)-1] != at || !slices.IsSortedFunc(steps, func(a, b uint64) int { return int(b) - int(a) }) {
				t.Fatalf("a truncation from %d to %d was told as %v", before, at, steps)
			}
			publishTo(t, r.ctx, l, f, 4, 3, nil)
			f.check(t, r.ctx, l)
		}
	})
}

// What was staged when a log is closed is told before Close returns, and nothing
// after.
func TestAFollowerIsToldNothingAfterClose(t *testing.T) {
	eachMode(t, func(t *testing.T, mode func(*engine.Config)) {
		r := newRig(t, mode)
		l, f := r.follow()
		var pending []engine.Pending
		for turn := range 50 {
			p, err := l.AppendAsync(r.ctx, batchOf(0, turn, 2)...)
			if err != nil {
				t.Fatal(err)
			}
			pending = append(pending, p)
		}
		if err := l.Close(r.ctx); err != nil {
			t.Fatal(err)
		}
		if next := f.next.Load(); next != 100 {
			t.Errorf("told [0, %d) when Close returned", next)
		}
		for _, p := range pending {
			if _, err := p.Wait(r.ctx); err != nil {
				t.Error(err)
			}
		}
		_, err := l.Append(r.ctx, batchOf(0, 0, 1)...)
		errorAs[*engine.ClosedError](t, err)
		if len(f.mu.problems) > 0 || len(f.mu.poisoned) > 0 || f.next.Load() != 100 {
			t.Errorf("%v, poisoned %v, next %d", f.mu.problems, f.mu.poisoned, f.next.Load())
		}
	})
}

// counting is a follower that looks at every record and keeps nothing.
type counting struct{ records, bytes int }

func (c *counting) Committed(batch engine.Committed) {
	for record := range batch.All() {
		c.records++
		c.bytes += len(record.Payload)
	}
}
func (c *counting) Truncated(uint64)       {}
func (c *counting) Poisoned(error, uint64) {}

func TestAFollowedAppendAllocatesNoMoreThanAnother(t *testing.T) {
	skipUnderRace(t)
	eachMode(t, func(t *testing.T, mode func(*engine.Config)) {
		r := allocationRig(t, mode)
		c := &counting{}
		l, err := r.store.OpenLogWith(r.ctx, testKey(1), engine.LogOptions{Follower: c})
		if err != nil {
			t.Fatal(err)
		}
		records := batchOf(0, 0, 40)
		runs := 0
		n := testing.AllocsPerRun(2000, func() {
			runs++
			if _, err := l.Append(r.ctx, records...); err != nil {
				t.Fatal(err)
			}
		})
		if n > 2 {
			t.Errorf("%.2f allocations per append of 40 records, want at most 2", n)
		}
		if c.records != 40*runs || c.bytes == 0 {
			t.Errorf("%d records in %d appends of 40", c.records, runs)
		}
	})
}

// A follower of a log that holds records already is told of those that come.
func TestAFollowerBeginsAtTheTailThatWasRecovered(t *testing.T) {
	eachMode(t, func(t *testing.T, mode func(*engine.Config)) {
		r := newRig(t, mode)
		for range 20 {
			r.appendSizes(80, 80)
		}
		r.reopen()
		if err := r.log.Close(r.ctx); err != nil {
			t.Fatal(err)
		}
		f := &recorder{}
		f.next.Store(40)
		l, err := r.store.OpenLogWith(r.ctx, testKey(0), engine.LogOptions{Base: 7, Follower: f})
		if err != nil {
			t.Fatal(err)
		}
		publishTo(t, r.ctx, l, f, 4, 20, nil)
		if first := f.mu.records[0].Offset; first != 40 || len(f.mu.problems) > 0 || f.next.Load() != l.TailOffset() {
			t.Errorf("told [%d, %d) of [0, %d): %v", first, f.next.Load(), l.TailOffset(), f.mu.problems)
		}
	})
}
