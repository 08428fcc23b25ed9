package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
)

func expired() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestC235ClosingDrainsWhatIsInFlight(t *testing.T) {
	eachMode(t, func(t *testing.T, choose func(*engine.Config)) {
		var c engine.Config
		choose(&c)
		r := newOrderRig(t, c.FsyncMode, false)
		r.appendSizes(80)
		held := r.disk.Inject(faultdisk.Fault{Kinds: faultdisk.Writes, Path: isLog, Stall: true})
		var handles []engine.Pending
		for range 10 {
			handle, err := r.log.AppendAsync(r.ctx, engine.Record{Payload: make([]byte, 200)})
			if err != nil {
				t.Fatal(err)
			}
			handles = append(handles, handle)
		}
		<-held.Reached()
		closed := make(chan error, 1)
		go func() { closed <- r.store.Close(r.ctx) }()
		held.Release()
		for _, handle := range handles {
			if _, err := handle.Wait(r.ctx); err != nil {
				t.Error(err)
			}
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if _, err := r.log.Append(r.ctx, engine.Record{}); !errors.Is(err, engine.ErrClosed) {
			t.Error(err)
		}
		r.open()
		if tail, bytes := r.log.TailOffset(), r.log.UnsyncedBytes(); tail != 11 || bytes != 0 {
			t.Errorf("tail %d, %d bytes unsynced", tail, bytes)
		}
	})
}

func TestC235AShutdownThatRanOutOfTimeSaysWhatIsUnsyncedAndMayGoOn(t *testing.T) {
	eachMode(t, func(t *testing.T, choose func(*engine.Config)) {
		var c engine.Config
		choose(&c)
		r := newOrderRig(t, c.FsyncMode, false)
		r.appendSizes(80)
		held := r.disk.Inject(faultdisk.Fault{Kinds: faultdisk.Writes, Path: isLog, Stall: true})
		handle, err := r.log.AppendAsync(r.ctx, engine.Record{Payload: []byte("in flight")})
		if err != nil {
			t.Fatal(err)
		}
		<-held.Reached()
		for range 3 { // a second and a third signal change nothing
			err := r.store.Close(expired())
			var late *engine.LogError
			if !errors.Is(err, context.Canceled) || !errors.As(err, &late) {
				t.Errorf("closing without time: %v", err)
			}
		}
		if _, err := r.log.Append(r.ctx, engine.Record{}); !errors.Is(err, engine.ErrClosed) {
			t.Errorf("an append after it: %v", err)
		}
		if _, err := r.store.OpenLog(r.ctx, testKey(1)); !errors.Is(err, engine.ErrClosed) {
			t.Errorf("an open after it: %v", err)
		}
		// The root stays locked: a write is still under way.
		if _, err := engine.OpenStore(r.ctx, r.root, r.cfg); err == nil {
			t.Error("the root was opened again")
		}
		held.Release()
		if _, err := handle.Wait(r.ctx); err != nil {
			t.Error(err)
		}
		if err := r.store.Close(r.ctx); err != nil {
			t.Error(err)
		}
		if err := r.store.Close(r.ctx); !errors.Is(err, engine.ErrClosed) {
			t.Errorf("closing once more: %v", err)
		}
		r.open()
		if got := r.log.TailOffset(); got != 2 {
			t.Errorf("tail %d", got)
		}
	})
}

func TestC235AStuckFlushOfTheTimerHoldsNoShutdownPastItsTime(t *testing.T) {
	w := newFaultWorld(fastDir(t), sharedPool(t), faultConfig(engine.FsyncPeriodic, false), faultdisk.Options{})
	w.cfg.FsyncInterval = time.Millisecond
	store, log, err := w.open(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	held := w.disk.Inject(faultdisk.Fault{Kinds: faultdisk.Flush, Path: isLog, Stall: true})
	if _, err := log.Append(deadline(t), engine.Record{}); err != nil {
		t.Fatal(err)
	}
	<-held.Reached()
	if err := store.Close(expired()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	held.Release()
	if err := store.Close(deadline(t)); err != nil {
		t.Error(err)
	}
	if n := w.fs.open.Load(); n != 0 {
		t.Errorf("%d files are still open", n)
	}
}

func TestC235ALogThatIsBeingOpenedIsClosedWithItsStore(t *testing.T) {
	w := newFaultWorld(fastDir(t), sharedPool(t), faultConfig(engine.FsyncOnCommit, false), faultdisk.Options{})
	store, _, err := w.open(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	held := w.disk.Inject(faultdisk.Fault{Kinds: faultdisk.WriteDsync, Stall: true})
	opened, closed := make(chan *engine.Log, 1), make(chan error, 1)
	go func() {
		log, err := store.OpenLog(deadline(t), testKey(1))
		if err != nil {
			t.Error(err)
		}
		opened <- log
	}()
	<-held.Reached()
	if err := store.Close(expired()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	go func() { closed <- store.Close(deadline(t)) }()
	held.Release()
	log := <-opened
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if _, err := log.Append(deadline(t), engine.Record{}); !errors.Is(err, engine.ErrClosed) {
		t.Error(err)
	}
	if n := w.fs.open.Load(); n != 0 {
		t.Errorf("%d files are still open", n)
	}
}

func TestC235ALogMayBeClosedAgainAfterItsTimeRanOut(t *testing.T) {
	r := newOrderRig(t, engine.FsyncOnCommit, true)
	r.appendSizes(80)
	held := r.disk.Inject(faultdisk.Fault{Kinds: faultdisk.WriteDsync, Path: isLog, Stall: true})
	handle, err := r.log.AppendAsync(r.ctx, engine.Record{})
	if err != nil {
		t.Fatal(err)
	}
	<-held.Reached()
	if err := r.log.Close(expired()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := r.store.OpenLog(r.ctx, testKey(0)); err == nil {
		t.Error("a log was opened beside itself")
	}
	held.Release()
	if _, err := handle.Wait(r.ctx); err != nil {
		t.Error(err)
	}
	if err := r.log.Close(r.ctx); err != nil {
		t.Error(err)
	}
	if r.log, err = r.store.OpenLog(r.ctx, testKey(0)); err != nil || r.log.TailOffset() != 2 {
		t.Fatal(err)
	}
}
