package engine_test

import (
	"testing"
	"time"

	"felix.local/felix/engine"
)

// A pass of retention that is under way when retention is held deletes nothing more
// that is held.
func TestRetentionIsHeldAlsoForAPassThatIsUnderWay(t *testing.T) {
	var r *rig
	now, armed := uint64(fixedMicros), false
	r = newRig(t, smallSegments, func(c *engine.Config) {
		c.RetentionAge, c.RetentionInterval = time.Hour, 1<<40
		c.NowMicros = func() uint64 {
			if armed { // the pass looks at the clock once it found that nothing is held
				armed = false
				r.must(r.log.HoldRetentionAtCommit(r.ctx, true))
			}
			return now
		}
	})
	for range 20 {
		r.appendSizes(100)
	}
	before := len(r.log.Segments())
	now += 7200 * 1e6
	armed = true
	result, err := r.log.EnforceRetention(r.ctx)
	r.must(err)
	if result.Segments != 0 || r.log.BaseOffset() != 0 || len(r.log.Segments()) != before {
		t.Errorf("%+v; the log begins at %d", result, r.log.BaseOffset())
	}
	r.reopen()
	if held := r.readAll(); len(held) != 20 || !r.log.RetentionHeld() {
		t.Errorf("%d records, held %v", len(held), r.log.RetentionHeld())
	}
	r.advance(20)
	result, err = r.log.EnforceRetention(r.ctx)
	r.must(err)
	if result.Segments == 0 {
		t.Error("nothing goes once all is committed")
	}
}
