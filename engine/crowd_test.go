package engine_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/segment"
)

// Many appends that share a flush, and some of them a context: the end of a
// context is noticed while the flush hangs, by those that have it and no others,
// and what they appended keeps its place.
func TestEndedContextsFreeTheirAppendsFromAHangingFlush(t *testing.T) {
	const each = 8
	r := newOrderRig(t, engine.FsyncOnCommit, false)
	r.appendSizes(80)
	held := r.disk.Inject(faultdisk.Fault{Kinds: faultdisk.WriteDsync, Path: isLog, Stall: true})
	ended, end := context.WithCancel(r.ctx)
	defer end()
	going, stop := context.WithCancel(r.ctx)
	defer stop()
	start := func(ctx context.Context) chan error {
		out := make(chan error, each)
		for range each {
			go func() {
				_, err := r.log.Append(ctx, engine.Record{Payload: []byte("x")})
				out <- err
			}()
		}
		return out
	}
	first := start(r.ctx) // one of these is in the flush that hangs
	<-held.Reached()
	losing, staying := start(ended), start(going)
	all := int64(3 * each * segment.EncodedSize(segment.Mark{}, 1))
	for r.store.Stats().StagedBytes != all && r.ctx.Err() == nil {
		runtime.Gosched()
	}
	end()
	for range each {
		var unknown *engine.UnknownOutcomeError
		if err := <-losing; !errors.As(err, &unknown) || !errors.Is(err, context.Canceled) {
			t.Errorf("an append whose context ended gave %v", err)
		}
	}
	held.Release()
	for range each {
		if err := errors.Join(<-first, <-staying); err != nil {
			t.Error(err)
		}
	}
	if got, want := r.log.TailOffset(), uint64(1+3*each); got != want {
		t.Errorf("%d records, want %d", got, want)
	}
}
