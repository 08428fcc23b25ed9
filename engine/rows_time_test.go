package engine_test

import (
	"math"
	"sync/atomic"
	"testing"
	"time"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
)

// clock is a wall clock that a test sets.
type clock struct{ micros atomic.Uint64 }

func (c *clock) set(seconds int) { c.micros.Store(fixedMicros + uint64(seconds)*1e6) }

// agedRig deletes what is older than ten seconds, when asked.
func agedRig(t *testing.T, change ...func(*engine.Config)) (*rig, *clock) {
	c := new(clock)
	c.set(0)
	r := newRig(t, append([]func(*engine.Config){func(cfg *engine.Config) {
		cfg.NowMicros = c.micros.Load
		cfg.RetentionAge, cfg.RetentionInterval = 10*time.Second, 1<<62
	}}, change...)...)
	return r, c
}

// sealedAt appends one record with this timestamp and seals its segment.
func (r *rig) sealedAt(timestamp uint64) {
	r.Helper()
	r.append(engine.Record{TimestampMicros: timestamp, Payload: []byte("x")})
	if _, err := r.log.Seal(r.ctx); err != nil {
		r.Fatal(err)
	}
}

// trimmed makes a retention pass and returns how many segments went.
func (r *rig) trimmed() int {
	r.Helper()
	result, err := r.log.EnforceRetention(r.ctx)
	if err != nil {
		r.Fatal(err)
	}
	if result.BaseOffset != r.log.BaseOffset() {
		r.Fatalf("%+v, base %d", result, r.log.BaseOffset())
	}
	return result.Segments
}

func TestC226Timestamps(t *testing.T) {
	t.Run("0 is the time of the append", func(t *testing.T) {
		r, c := agedRig(t)
		c.set(3)
		r.append(engine.Record{}, engine.Record{TimestampMicros: 1})
		records := r.readAll()
		if records[0].TimestampMicros != c.micros.Load() || records[1].TimestampMicros != 1 {
			t.Errorf("%+v", records)
		}
	})
	t.Run("decreasing ones are kept as they are", func(t *testing.T) {
		r, _ := agedRig(t)
		for i := range uint64(5) {
			r.append(engine.Record{TimestampMicros: 100 - i})
		}
		r.reopen()
		for i, record := range r.readAll() {
			if record.TimestampMicros != uint64(100-i) {
				t.Errorf("record %d: %d", i, record.TimestampMicros)
			}
		}
	})
	t.Run("one from the far future does not hold its segment", func(t *testing.T) {
		r, c := agedRig(t)
		for _, future := range []uint64{math.MaxUint64, fixedMicros + 1e15} {
			r.sealedAt(future)
		}
		if n := r.trimmed(); n != 0 {
			t.Errorf("%d young segments went", n)
		}
		c.set(11)
		if n := r.trimmed(); n != 2 {
			t.Errorf("%d segments went, want 2", n)
		}
	})
	t.Run("one from the far past lets its segment go", func(t *testing.T) {
		r, _ := agedRig(t)
		r.sealedAt(1)
		if n := r.trimmed(); n != 1 {
			t.Errorf("%d segments went", n)
		}
	})
	t.Run("a clock that is set back makes nothing old", func(t *testing.T) {
		r, c := agedRig(t)
		c.set(100)
		r.sealedAt(0)
		for _, now := range []int{99, 50, 0, 105} {
			c.set(now)
			if n := r.trimmed(); n != 0 {
				t.Errorf("%d segments went at %d", n, now)
			}
		}
		c.micros.Store(0)
		if n := r.trimmed(); n != 0 {
			t.Errorf("%d segments went in 1970", n)
		}
		c.set(111)
		if n := r.trimmed(); n != 1 {
			t.Errorf("%d segments went, want 1", n)
		}
	})
	t.Run("the active segment never goes", func(t *testing.T) {
		r, c := agedRig(t, func(c *engine.Config) { c.RetentionBytes = 1 })
		r.append(engine.Record{TimestampMicros: 1, Payload: make([]byte, 3000)})
		c.set(1e6)
		if n := r.trimmed(); n != 0 {
			t.Errorf("%d segments went", n)
		}
		r.checkChain()
		if n := len(r.readAll()); n != 1 {
			t.Errorf("%d records", n)
		}
	})
}

func TestC227RetentionBounds(t *testing.T) {
	fill := func(r *rig, segments int) {
		for len(r.log.Segments()) < segments {
			r.appendSizes(1000)
		}
	}
	t.Run("fewer bytes than one segment keep the active one", func(t *testing.T) {
		r := newRig(t, func(c *engine.Config) { c.RetentionBytes, c.RetentionInterval = 1, 1<<62 })
		fill(r, 4)
		if n := r.trimmed(); n != 3 || len(r.log.Segments()) != 1 {
			t.Errorf("%d went, %d are left", n, len(r.log.Segments()))
		}
		r.reopen()
		if r.log.BaseOffset() != r.log.Segments()[0].BaseOffset || r.log.BaseOffset() == 0 {
			t.Errorf("base %d", r.log.BaseOffset())
		}
	})
	t.Run("bytes keep as much as fits", func(t *testing.T) {
		r := newRig(t, func(c *engine.Config) { c.RetentionBytes, c.RetentionInterval = 3*4096, 1<<62 })
		fill(r, 6)
		r.trimmed()
		total := int64(0)
		for _, d := range r.log.Segments() {
			total += d.Size
		}
		if total > r.cfg.RetentionBytes || total < r.cfg.RetentionBytes/3 {
			t.Errorf("%d bytes are left of %d", total, r.cfg.RetentionBytes)
		}
	})
	t.Run("an age of 0 and bytes of 0 keep everything", func(t *testing.T) {
		r, c := agedRig(t, func(c *engine.Config) { c.RetentionAge = 0 })
		r.sealedAt(1)
		c.set(1e9)
		if n := r.trimmed(); n != 0 {
			t.Errorf("%d went", n)
		}
	})
	t.Run("of both, the stricter one counts", func(t *testing.T) {
		r, c := agedRig(t, func(c *engine.Config) { c.RetentionBytes = 200 })
		for range 5 {
			r.sealedAt(0) // 61 bytes each
		}
		if n := r.trimmed(); n != 3 {
			t.Errorf("%d went for their bytes, want 3", n)
		}
		c.set(20)
		if n := r.trimmed(); n != 2 {
			t.Errorf("%d went for their age, want 2", n)
		}
	})
	t.Run("on its own timer", func(t *testing.T) {
		disk, faults := withFaults(t)
		r := newRig(t, faults, func(c *engine.Config) { c.RetentionBytes, c.RetentionInterval = 1, time.Millisecond })
		held := disk.Inject(faultdisk.Fault{Kinds: faultdisk.Remove, Stall: true})
		fill(r, 4)
		<-held.Reached()
		held.Remove()
		r.trimmed() // waits for the pass under way
		if n := len(r.log.Segments()); n != 1 || r.store.Stats().RetentionSegments < 3 {
			t.Errorf("%d segments are left", n)
		}
	})
}
