package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
)

// tickInterval is the flush timer's in tests that have a clock of their own, where
// waiting for it costs nothing.
const tickInterval = 10 * time.Millisecond

// flushRig is an order rig whose timer flushes and whose failing flushes lose
// bytes. It runs inside a synctest bubble.
type flushRig struct {
	*orderRig
	mu    sync.Mutex
	acked map[uint64][]byte
}

func newFlushRig(t *testing.T, mode engine.FsyncMode, background bool, change ...func(*engine.Config)) *flushRig {
	t.Helper()
	w := newFaultWorld("", sharedPool(t), faultConfig(mode, background), faultdisk.Options{TrackDirty: true})
	w.cfg.FsyncInterval = tickInterval
	for _, f := range change {
		f(&w.cfg)
	}
	r := newRigIn(t, fastDir(t), func(c *engine.Config) { *c = w.cfg })
	return &flushRig{orderRig: &orderRig{rig: r, disk: w.disk, mark: w.mark}, acked: make(map[uint64][]byte)}
}

// put appends a record and remembers it once it is acknowledged.
func (r *flushRig) put() error {
	p := payload(uint64(time.Now().UnixNano())+r.disk.Count(faultdisk.All), 80)
	got, err := r.log.Append(r.ctx, engine.Record{Payload: p})
	if err == nil {
		r.mu.Lock()
		r.acked[got.First] = p
		r.mu.Unlock()
	}
	return err
}

// putUntil appends until the condition holds or an append fails.
func (r *flushRig) putUntil(reached func() bool) error {
	for range 200 {
		if reached() {
			return nil
		}
		if err := r.put(); err != nil {
			return err
		}
	}
	return errors.New("200 records did not bring it about")
}

// segmentFlushes are the flushes of the log's segments, and which of them
// overlap.
func (r *flushRig) segmentFlushes() (all []faultdisk.Event, overlapping string) {
	for _, e := range r.disk.Log(faultdisk.Flush) {
		if !strings.HasSuffix(e.Name, ".log") {
			continue
		}
		for _, other := range all {
			if !other.Before(e) {
				overlapping += fmt.Sprintf("[%v beside %v]", e, other)
			}
		}
		all = append(all, e)
	}
	return all, overlapping
}

// flushParty is one that flushes a segment of a log or waits for such a flush.
type flushParty struct {
	name string
	do   func(r *flushRig) error
}

func flushParties() []flushParty {
	return []flushParty{
		{"the timer", func(*flushRig) error { return nil }}, // comes by itself
		{"Sync", func(r *flushRig) error { return r.log.Sync(r.ctx) }},
		{"a roll", func(r *flushRig) error {
			rolls := r.store.Stats().Rolls
			return r.putUntil(func() bool { return r.store.Stats().Rolls > rolls })
		}},
		{"a rewind", func(r *flushRig) error {
			short := r.disk.Inject(faultdisk.Fault{
				Kinds: faultdisk.Writes, Path: isLog, Errno: syscall.ENOSPC, Lands: faultdisk.Half,
			})
			if err := r.putUntil(func() bool { return short.Hits() > 0 }); !errors.Is(err, engine.ErrFull) {
				return err
			}
			return nil
		}},
		{"Seal", func(r *flushRig) error { _, err := r.log.Seal(r.ctx); return err }},
		{"Truncate", func(r *flushRig) error { return r.log.Truncate(r.ctx, 1) }},
		{"Close", func(r *flushRig) error { return r.log.Close(r.ctx) }},
	}
}

// The kernel reports a failed write-back once per descriptor: of two flushes in
// flight one gets the error, the other a success that proves nothing. So whoever
// comes while a flush is in flight waits for its verdict.
func TestOfOneLogOneFlushOfASegmentIsInFlight(t *testing.T) {
	for _, mode := range []engine.FsyncMode{engine.FsyncPeriodic, engine.FsyncOnCommit} {
		for _, background := range []bool{false, true} {
			rolls := "inline"
			if background {
				rolls = "background"
			}
			for _, holder := range flushParties() {
				t.Run(fmt.Sprintf("%v %s rolls, %s", mode, rolls, holder.name), func(t *testing.T) {
					hit := false
					for _, comer := range flushParties() {
						for _, errno := range []syscall.Errno{0, syscall.EIO} {
							synctest.Test(t, func(t *testing.T) {
								b := &besideFlush{flushRig: newFlushRig(t, mode, background), errno: errno}
								b.run(holder, comer)
								if len(b.problems) > 0 {
									t.Errorf("%s comes, errno %d: %v", comer.name, errno, b.problems)
								}
								hit = hit || b.held.Hits() > 0
							})
						}
					}
					if !hit {
						t.Log("flushes no segment in this mode")
					}
				})
			}
		}
	}
}

// besideFlush is one pair of parties.
type besideFlush struct {
	*flushRig
	errno    syscall.Errno
	held     *faultdisk.Injected
	durable  uint64 // the highest bound reported since the flush was held
	problems []string
}

func (b *besideFlush) problem(format string, args ...any) {
	b.problems = append(b.problems, fmt.Sprintf(format, args...))
}

func (b *besideFlush) run(holder, comer flushParty) {
	b.Helper()
	for range 2 {
		if err := b.put(); err != nil {
			b.Fatal(err)
		}
	}
	b.held = b.disk.Inject(faultdisk.Fault{
		Kinds: faultdisk.Flush, Path: isLog, Stall: true, Errno: b.errno, DropDirty: b.errno != 0,
	})
	b.Cleanup(b.held.Release)
	ended := make(chan error, 2)
	go func() { ended <- holder.do(b.flushRig) }()
	b.settle()
	if b.held.Hits() == 0 {
		return
	}
	b.watch()
	go func() { ended <- comer.do(b.flushRig) }()
	b.settle()
	b.watch()
	if _, overlapping := b.segmentFlushes(); overlapping != "" {
		b.problem("while it is held: %s", overlapping)
	}
	b.held.Release()
	for range 2 {
		err := <-ended
		// A rewind's full disk may hit the other party.
		if b.errno == 0 && err != nil && !errors.Is(err, engine.ErrClosed) && !errors.Is(err, engine.ErrFull) {
			b.problem("a party got %v", err)
		}
	}
	synctest.Wait()
	b.watch()
	flushes, overlapping := b.segmentFlushes()
	if overlapping != "" {
		b.problem("%s", overlapping)
	}
	if b.errno != 0 {
		if err := b.log.Poisoned(); !errors.Is(err, b.errno) {
			b.problem("poisoned: %v", err)
		}
		if last := flushes[len(flushes)-1]; !errors.Is(last.Err, b.errno) {
			b.problem("%v after the flush that failed", last)
		}
	}
	_ = b.store.Close(b.ctx)
	b.store = nil
	b.compare()
}

// settle waits until everything waits, and lets the timers come. Under on_commit
// there is no flush timer, and a clock that moved would have the commit loop wait,
// without letting it move on, for appends to share the next flush with.
func (b *besideFlush) settle() {
	synctest.Wait()
	if b.cfg.FsyncMode == engine.FsyncPeriodic {
		time.Sleep(20 * tickInterval)
		synctest.Wait()
	}
}

func (b *besideFlush) watch() { b.durable = max(b.durable, b.log.DurableOffset()) }

// compare opens what the disk holds, which lacks what the failed flush lost.
func (b *besideFlush) compare() {
	again := openCopy(b, b.root, "", sharedPool(b))
	defer again.close()
	if b.errno == 0 {
		return // nothing was lost
	}
	if tail := again.log.TailOffset(); tail < b.durable {
		b.problem("%d was reported durable, and %d records are there", b.durable, tail)
	}
	for _, record := range readAll(b, b.ctx, again.log) {
		if record.Offset < b.durable && !bytes.Equal(record.Payload, b.acked[record.Offset]) {
			b.problem("record %d reads back differently", record.Offset)
		}
	}
	if n := again.log.Recovery().TruncatedBelowMark; n != 0 {
		b.problem("the mark vouched for %d bytes that are gone", n)
	}
}
