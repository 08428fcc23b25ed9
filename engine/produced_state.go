package engine

import (
	"felix.local/felix/producer"
	"felix.local/felix/segment"
)

// produced is what a log knows of idempotent producers, records included that are
// staged and not yet written. Log.mu protects it.
//
// Every batch that may change it has a checkpoint from before its first record.
// When the batch fails, it and all behind it are taken back in the lock section
// that fails them: the sequences and offsets they had are free again when the next
// append is decided.
type produced struct {
	state *producer.State
	// known says that there was a marked record, or a snapshot that tells of one.
	// Until then appends do not touch the state at all.
	known  bool
	saving producersSaving
}

// begin is called for each batch before its first record is staged.
func (p *produced) begin(b *batch) {
	if p.known {
		b.before = p.state.Checkpoint()
	}
}

// observe takes in the records of an append that were staged into b, from offset
// first on; version is the lowest that may hold them. Records without a mark only
// end a batch that waits for more, and of many the first does so.
func (p *produced) observe(b *batch, records []Record, first uint64, version uint16) {
	marked := version >= segment.RequiredVersion(segment.BatchOpen)
	if !p.known {
		if !marked {
			return
		}
		// What was staged into b so far, and is staged or in flight before it, left
		// the state as it is.
		p.known = true
		p.begin(b)
	}
	if marked {
		for i := range records {
			if producerMark(records[i].Mark.Kind) {
				p.state.Observe(first+uint64(i), records[i].Mark, records[i].Payload)
				b.marked = true
			}
		}
	}
	p.state.Settle(b.next)
}

func producerMark(kind segment.Kind) bool {
	return kind == segment.BatchOpen || kind == segment.BatchContinue
}

// keep says that a batch succeeded.
func (p *produced) keep(b *batch) {
	if b.before != (producer.Checkpoint{}) {
		p.state.Forget(b.before)
	}
}

// undo takes a batch and those behind it back. The first of them with a
// checkpoint is the first that changed anything.
func (p *produced) undo(b *batch, behind []*batch) {
	at := b.before
	b.producers = nil
	for i := 0; at == (producer.Checkpoint{}) && i < len(behind); i++ {
		at = behind[i].before
	}
	for _, next := range behind {
		next.producers = nil
	}
	if at != (producer.Checkpoint{}) {
		p.state.Rollback(at)
	}
}

// replace puts the state of other records in place. Nothing is staged.
func (p *produced) replace(w *producersWalk) { p.state, p.known = w.state, w.known }
