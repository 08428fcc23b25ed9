package engine

import "fmt"

// SequenceReason says why a batch of a producer was refused.
type SequenceReason uint8

// The reasons.
const (
	// SequenceGap: batches are missing before this one. Expected is the next.
	SequenceGap SequenceReason = iota + 1
	// SequenceUnknown: the log holds nothing of this producer, so it would have to
	// begin with sequence 0. Retention may have removed what it wrote.
	SequenceUnknown
	// SequenceExpired: the batch is older than what is remembered of the producer.
	// Whatever it wrote up to its newest batch is acknowledged. Expected is the
	// next.
	SequenceExpired
	// SequenceReused: the log holds other records under this sequence.
	SequenceReused
	// SequenceNotOpen: the log does not end with a part of this batch.
	SequenceNotOpen
)

// String gives the reason as the wire writes it, where it has a word for it.
func (r SequenceReason) String() string {
	switch r {
	case SequenceGap:
		return "sequence_gap"
	case SequenceUnknown:
		return "unknown_producer"
	case SequenceExpired:
		return "sequence_expired"
	case SequenceReused:
		return "sequence_reused"
	case SequenceNotOpen:
		return "batch_not_open"
	default:
		return fmt.Sprintf("sequence_reason(%d)", uint8(r))
	}
}

// SequenceError refuses a batch of an idempotent producer. Nothing was written.
type SequenceError struct {
	Label              string
	Reason             SequenceReason
	Producer, Sequence uint64
	// Expected is the sequence that would be taken, for SequenceGap and
	// SequenceExpired.
	Expected uint64
}

func (e *SequenceError) Error() string {
	text := fmt.Sprintf("%s: batch %d of producer %d: ", e.Label, e.Sequence, e.Producer)
	switch e.Reason {
	case SequenceGap:
		return text + fmt.Sprintf("batches are missing before it; the next is %d", e.Expected)
	case SequenceUnknown:
		return text + "nothing of this producer is in the log, which therefore has to begin at 0; take a new producer id"
	case SequenceExpired:
		return text + fmt.Sprintf("older than what is remembered; the next is %d", e.Expected)
	case SequenceReused:
		return text + "the log holds other records under this sequence"
	case SequenceNotOpen:
		return text + "the log does not end with a part of it"
	default:
		return text + e.Reason.String()
	}
}

// OffsetMismatchError says that an append was meant for another place in the log.
// Nothing was written.
type OffsetMismatchError struct {
	Label string
	// First is the offset asked for, Tail the one the next record gets.
	First, Tail uint64
}

func (e *OffsetMismatchError) Error() string {
	return fmt.Sprintf("%s: records were to be appended at offset %d; the log goes on at %d", e.Label, e.First, e.Tail)
}
