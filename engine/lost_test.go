package engine_test

import (
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/engine"
)

// breakable is a queue that breaks on command, as a ring does that the kernel
// takes no more submissions for: what it carries from then on may or may not
// happen.
type breakable struct {
	device.Queue
	broken atomic.Bool
	// happens says whether the operations are carried out all the same.
	happens bool
}

func (q *breakable) Submit(ops ...*device.Op) {
	if !q.broken.Load() {
		q.Queue.Submit(ops...)
		return
	}
	for _, op := range ops {
		op.Prepare()
		go func() {
			if q.happens {
				shadow := device.Op{Kind: op.Kind, File: op.File, Buf: op.Buf, Pos: op.Pos, Len: op.Len}
				_ = device.Do(q.Queue, &shadow)
			}
			op.Complete(0, &device.Error{Op: op.Kind.String(), Path: op.File.Name(), Pos: -1, Class: device.ClassOutcomeUnknown, Err: io.ErrUnexpectedEOF})
		}()
	}
}

func (q *breakable) Stats() device.QueueStats {
	s := q.Queue.Stats()
	if q.broken.Load() {
		s.Lost = io.ErrUnexpectedEOF
	}
	return s
}

func TestALostBackendPoisonsEveryLogAndKeepsTheRootLocked(t *testing.T) {
	for _, happens := range []bool{false, true} {
		for what, use := range map[string]func(*rig) error{
			"append": func(r *rig) error { _, err := r.log.Append(r.ctx, engine.Record{Payload: []byte("?")}); return err },
			"roll": func(r *rig) error {
				_, err := r.log.Append(r.ctx, engine.Record{Payload: make([]byte, 4000)})
				return err
			},
			"seal":     func(r *rig) error { _, err := r.log.Seal(r.ctx); return err },
			"truncate": func(r *rig) error { return r.log.Truncate(r.ctx, 1) },
		} {
			t.Run(what, func(t *testing.T) {
				pool := sharedPool(t)
				q := &breakable{Queue: pool, happens: happens}
				r := newRigIn(t, fastDir(t), func(c *engine.Config) { c.Queue = q })
				r.appendSizes(100, 100, 100)
				q.broken.Store(true)
				err := use(r)
				if errorAs[*engine.PoisonedError](t, err); !errors.Is(err, device.ErrOutcomeUnknown) {
					t.Error(err)
				}
				errorAs[*engine.BackendLostError](t, r.store.Close(r.ctx))
				// Not even a working backend may go on where the broken one may
				// still be at work.
				r.cfg.Queue = pool
				_, err = engine.OpenStore(r.ctx, r.root, r.cfg)
				if locked := errorAs[*device.LockedError](t, err); !locked.Self {
					t.Errorf("%+v", locked)
				}
				r.store = nil
				if what == "append" {
					if got := runChild(t, "open and append", rootVariable+"="+r.root); !strings.HasPrefix(got, "locked") {
						t.Errorf("another process got in while this one may be at work: %s", got)
					}
				}
				// Once this process is gone, a new one reads what the disk holds.
				copied := fastDir(t)
				copyTree(t, r.root, copied)
				r.root = copied
				r.open()
				if tail := r.log.TailOffset(); tail < 1 || what != "truncate" && tail < 3 {
					t.Errorf("tail %d", tail)
				}
				r.readAll()
			})
		}
	}
}
