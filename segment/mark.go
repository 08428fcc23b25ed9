package segment

import (
	"encoding/binary"
	"fmt"
)

// Kind is what a record is for, beside carrying its payload.
type Kind uint8

// The kinds. On disk each but Plain is one bit of the length word.
const (
	// Plain is a record that nothing more is known about.
	Plain Kind = iota
	// BatchOpen is the first record of an idempotent producer's batch. It
	// carries a tag that names producer, sequence and length of the batch.
	BatchOpen
	// BatchContinue belongs to the batch of the record before it.
	BatchContinue
	// GenerationStart is the first record a leader writes at a generation. Its
	// payload is the generation.
	GenerationStart
)

var recordKindNames = [...]string{"plain", "batch-open", "batch-continue", "generation-start"}

// String gives the kind's name.
func (k Kind) String() string {
	if int(k) < len(recordKindNames) {
		return recordKindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// The length word: three kind bits over the payload length.
const (
	bitBatchOpen       = 1 << 31
	bitBatchContinue   = 1 << 30
	bitGenerationStart = 1 << 29
	maskLen            = bitGenerationStart - 1
)

// bits gives the kind's bit. A kind that does not exist is a caller's bug.
func (k Kind) bits() uint32 {
	switch k {
	case Plain:
		return 0
	case BatchOpen:
		return bitBatchOpen
	case BatchContinue:
		return bitBatchContinue
	case GenerationStart:
		return bitGenerationStart
	default:
		panic(fmt.Sprintf("segment: no such record kind: %d", uint8(k)))
	}
}

// kindOf reads the kind bits of a length word; ok is false when more than one
// is set.
func kindOf(word uint32) (k Kind, ok bool) {
	switch word &^ maskLen {
	case 0:
		return Plain, true
	case bitBatchOpen:
		return BatchOpen, true
	case bitBatchContinue:
		return BatchContinue, true
	case bitGenerationStart:
		return GenerationStart, true
	default:
		return Plain, false
	}
}

// RequiredVersion is the lowest segment version that may hold a record of kind
// k. An older build would take the kind's bit for part of the length and might
// cut the record off as unfinished; a newer header makes it refuse the file.
func RequiredVersion(k Kind) uint16 {
	switch k {
	case Plain:
		return 2
	case GenerationStart:
		return 4
	default:
		return 3
	}
}

// Mark is a record's kind and, for BatchOpen, the tag. The zero value marks a
// plain record.
type Mark struct {
	Kind Kind
	// Producer and Sequence say whose batch this opens. BatchOpen only.
	Producer, Sequence uint64
	// Len is the number of records in the batch. BatchOpen only.
	Len uint32
}

// GenerationStartPayload is the payload of the record that starts a generation.
func GenerationStartPayload(generation uint64) []byte {
	return binary.BigEndian.AppendUint64(nil, generation)
}

// Generation gives the generation that r starts; ok is false when r is not such
// a record or its payload has the wrong length.
func (r Record) Generation() (generation uint64, ok bool) {
	if r.Mark.Kind != GenerationStart || len(r.Payload) != 8 {
		return 0, false
	}
	return binary.BigEndian.Uint64(r.Payload), true
}
