package engine

import (
	"fmt"

	"felix.local/felix/producer"
)

// Numbering is how a producer counts its batches.
type Numbering uint8

// The numberings.
const (
	// ByBatch: the sequence of the first batch is 0, and of each further one that
	// of the one before plus 1.
	ByBatch Numbering = iota
	// ByRecord: the sequence of a batch is the number of records before it,
	// modulo 2^31, as in the Kafka protocol. The mark of a batch keeps that.
	ByRecord
)

// String gives the numbering's name.
func (n Numbering) String() string {
	switch n {
	case ByBatch:
		return "by_batch"
	case ByRecord:
		return "by_record"
	default:
		return fmt.Sprintf("numbering(%d)", uint8(n))
	}
}

// recordSequences is how many sequences there are when records are counted, and
// olderSequences how far back a sequence is taken for an old one; the other half
// lies ahead.
const (
	recordSequences = uint64(1) << 31
	olderSequences  = uint64(1) << 30
)

// classify says what a batch of n records is to the log, as producer.State does
// for batches that are counted.
func (b ProducerBatch) classify(s *producer.State, n uint32) producer.Class {
	exact := s.Classify(b.Producer, b.Sequence)
	if b.Numbering == ByBatch {
		return exact
	}
	next, known := s.NextSequence(b.Producer)
	var newest producer.Class
	if known {
		newest = s.Classify(b.Producer, next-1)
	}
	return classByRecord(exact, newest, next-1, b.Sequence, n)
}

// classByRecord corrects what counting batches gives for a producer that counts
// records: exact is the class of this sequence, newest that of the producer's
// newest batch, whose sequence is last; newest is Unknown without one.
//
//	last + len            next
//	last                  held
//	older by below 2^30   held if it is remembered, as a batch of n records; else expired
//	all others            gap
//
// What is remembered of older batches is what follows each other by one, which
// is batches of one record.
func classByRecord(exact, newest producer.Class, last, sequence uint64, n uint32) producer.Class {
	if exact.Verdict == producer.Partial || newest.Verdict != producer.Held {
		return exact // without a batch in the log, all that counts is whether it is 0
	}
	expected := (last + uint64(newest.Len)) % recordSequences
	switch older := (last - sequence) % recordSequences; {
	case sequence == expected:
		return producer.Class{Verdict: producer.Next, Expected: expected}
	case sequence == last:
		return newest
	case older >= olderSequences:
		return producer.Class{Verdict: producer.Gap, Expected: expected}
	case exact.Verdict == producer.Held && exact.Len == n:
		return exact
	default:
		return producer.Class{Verdict: producer.Expired, Expected: expected}
	}
}
