package engine_test

import (
	"context"
	"errors"
	"testing"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
)

// cancelled runs a call, ends its context once begun says that it is waiting, and
// returns its error.
func cancelled(call func(context.Context) error, waiting func()) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- call(ctx) }()
	waiting()
	cancel()
	return <-ended
}

// A caller may give up at any stage. Nothing is half done by it, what it held is
// free again, and the log works on.
func TestC234GivingUpAtEachStageLeavesAWorkingLog(t *testing.T) {
	never := func() {}
	// Each holds the disk at kinds while one goroutine works; the call is what
	// another gives up waiting for.
	for _, c := range []struct {
		name string
		held faultdisk.Kinds
		work func(r *orderRig) error
		call func(r *orderRig) func(context.Context) error
	}{
		{
			"an append at the gate of a truncation", faultdisk.Truncate,
			func(r *orderRig) error { return r.log.Truncate(r.ctx, 1) },
			func(r *orderRig) func(context.Context) error {
				return func(ctx context.Context) error {
					_, err := r.log.Append(ctx, engine.Record{Payload: []byte("given up")})
					return err
				}
			},
		},
		{
			"a truncation behind an append", faultdisk.WriteDsync,
			func(r *orderRig) error { _, err := r.log.Append(r.ctx, engine.Record{}); return err },
			func(r *orderRig) func(context.Context) error {
				return func(ctx context.Context) error { return r.log.Truncate(ctx, 0) }
			},
		},
		{
			"a seal behind an append", faultdisk.WriteDsync,
			func(r *orderRig) error { _, err := r.log.Append(r.ctx, engine.Record{}); return err },
			func(r *orderRig) func(context.Context) error {
				return func(ctx context.Context) error { _, err := r.log.Seal(ctx); return err }
			},
		},
		{
			"a retention pass behind a truncation", faultdisk.Truncate,
			func(r *orderRig) error { return r.log.Truncate(r.ctx, 1) },
			func(r *orderRig) func(context.Context) error {
				return func(ctx context.Context) error { _, err := r.log.EnforceRetention(ctx); return err }
			},
		},
		{
			"a wait for durability", faultdisk.WriteDsync,
			func(r *orderRig) error { _, err := r.log.Append(r.ctx, engine.Record{}); return err },
			func(r *orderRig) func(context.Context) error {
				return func(ctx context.Context) error { return r.log.WaitDurable(ctx, r.log.TailOffset()) }
			},
		},
		{
			"a wait for the tail", faultdisk.WriteDsync,
			func(r *orderRig) error { _, err := r.log.Append(r.ctx, engine.Record{}); return err },
			func(r *orderRig) func(context.Context) error {
				return func(ctx context.Context) error { return r.log.WaitTail(ctx, r.log.TailOffset()) }
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newOrderRig(t, engine.FsyncOnCommit, false)
			r.appendSizes(80, 80, 80)
			held := r.disk.Inject(faultdisk.Fault{Kinds: c.held, Path: isLog, Stall: true})
			worked := make(chan error, 1)
			go func() { worked <- c.work(r) }()
			<-held.Reached()
			if err := cancelled(c.call(r), never); !errors.Is(err, context.Canceled) {
				t.Errorf("gave %v", err)
			}
			held.Release()
			if err := <-worked; err != nil {
				t.Error(err)
			}
			tail := r.log.TailOffset()
			if got := r.append(engine.Record{Payload: []byte("next")}); got.First != tail {
				t.Errorf("the next record got %d, want %d", got.First, tail)
			}
			for _, record := range r.readAll() {
				if string(record.Payload) == "given up" {
					t.Error("a record that was given up before it was staged is there")
				}
			}
			closed := r.store
			r.reopen()
			if n := closed.Stats().StagedBytes; n != 0 {
				t.Errorf("%d staged bytes are still reserved", n)
			}
			if got := r.log.TailOffset(); got != tail+1 {
				t.Errorf("recovered through %d, want %d", got, tail+1)
			}
		})
	}
	t.Run("a sync behind a slow flush", func(t *testing.T) {
		r := newOrderRig(t, engine.FsyncPeriodic, false)
		r.appendSizes(80)
		held := r.disk.Inject(faultdisk.Fault{Kinds: faultdisk.Flush, Path: isLog, Stall: true})
		err := cancelled(r.log.Sync, func() { <-held.Reached() })
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		held.Release()
		if err := r.log.Sync(r.ctx); err != nil || r.log.DurableOffset() != 1 {
			t.Errorf("durable %d, %v", r.log.DurableOffset(), err)
		}
	})
	t.Run("a read and an open that did not begin", func(t *testing.T) {
		r := newRig(t)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, read := r.log.ReadRange(ctx, 0, 1)
		_, opened := engine.OpenStore(ctx, t.TempDir(), r.cfg)
		for _, err := range []error{read, opened} {
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	})
}
