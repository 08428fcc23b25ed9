package engine_test

import (
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/segment"
)

// One part of a log fails while an operation of another part is under way, which
// then returns well: it proves nothing any more, and nobody gets a success for it.
func TestWhatReturnsWellAfterAnotherPartOfTheLogFailedPromisesNothing(t *testing.T) {
	// fails is in the background of the log, at a roll from segment 0 to 1.
	type part struct {
		name  string
		fault faultdisk.Fault
		// rolled says that the log has switched to segment 1 by then.
		rolled bool
	}
	sealing := part{"the flush of a sealed segment's index", faultdisk.Fault{
		Kinds: faultdisk.Flush, Path: named(segment.IndexName(0)),
	}, true}
	cutting := part{"the cut of a sealed segment", faultdisk.Fault{
		Kinds: faultdisk.Truncate, Path: named(segment.LogName(0)),
	}, true}
	preparing := part{"the directory's flush for a prepared segment", faultdisk.Fault{Kinds: faultdisk.FlushDir}, false}

	put := func(p *poisonRun) error { return p.put() }
	sync := func(p *poisonRun) error { return p.log.Sync(p.ctx) }
	for _, c := range []struct {
		name  string
		mode  engine.FsyncMode
		fails part
		// beside is what is under way on the file of a segment, and do what waits
		// for it.
		beside  faultdisk.Kinds
		segment uint64
		do      func(*poisonRun) error
	}{
		{"a durable write", engine.FsyncOnCommit, sealing, faultdisk.WriteDsync, 1, put},
		{"a durable write", engine.FsyncOnCommit, cutting, faultdisk.WriteDsync, 1, put},
		{"a durable write", engine.FsyncOnCommit, preparing, faultdisk.WriteDsync, 0, put},
		{"a write into the page cache", engine.FsyncNone, sealing, faultdisk.Write, 1, put},
		{"a write into the page cache", engine.FsyncPeriodic, preparing, faultdisk.Write, 0, put},
		{"the first round of a flush", engine.FsyncNone, sealing, faultdisk.Flush, 0, sync},
		{"the first round of a flush", engine.FsyncPeriodic, cutting, faultdisk.Flush, 0, sync},
		{"the second round of a flush", engine.FsyncNone, cutting, faultdisk.Flush, 1, sync},
		{"the second round of a flush", engine.FsyncPeriodic, sealing, faultdisk.Flush, 1, sync},
		{"a flush", engine.FsyncNone, preparing, faultdisk.Flush, 0, sync},
		{"a flush", engine.FsyncPeriodic, preparing, faultdisk.Flush, 0, sync},
	} {
		t.Run(fmt.Sprintf("%v, %s fails beside %s", c.mode, c.fails.name, c.name), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &poisonRun{flushRig: newFlushRig(t, c.mode, true)}
				fault := c.fails.fault
				fault.Stall, fault.Errno = true, syscall.EIO
				fails := p.disk.Inject(fault)
				t.Cleanup(fails.Release)
				for range 50 {
					if err := p.put(); err != nil {
						t.Fatal(err)
					}
					synctest.Wait() // every reservation that was asked for is there
					if fails.Hits() > 0 {
						break
					}
				}
				if rolled := p.active().ID == 1; fails.Hits() == 0 || rolled != c.fails.rolled {
					t.Fatalf("%d operations are held; segment %d is active", fails.Hits(), p.active().ID)
				}
				for _, e := range p.disk.Log(fault.Kinds) {
					if e.End == 0 {
						p.failed = e
					}
				}
				beside := hold(t, p.disk, c.beside, named(segment.LogName(c.segment)), 1)
				done := make(chan error, 1)
				go func() { done <- c.do(p) }()
				synctest.Wait()
				if beside.Hits() != 1 || len(done) != 0 {
					t.Fatalf("%d operations are under way beside it, %d were told", beside.Hits(), len(done))
				}
				bound := p.log.DurableOffset()
				fails.Release()
				synctest.Wait()
				beside.Release()
				synctest.Wait()
				if len(done) == 0 {
					t.Fatal("somebody still waits")
				}
				p.isPoison(c.name, <-done)
				p.stays(bound)
				p.readsEndAt(bound)
				p.reopened(bound)
				for _, problem := range p.problems {
					t.Error(problem)
				}
			})
		})
	}
}
