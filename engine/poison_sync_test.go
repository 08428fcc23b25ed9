package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/recovery"
)

// The k-th sync of each kind fails, for every k until the workload has fewer,
// while others wait for it: all of them get the poison with the failure in it, the
// durable bound never moves again, readers are served up to it, and opening the
// store again ends it.
func TestWhenTheKthSyncFailsAllWhoWaitAreToldAndTheDurableBoundStays(t *testing.T) {
	for _, mode := range []engine.FsyncMode{engine.FsyncNone, engine.FsyncPeriodic, engine.FsyncOnCommit} {
		for _, background := range []bool{false, true} {
			name := mode.String() + " inline rolls"
			if background {
				name = mode.String() + " background rolls"
			}
			t.Run(name, func(t *testing.T) {
				kinds := []faultdisk.Kinds{faultdisk.Flush, faultdisk.FlushDir}
				if mode == engine.FsyncOnCommit {
					kinds = append(kinds, faultdisk.WriteDsync)
				}
				for _, kind := range kinds {
					poisoned, k := 0, 1
					for hit := true; hit; k++ {
						synctest.Test(t, func(t *testing.T) {
							p := &poisonRun{flushRig: newFlushRig(t, mode, background)}
							hit = p.run(kind, k)
							if p.poisoned {
								poisoned++
							}
							if len(p.problems) > 0 {
								t.Errorf("%v number %d, of %s: %v", kind, k, p.failed.Name, p.problems)
							}
						})
					}
					t.Logf("%v: %d failed, %d poisoned", kind, k-2, poisoned)
					if poisoned == 0 {
						t.Errorf("no %v that failed poisoned the log", kind)
					}
				}
			})
		}
	}
}

// poisonRun is one workload in which one sync is held and then fails.
type poisonRun struct {
	*flushRig
	failed   faultdisk.Event
	poisoned bool
	waiters  chan waiter
	problems []string
}

// waiter is what one who waited was told.
type waiter struct {
	what string
	err  error
}

func (p *poisonRun) problem(format string, args ...any) {
	p.problems = append(p.problems, fmt.Sprintf(format, args...))
}

// run says whether the workload has a k-th operation of that kind.
func (p *poisonRun) run(kind faultdisk.Kinds, k int) bool {
	p.Helper()
	held := p.disk.Inject(faultdisk.Fault{
		Kinds: kind, At: k, Stall: true, Errno: syscall.EIO, DropDirty: kind == faultdisk.Flush,
		Lands: []faultdisk.Lands{faultdisk.Everything, faultdisk.Nothing}[k%2],
		Path:  func(path string) bool { return filepath.Base(path) != recovery.MarkName },
	})
	p.Cleanup(held.Remove)
	p.waiters = make(chan waiter, 20)
	ended := make(chan struct{})
	go func() {
		p.waiters <- waiter{"the workload", p.workload()}
		close(ended)
	}()
	select {
	case <-held.Reached():
	case <-ended:
	}
	synctest.Wait()
	if held.Hits() == 0 {
		if w := <-p.waiters; w.err != nil {
			p.problem("without a fault: %v", w.err)
		}
		return false
	}
	for _, e := range p.disk.Log(kind) {
		if e.End == 0 {
			p.failed = e
		}
	}
	p.wait()
	synctest.Wait()
	early := len(p.waiters)
	for range early {
		// What needs nothing that is held is done.
		if w := <-p.waiters; w.err != nil {
			p.problem("%s gave up on a sync that has not returned: %v", w.what, w.err)
		}
	}
	bound := p.log.DurableOffset()
	held.Release()
	synctest.Wait()
	if p.log.Poisoned() == nil {
		// The header of a segment that is being made is made again.
		if kind != faultdisk.WriteDsync || p.failed.Pos != 0 {
			p.problem("the log is not poisoned")
		}
		return true
	}
	p.poisoned = true
	if told := len(p.waiters) + early; told < waiters {
		p.problem("%d of %d were told at once", told, waiters)
	}
	time.Sleep(4 * tickInterval) // the workload may be asleep
	synctest.Wait()
	if told := len(p.waiters) + early; told != waiters+1 {
		p.problem("%d of %d were told", told, waiters+1)
	}
	for range len(p.waiters) {
		w := <-p.waiters
		p.isPoison(w.what, w.err)
	}
	for range 3 {
		p.stays(bound)
		time.Sleep(20 * tickInterval)
		synctest.Wait()
	}
	p.readsEndAt(bound)
	p.reopened(bound)
	return true
}

// workload appends over two rolls, with explicit flushes and those of the timer in
// between.
func (p *poisonRun) workload() error {
	for i := range 24 {
		if err := p.put(); err != nil {
			return err
		}
		switch i % 6 {
		case 2:
			if err := p.log.Sync(p.ctx); err != nil {
				return err
			}
		case 5:
			time.Sleep(2 * tickInterval)
		}
	}
	_, err := p.log.Seal(p.ctx)
	return err
}

const (
	waiters = 8
	never   = 1 << 40 // an offset nothing reaches
)

// wait has others wait beside the workload for what is held.
func (p *poisonRun) wait() {
	start := func(what string, do func() error) {
		go func() { p.waiters <- waiter{what, do()} }()
	}
	start("WaitDurable", func() error { return p.log.WaitDurable(p.ctx, never) })
	start("WaitTail", func() error { return p.log.WaitTail(p.ctx, never) })
	start("Sync", func() error {
		target := p.log.TailOffset()
		err := p.log.Sync(p.ctx)
		if durable := p.log.DurableOffset(); err == nil && durable < target {
			p.problem("Sync returned at %d of %d", durable, target)
		}
		return err
	})
	start("Append", p.put)
	for i := range 3 {
		start("a handle", func() error {
			text := payload(uint64(1000+i), 80)
			handle, err := p.log.AppendAsync(p.ctx, engine.Record{Payload: text})
			if err != nil {
				return err
			}
			got, err := handle.Wait(p.ctx)
			if err == nil {
				p.mu.Lock()
				p.acked[got.First] = text
				p.mu.Unlock()
			}
			return err
		})
	}
	start("Seal", func() error { _, err := p.log.Seal(p.ctx); return err })
}

// isPoison checks that an error says that the log is poisoned, and by what.
func (p *poisonRun) isPoison(what string, err error) {
	var (
		poison *engine.PoisonedError
		cause  *device.Error
	)
	if !errors.As(err, &poison) || !errors.Is(err, engine.ErrPoisoned) || !errors.Is(err, syscall.EIO) {
		p.problem("%s got %v", what, err)
	} else if !errors.As(poison.Cause, &cause) || cause.Path != p.failed.Path {
		p.problem("%s got a cause that does not name %s: %v", what, p.failed.Path, err)
	}
}

// stays checks that nothing changes what is promised.
func (p *poisonRun) stays(bound uint64) {
	p.isPoison("Append", p.put())
	_, err := p.log.AppendAsync(p.ctx, engine.Record{})
	p.isPoison("AppendAsync", err)
	p.isPoison("Sync", p.log.Sync(p.ctx))
	p.isPoison("WaitDurable", p.log.WaitDurable(p.ctx, bound))
	p.isPoison("WaitTail", p.log.WaitTail(p.ctx, bound))
	_, err = p.log.Seal(p.ctx)
	p.isPoison("Seal", err)
	p.isPoison("Truncate", p.log.Truncate(p.ctx, 0))
	_, err = p.log.EnforceRetention(p.ctx)
	p.isPoison("EnforceRetention", err)
	if bound > 0 {
		if err := p.log.WaitDurable(p.ctx, bound-1); err != nil {
			p.problem("waiting for what is durable: %v", err)
		}
	}
	if durable, tail := p.log.DurableOffset(), p.log.TailOffset(); durable != bound || tail != bound {
		p.problem("durable %d, tail %d; %d was durable when a sync failed", durable, tail, bound)
	}
	for _, e := range p.disk.Log(faultdisk.Flushes | faultdisk.WriteDsync) {
		if e.Path == p.failed.Path && e.Kind&(faultdisk.Flushes|faultdisk.WriteDsync) != 0 && e.Start > p.ended() {
			p.problem("%v after a sync of it that failed", e)
		}
	}
	p.problems = append(p.problems, p.mark.problems()...)
}

// ended is when the sync that failed had.
func (p *poisonRun) ended() int {
	for _, e := range p.disk.Log(p.failed.Kind) {
		if e.Start == p.failed.Start {
			return e.End
		}
	}
	return 0
}

func (p *poisonRun) readsEndAt(bound uint64) {
	records := readAll(p, p.ctx, p.log)
	if uint64(len(records)) != bound {
		p.problem("%d records are read, %d are durable", len(records), bound)
	}
	for _, record := range records {
		if !bytes.Equal(record.Payload, p.acked[record.Offset]) {
			p.problem("record %d reads back differently", record.Offset)
		}
	}
	if past, err := p.log.ReadRange(p.ctx, bound, 1000); len(past) > 0 || err != nil {
		p.problem("a read at the durable bound gave %d records, %v", len(past), err)
	}
}

// reopened checks that another log of the store is well, and this one once the
// store was opened again.
func (p *poisonRun) reopened(bound uint64) {
	if err := p.second().Sync(p.ctx); err != nil {
		p.problem("another log: %v", err)
	}
	p.isPoison("Close", p.store.Close(p.ctx))
	p.store = nil
	if n := p.mark.world.fs.open.Load(); n != 0 {
		p.problem("%d files are still open", n)
	}
	again := openCopy(p, p.root, "", sharedPool(p))
	defer again.close()
	tail := again.log.TailOffset()
	if err := again.log.Poisoned(); err != nil || tail < bound {
		p.problem("opened again: %d records, %d were durable; %v", tail, bound, err)
	}
	for _, record := range readAll(p, p.ctx, again.log) {
		if record.Offset < bound && !bytes.Equal(record.Payload, p.acked[record.Offset]) {
			p.problem("record %d reads back differently after opening again", record.Offset)
		}
	}
	if n := again.log.Recovery().TruncatedBelowMark; n != 0 {
		p.problem("the mark vouched for %d bytes that are gone", n)
	}
	got, err := again.log.Append(p.ctx, engine.Record{})
	if err == nil {
		err = again.log.WaitDurable(p.ctx, got.Last)
	}
	if err != nil || got.First != tail {
		p.problem("an append after opening again got %v, %v", got, err)
	}
}
