package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/fallback"
	"felix.local/felix/internal/faultdisk"
)

// Whatever hangs, and whichever way it went to the device, the age of the oldest
// operation is how long it has been hanging, to the second.
func TestTheOldestOperationsAgeIsHowLongTheDeviceHangs(t *testing.T) {
	for _, c := range []struct {
		name  string
		mode  engine.FsyncMode
		held  faultdisk.Kinds
		route device.Route
		// before is how many appends go well.
		before int
		// need is what then needs the device.
		need func(r *rig) error
	}{
		{"a durable write", engine.FsyncOnCommit, faultdisk.WriteDsync, device.RoutePool, 1, putInto},
		{"a durable write of a log that has the device to itself", engine.FsyncOnCommit, faultdisk.WriteDsync, device.RouteInline, 80, putInto},
		{"a write into the page cache", engine.FsyncNone, faultdisk.Write, device.RouteInline, 1, putInto},
		{"a flush", engine.FsyncNone, faultdisk.Flush, device.RoutePool, 1, func(r *rig) error { return r.log.Sync(r.ctx) }},
		{
			"a directory's flush", engine.FsyncOnCommit, faultdisk.FlushDir, device.RoutePool, 1,
			func(r *rig) error {
				_, err := r.log.Append(r.ctx, engine.Record{Payload: make([]byte, 4000)})
				return err
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := fallback.Open(fallback.Options{Workers: 2})
				t.Cleanup(func() { _ = pool.Close() })
				// The files hang, and with them the pool's own workers.
				disk := faultdisk.New(device.OS(), pool, faultdisk.Options{})
				r := newRigIn(t, fastDir(t), func(cfg *engine.Config) {
					cfg.FS, cfg.Queue, cfg.FsyncMode = disk.FS(), pool, c.mode
					cfg.SegmentBytes, cfg.Preallocate = 1<<20, false
					if c.held == faultdisk.FlushDir {
						cfg.SegmentBytes = 4096
					}
				})
				for range c.before {
					r.appendSizes(80)
				}
				time.Sleep(3 * time.Second) // every mark is written
				synctest.Wait()
				if age := r.store.Stats().OldestOpAge(); age != 0 {
					t.Fatalf("%v old with nothing under way", age)
				}
				path := isLog
				if c.held == faultdisk.FlushDir {
					path = nil
				}
				held := hold(t, disk, c.held, path, 1)
				inline := r.store.Stats().Inline
				done := make(chan error, 1)
				go func() { done <- c.need(r) }()
				<-held.Reached()
				for _, hanging := range []time.Duration{2 * time.Second, 7 * time.Second} {
					time.Sleep(hanging)
					synctest.Wait()
					s := r.store.Stats()
					route := device.RoutePool
					if s.Inline != inline {
						route = device.RouteInline
					}
					if route != c.route {
						t.Errorf("it hangs in the %v, want the %v", route, c.route)
					}
					want := hanging
					if hanging == 7*time.Second {
						want += 2 * time.Second
					}
					if age := s.OldestOpAge(); age != want {
						t.Errorf("%v old, it has been hanging for %v", age, want)
					}
				}
				held.Release()
				if err := <-done; err != nil {
					t.Error(err)
				}
				time.Sleep(3 * time.Second)
				synctest.Wait()
				if age := r.store.Stats().OldestOpAge(); age != 0 {
					t.Errorf("%v old when the device is back", age)
				}
				r.close()
			})
		})
	}
}

func putInto(r *rig) error {
	_, err := r.log.Append(r.ctx, engine.Record{Payload: make([]byte, 80)})
	return err
}
