package producer

import (
	"fmt"
	"math"
)

// Verdict is what a log says about a batch that arrives.
type Verdict uint8

// The verdicts. Beside each stands what is set in a Class.
const (
	// Unknown: the log holds no batch of this producer.
	Unknown Verdict = iota
	// Next: the sequence is the one that follows. Expected.
	Next
	// Gap: sequences are missing before this one. Expected.
	Gap
	// Held: the log holds the whole batch. First, Last, Digest.
	Held
	// Partial: the log ends with the first records of the batch and could be
	// continued with the others. First, Last, Held, Len, and the Digest of the
	// records held.
	Partial
	// Expired: the sequence is older than what is remembered. Expected.
	Expired
)

var verdictNames = [...]string{"unknown", "next", "gap", "held", "partial", "expired"}

// String gives the verdict's name.
func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return fmt.Sprintf("verdict %d", uint8(v))
}

// Class is a verdict with what it rests on; see Verdict for the fields set.
type Class struct {
	Verdict Verdict
	// First and Last are the offsets of the records held, both inclusive.
	First, Last uint64
	// Held of the Len records of the batch are in the log.
	Held, Len uint32
	// Expected is the sequence that would be Next, and 0 when there is none after
	// the last of 64 bits.
	Expected uint64
	Digest   Digest
}

// Classify says what the records observed so far mean for a batch of a producer
// that arrives now.
func (s *State) Classify(producer, sequence uint64) Class {
	if o := &s.open; o.waiting && o.producer == producer && o.sequence == sequence {
		return Class{Verdict: Partial, First: o.first, Last: o.end() - 1, Held: o.held, Len: o.len, Digest: o.digest}
	}
	w := s.windows[producer]
	if w == nil {
		return Class{Verdict: Unknown}
	}
	if sequence > w.last {
		verdict := Gap
		if sequence == w.last+1 {
			verdict = Next
		}
		return Class{Verdict: verdict, Expected: w.last + 1}
	}
	back := w.last - sequence
	if back >= uint64(w.n) {
		return Class{Verdict: Expired, Expected: w.last + 1}
	}
	b := w.at(w.n - 1 - int(back))
	return Class{Verdict: Held, First: b.first, Last: b.end() - 1, Held: b.len, Len: b.len, Digest: b.digest}
}

// NextSequence is the sequence that follows the producer's newest batch. ok is
// false when the log holds none of it, or when 64 bits have no further one.
func (s *State) NextSequence(producer uint64) (sequence uint64, ok bool) {
	w := s.windows[producer]
	if w == nil || w.last == math.MaxUint64 {
		return 0, false
	}
	return w.last + 1, true
}
