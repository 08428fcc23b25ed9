package engine_test

import (
	"strings"
	"testing"

	"felix.local/felix/engine"
)

func TestTheLiveOffsetLeavesOutTheGenerationsThatBeginAtTheEnd(t *testing.T) {
	r := newRig(t)
	want := func(what string, next, want uint64) {
		t.Helper()
		if got, err := r.log.LiveOffset(r.ctx, next); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", what, got, err, want)
		}
	}
	fill := func() {
		// One record a segment: each generation begins a segment of its own.
		_, err := r.log.Append(r.ctx, engine.Record{Payload: []byte(strings.Repeat("x", 4000))})
		r.must(err)
	}
	want("an empty log", 0, 0)
	fill()
	want("a record at the end", 1, 1)
	r.start(1)
	r.start(2)
	want("two generations", 3, 1)
	want("past the tail", 9, 1)
	want("between the two", 2, 1)
	want("at the beginning", 0, 0)
	r.reopen()
	want("opened again", 3, 1)
	fill()
	want("a record behind them", 4, 4)
	want("before it", 3, 1)
	base, err := r.log.TrimBefore(r.ctx, 1)
	r.must(err)
	if r.log.BaseOffset() != 1 {
		t.Fatal(base)
	}
	want("nothing else is left", 3, 1)
	want("below the base", 0, 0)
}
