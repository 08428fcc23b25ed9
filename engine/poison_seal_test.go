package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

// sealStep is one thing that the seal of a former segment does in the background.
type sealStep struct {
	name  string
	kinds faultdisk.Kinds
	file  func(former uint64) string
	// at is which such operation on that file, 0 that the mode has none.
	at func(engine.FsyncMode) int
	// usable says that its failure means nothing.
	usable bool
}

func sealSteps() []sealStep {
	onCommit := func(others, own int) func(engine.FsyncMode) int {
		return func(mode engine.FsyncMode) int {
			if mode == engine.FsyncOnCommit {
				return own
			}
			return others
		}
	}
	return []sealStep{
		{"the flush of its records", faultdisk.Flush, segment.LogName, onCommit(1, 0), false},
		{"the flush of its index", faultdisk.Flush, segment.IndexName, onCommit(1, 1), false},
		{"the cut of its reserved blocks", faultdisk.Truncate, segment.LogName, onCommit(1, 1), false},
		{"the flush of its length", faultdisk.Flush, segment.LogName, onCommit(2, 1), false},
		{"its mark", faultdisk.WriteDsync, func(uint64) string { return recovery.MarkName }, onCommit(1, 1), true},
	}
}

// A step of a seal fails, and what it had to make durable is lost, while appends
// and flushes of the new segment are under way: nothing of that segment is reported
// durable that a flush of all below it does not prove, and nothing at all from the
// failure on.
func TestNothingOfANewSegmentIsDurableOverAStepOfASealThatFails(t *testing.T) {
	for _, mode := range []engine.FsyncMode{engine.FsyncNone, engine.FsyncPeriodic, engine.FsyncOnCommit} {
		for _, step := range sealSteps() {
			at := step.at(mode)
			if at == 0 {
				continue
			}
			t.Run(fmt.Sprintf("%v, %s", mode, step.name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &failingSeal{poisonRun: &poisonRun{flushRig: newFlushRig(t, mode, true)}, step: step}
					s.run(at)
					for _, problem := range s.problems {
						t.Error(problem)
					}
				})
			})
		}
	}
}

type failingSeal struct {
	*poisonRun
	step sealStep
}

func (s *failingSeal) run(at int) {
	s.Helper()
	former := s.active()
	held := s.disk.Inject(faultdisk.Fault{
		Kinds: s.step.kinds, Path: named(s.step.file(former.ID)), At: at, Stall: true, Errno: syscall.EIO,
		DropDirty: s.step.kinds == faultdisk.Flush,
	})
	s.Cleanup(held.Remove)
	s.waiters = make(chan waiter, 20)
	s.roll()
	if held.Hits() == 0 {
		s.Fatalf("no seal came by: %v", s.disk.Log(faultdisk.Changes))
	}
	base := s.active().BaseOffset
	if s.active().ID != former.ID+1 {
		s.Fatalf("segment %d is active, %d is being sealed", s.active().ID, former.ID)
	}
	for _, e := range s.disk.Log(s.step.kinds) {
		if e.End == 0 {
			s.failed = e
		}
	}
	s.appendBeside(base)
	if s.cfg.FsyncMode == engine.FsyncPeriodic {
		time.Sleep(5 * tickInterval) // the timer comes
	}
	synctest.Wait()
	early := s.early()
	bound := s.log.DurableOffset()
	if s.step.name == "the flush of its records" && bound != 0 {
		s.problem("%d records are durable while the first flush of all is under way", bound)
	}
	held.Release()
	synctest.Wait()
	const parties = 6 // with the append that switched
	if told := early + len(s.waiters); told != parties {
		s.problem("%d of %d were told", told, parties)
	}
	if s.step.usable {
		s.unnoticed()
		return
	}
	for range len(s.waiters) {
		w := <-s.waiters
		s.isPoison(w.what, w.err)
	}
	s.stays(bound)
	time.Sleep(20 * tickInterval)
	synctest.Wait()
	s.stays(bound)
	s.readsEndAt(bound)
	s.reopened(bound)
}

// roll appends until the log rolls in the background. The append that switches may
// wait for a flush of the seal.
func (s *failingSeal) roll() {
	for range 50 {
		go func() { s.waiters <- waiter{"the append that rolls", s.put()} }()
		synctest.Wait() // every reservation that was asked for is there
		if s.store.Stats().RollsBackground > 0 {
			return
		}
		if w := <-s.waiters; w.err != nil {
			s.Fatal(w.err)
		}
	}
}

// appendBeside has appends and flushes of the new segment under way.
func (s *failingSeal) appendBeside(base uint64) {
	start := func(what string, do func() error) {
		go func() { s.waiters <- waiter{what, do()} }()
	}
	for range 3 {
		start("an append", s.put)
	}
	synctest.Wait()
	start("Sync", func() error { return s.log.Sync(s.ctx) })
	start("WaitDurable", func() error { return s.log.WaitDurable(s.ctx, base) })
}

// early checks those who were told before the seal failed.
func (s *failingSeal) early() int {
	n := len(s.waiters)
	for range n {
		w := <-s.waiters
		if w.err != nil {
			s.problem("%s gave up before anything had failed: %v", w.what, w.err)
		}
		bound := s.log.DurableOffset()
		if w.what == "Sync" && bound < s.log.TailOffset() {
			s.problem("Sync returned at %d of %d", bound, s.log.TailOffset())
		}
	}
	if s.cfg.FsyncMode == engine.FsyncOnCommit {
		s.mu.Lock()
		defer s.mu.Unlock()
		for offset := range s.acked {
			if offset >= s.log.DurableOffset() {
				s.problem("record %d is acknowledged and not durable", offset)
			}
		}
	}
	return n
}

// unnoticed checks that all goes on.
func (s *failingSeal) unnoticed() {
	for range len(s.waiters) {
		if w := <-s.waiters; w.err != nil {
			s.problem("%s got %v", w.what, w.err)
		}
	}
	if err := errors.Join(s.put(), s.log.Sync(s.ctx), s.log.Poisoned()); err != nil {
		s.problem("after a mark that failed: %v", err)
	}
	tail := s.log.TailOffset()
	if durable := s.log.DurableOffset(); durable != tail {
		s.problem("durable %d, tail %d", durable, tail)
	}
	s.problems = append(s.problems, s.mark.problems()...)
	if err := s.store.Close(s.ctx); err != nil {
		s.problem("close: %v", err)
	}
	s.store = nil
	again := openCopy(s, s.root, "", sharedPool(s))
	defer again.close()
	if got := again.log.TailOffset(); got != tail {
		s.problem("%d records, %d were there", got, tail)
	}
	for _, record := range readAll(s, s.ctx, again.log) {
		if !bytes.Equal(record.Payload, s.acked[record.Offset]) {
			s.problem("record %d reads back differently", record.Offset)
		}
	}
}
