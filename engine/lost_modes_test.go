package engine_test

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"felix.local/felix/device"
	"felix.local/felix/engine"
)

// Under none and periodic a log acknowledges what the page cache has. It must not
// go on doing so, for as long as nothing has to be flushed, once nothing can be.
func TestALostBackendPoisonsIdleLogsAndThoseThatOnlyFillThePageCache(t *testing.T) {
	for name, use := range map[string]func(r *rig) error{
		"nothing is submitted": func(*rig) error { return nil },
		"appends": func(r *rig) error {
			for {
				if _, err := r.log.Append(r.ctx, engine.Record{Payload: make([]byte, 1000)}); err != nil {
					return err
				}
			}
		},
		"a flush": func(r *rig) error { return r.log.Sync(r.ctx) },
		"a seal":  func(r *rig) error { _, err := r.log.Seal(r.ctx); return err },
	} {
		t.Run(name, func(t *testing.T) {
			eachMode(t, func(t *testing.T, choose func(*engine.Config)) {
				synctest.Test(t, func(t *testing.T) {
					q := &breakable{Queue: sharedPool(t)}
					r := newRigIn(t, fastDir(t), choose, func(c *engine.Config) {
						c.Queue, c.SegmentBytes, c.FsyncInterval = q, 1<<20, time.Hour
					})
					r.appendSizes(100)
					idle, err := r.store.OpenLog(r.ctx, testKey(1))
					if err != nil {
						t.Fatal(err)
					}
					q.broken.Store(true)
					if err := use(r); err != nil && !errors.Is(err, engine.ErrPoisoned) {
						t.Error(err)
					}
					if segments := r.log.Segments(); len(segments) != 1 || segments[0].Size > 1<<20 {
						t.Errorf("appended to the end of the segment and past it: %+v", segments)
					}
					time.Sleep(time.Second)
					synctest.Wait()
					for _, l := range []*engine.Log{r.log, idle} {
						err := l.Poisoned()
						if errorAs[*engine.PoisonedError](t, err); !errors.Is(err, device.ErrOutcomeUnknown) || !errors.Is(err, io.ErrUnexpectedEOF) {
							t.Errorf("%s: %v", l.Label(), err)
						}
						if _, err := l.Append(r.ctx, engine.Record{}); !errors.Is(err, engine.ErrPoisoned) {
							t.Errorf("%s goes on: %v", l.Label(), err)
						}
					}
					errorAs[*engine.BackendLostError](t, r.store.Close(r.ctx))
					r.store = nil
				})
			})
		})
	}
}
