package engine_test

import (
	"testing"

	"felix.local/felix/engine"
)

func TestABatchThatIsTriedAgainIsAnsweredWithItsOffsets(t *testing.T) {
	eachMode(t, func(t *testing.T, mode func(*engine.Config)) {
		r := newRig(t, mode)
		batch := engine.ProducerBatch{Producer: 7}
		for sequence := range uint64(3) {
			batch.Sequence = sequence
			first, err := r.log.AppendProduced(r.ctx, batch, records("a", "b")...)
			if err != nil || first.Duplicate || first.First != 2*sequence {
				t.Fatalf("%+v, %v", first, err)
			}
		}
		for range 2 {
			batch.Sequence = 1
			again, err := r.log.AppendProduced(r.ctx, batch, records("a", "b")...)
			if err != nil || !again.Duplicate || again.First != 2 || again.Last != 3 {
				t.Fatalf("%+v, %v", again, err)
			}
			r.reopen()
		}
	})
}

func records(payloads ...string) []engine.Record {
	out := make([]engine.Record, len(payloads))
	for i, text := range payloads {
		out[i].Payload = []byte(text)
	}
	return out
}
