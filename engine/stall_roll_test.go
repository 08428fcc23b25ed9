package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
)

// Under none and periodic an append may have to wait for a flush: that of the
// segment it rolls.
func TestAnAppendGivesUpWhileTheFlushOfItsRollHangs(t *testing.T) {
	for _, mode := range []engine.FsyncMode{engine.FsyncNone, engine.FsyncPeriodic} {
		t.Run(mode.String(), func(t *testing.T) {
			r := newOrderRig(t, mode, false)
			for r.active().Size+200 < r.cfg.SegmentBytes {
				r.appendSizes(80)
			}
			tail := r.log.TailOffset()
			held := hold(t, r.disk, faultdisk.Flush, isLog, 1)
			ctx, cancel := context.WithCancel(r.ctx)
			appended := make(chan error, 1)
			go func() {
				_, err := r.log.Append(ctx, engine.Record{Payload: payload(tail, 500)})
				appended <- err
			}()
			<-held.Reached()
			cancel()
			select {
			case err := <-appended:
				unknown := errorAs[*engine.UnknownOutcomeError](t, err)
				if unknown.First != tail || !errors.Is(err, context.Canceled) {
					t.Errorf("%+v", unknown)
				}
			case <-time.After(5 * time.Second):
				held.Release()
				t.Fatalf("the append waited for the flush: %v", <-appended)
			}
			held.Release()
			if err := r.log.WaitTail(r.ctx, tail); err != nil {
				t.Error(err)
			}
			if got := r.appendSizes(80); got.First != tail+1 {
				t.Errorf("the next append got %d", got.First)
			}
		})
	}
}
