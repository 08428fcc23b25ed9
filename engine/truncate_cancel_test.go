package engine_test

import (
	"context"
	"errors"
	"testing"

	"felix.local/felix/engine"
)

// What a truncation reads of producers is as long as the log; giving up on it leaves
// the log as it was.
func TestATruncationThatIsGivenUpWhileItReadsChangesNothing(t *testing.T) {
	r := newRig(t, smallSegments)
	for sequence := range uint64(20) {
		_, err := r.log.AppendProduced(r.ctx, engine.ProducerBatch{Producer: 7, Sequence: sequence}, engine.Record{Payload: make([]byte, 100)})
		r.must(err)
	}
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	for name, drop := range map[string]func(context.Context) error{
		"truncate": func(ctx context.Context) error { return r.log.Truncate(ctx, 15) },
		"restore":  func(ctx context.Context) error { return r.log.RestoreTo(ctx, 15) },
	} {
		if err := drop(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		if n := len(r.readAll()); n != 20 || r.log.Poisoned() != nil {
			t.Errorf("%s: %d records, %v", name, n, r.log.Poisoned())
		}
	}
	r.must(r.log.Truncate(r.ctx, 15))
	if class := r.log.ProducerSequence(7, 14); class.Last != 14 || r.log.TailOffset() != 15 {
		t.Errorf("%+v, the log ends at %d", class, r.log.TailOffset())
	}
	r.appendSizes(1)
}
