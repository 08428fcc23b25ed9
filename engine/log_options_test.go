package engine_test

import (
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
)

func withMode(mode engine.FsyncMode) engine.LogOptions { return engine.LogOptions{FsyncMode: &mode} }

func keeping(bytes int64, age time.Duration) engine.LogOptions {
	return engine.LogOptions{RetentionBytes: &bytes, RetentionAge: &age}
}

func (r *rig) openWith(shard int, opts engine.LogOptions) *engine.Log {
	r.Helper()
	l, err := r.store.OpenLogWith(r.ctx, testKey(shard), opts)
	if err != nil {
		r.Fatal(err)
	}
	return l
}

// flushesOf counts the flushes of a log's segments.
func (r *orderRig) flushesOf(l *engine.Log) int {
	n := 0
	for _, e := range r.disk.Log(faultdisk.Flush) {
		if filepath.Dir(e.Path) == l.Dir() && strings.HasSuffix(e.Name, ".log") {
			n++
		}
	}
	return n
}

// In one store each log keeps the promise of its own mode, whatever the store's:
// the timer flushes the periodic ones alone.
func TestEachLogHasTheFsyncModeItWasOpenedWith(t *testing.T) {
	modes := []engine.FsyncMode{engine.FsyncNone, engine.FsyncPeriodic, engine.FsyncOnCommit}
	eachMode(t, func(t *testing.T, storesMode func(*engine.Config)) {
		synctest.Test(t, func(t *testing.T) {
			r := newFlushRig(t, engine.FsyncNone, false, storesMode)
			defer func() { _ = r.store.Close(r.ctx) }()
			if got := r.log.FsyncMode(); got != r.cfg.FsyncMode {
				t.Errorf("a log without options is %v in a store of %v", got, r.cfg.FsyncMode)
			}
			logs := make(map[engine.FsyncMode]*engine.Log)
			for i, mode := range modes {
				logs[mode] = r.openWith(i+1, withMode(mode))
				if got := logs[mode].FsyncMode(); got != mode {
					t.Errorf("%v, want %v", got, mode)
				}
			}
			for round := range 3 {
				for _, mode := range modes {
					l, before := logs[mode], r.flushesOf(logs[mode])
					for range 2 {
						putOne(t, l)
					}
					if durable := l.DurableOffset() == l.TailOffset(); durable != (mode == engine.FsyncOnCommit) {
						t.Errorf("%v: acknowledged [0, %d), durable [0, %d)", mode, l.TailOffset(), l.DurableOffset())
					}
					if mode == engine.FsyncPeriodic && r.flushesOf(l) != before {
						t.Error("an append of a periodic log flushed")
					}
				}
				before := make(map[engine.FsyncMode]int)
				for mode, l := range logs {
					before[mode] = r.flushesOf(l)
				}
				for range 3 { // the first tick finds work, the others none
					time.Sleep(tickInterval)
					synctest.Wait()
				}
				for mode, l := range logs {
					want := 0
					if mode == engine.FsyncPeriodic {
						want = 1
					}
					if got := r.flushesOf(l) - before[mode]; got != want {
						t.Errorf("round %d, %v: %d flushes by the timer, want %d", round, mode, got, want)
					}
				}
				if l := logs[engine.FsyncPeriodic]; l.DurableOffset() != l.TailOffset() {
					t.Errorf("periodic: durable [0, %d) of [0, %d) after a tick", l.DurableOffset(), l.TailOffset())
				}
				if logs[engine.FsyncNone].DurableOffset() != 0 {
					t.Error("none: something is durable")
				}
			}
		})
	})
}

// A store that has no interval cannot keep what the mode, or the bound, promises,
// and says so before it touches anything.
func TestALogThatItsStoreCannotServeIsRefused(t *testing.T) {
	r := newRig(t, func(c *engine.Config) { c.FsyncInterval, c.RetentionInterval = 0, 0 })
	before := snapshot(t, r.root)
	for name, opts := range map[string]engine.LogOptions{
		"FsyncInterval":     withMode(engine.FsyncPeriodic),
		"FsyncMode":         withMode(9),
		"RetentionInterval": keeping(1, 0),
		"RetentionBytes":    keeping(-1, 0),
		"RetentionAge":      keeping(0, -time.Second),
	} {
		_, err := r.store.OpenLogWith(r.ctx, testKey(1), opts)
		config := errorAs[*engine.ConfigError](t, err)
		if !strings.Contains(strings.Join(config.Problems, "\n"), name) || !strings.Contains(err.Error(), "t/n/s/1") {
			t.Errorf("%s: %v", name, err)
		}
	}
	sameFiles(t, before, snapshot(t, r.root))
	for _, bounds := range []struct {
		bytes int64
		age   time.Duration
	}{{1, 0}, {0, 1}, {-1, 0}, {0, -1}} {
		errorAs[*engine.ConfigError](t, r.log.SetRetention(bounds.bytes, bounds.age))
	}
	if err := r.log.SetRetention(0, 0); err != nil {
		t.Error(err)
	}
	l := r.openWith(1, withMode(engine.FsyncNone)) // the key is free
	putOne(t, l)
}

// Bounds of a log's own replace the store's, also by none at all, and change at
// run time.
func TestEachLogHasTheRetentionItWasGiven(t *testing.T) {
	r := newRig(t, func(c *engine.Config) {
		c.SegmentBytes, c.RetentionBytes, c.RetentionInterval = 1024, 1500, 1<<40
	})
	keepsAll, tight := r.openWith(1, keeping(0, 0)), r.openWith(2, keeping(1, 0))
	logs := []*engine.Log{r.log, keepsAll, tight}
	segments := func() (n [3]int) {
		for i, l := range logs {
			if _, err := l.EnforceRetention(r.ctx); err != nil {
				t.Fatal(err)
			}
			n[i] = len(l.Segments())
		}
		return n
	}
	for range 60 {
		for _, l := range logs {
			putOne(t, l)
		}
	}
	all := len(keepsAll.Segments())
	if got, want := segments(), [3]int{1, all, 1}; got[1] != want[1] || got[2] != want[2] || got[0] >= all {
		t.Errorf("%v segments, want %v", got, want)
	}
	if err := keepsAll.SetRetention(0, time.Nanosecond); err != nil { // the clock stands still
		t.Fatal(err)
	}
	if got := segments(); got[1] != all {
		t.Errorf("%v segments, want %d of the second", got, all)
	}
	if err := keepsAll.SetRetention(1, 0); err != nil {
		t.Fatal(err)
	}
	if got := segments(); got[1] != 1 {
		t.Errorf("%v segments, want one of the second", got)
	}
}

// The timer of retention runs as soon as one log has a bound, and leaves alone
// those that have none.
func TestTheRetentionTimerStartsWithTheFirstBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFlushRig(t, engine.FsyncOnCommit, false, func(c *engine.Config) {
			c.RetentionBytes, c.RetentionInterval = 0, tickInterval
		})
		defer func() { _ = r.store.Close(r.ctx) }()
		other := r.openWith(1, engine.LogOptions{})
		fill := func() {
			for range 40 {
				putOne(t, r.log)
				putOne(t, other)
			}
		}
		tick := func() {
			time.Sleep(tickInterval)
			synctest.Wait()
		}
		fill()
		all := len(other.Segments())
		tick()
		if n := len(r.log.Segments()); n != all {
			t.Fatalf("%d segments of %d without a bound", n, all)
		}
		if err := r.log.SetRetention(1, 0); err != nil {
			t.Fatal(err)
		}
		tick()
		if n, m := len(r.log.Segments()), len(other.Segments()); n != 1 || m != all {
			t.Errorf("%d and %d segments, want 1 and %d", n, m, all)
		}
		if err := r.log.SetRetention(0, 0); err != nil {
			t.Fatal(err)
		}
		fill()
		tick()
		if n := len(r.log.Segments()); n == 1 {
			t.Error("the timer trimmed a log whose bound was lifted")
		}
	})
}

// A timer that the first log starts while the store closes is either there in
// time to be ended, or never there: leak detection would see it.
func TestTimersStartBesideClosing(t *testing.T) {
	for range 50 {
		r := newRig(t, func(c *engine.Config) { c.FsyncInterval, c.RetentionInterval = time.Millisecond, time.Millisecond })
		store, log := r.store, r.log
		begin := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			<-begin
			l, err := store.OpenLogWith(r.ctx, testKey(1), withMode(engine.FsyncPeriodic))
			if err != nil && !errors.Is(err, engine.ErrClosed) {
				t.Error(err)
			}
			if l != nil {
				_, _ = l.Append(r.ctx, engine.Record{})
			}
		})
		all.Go(func() {
			<-begin
			if err := log.SetRetention(1, 0); err != nil {
				t.Error(err)
			}
		})
		close(begin)
		r.close()
		all.Wait()
	}
}

// What recovery refuses with the options of one log is refused as ever.
func TestAnOpenWithOptionsThatFailsFreesTheKey(t *testing.T) {
	disk, onDisk := withFaults(t)
	r := newRig(t, onDisk)
	disk.Inject(faultdisk.Fault{Kinds: faultdisk.Mkdir, Errno: syscall.EACCES})
	if _, err := r.store.OpenLogWith(r.ctx, testKey(1), withMode(engine.FsyncNone)); !errors.Is(err, syscall.EACCES) {
		t.Fatal(err)
	}
	putOne(t, r.openWith(1, withMode(engine.FsyncNone)))
}
