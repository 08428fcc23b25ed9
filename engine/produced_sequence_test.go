package engine

import (
	"fmt"
	"testing"

	"felix.local/felix/producer"
)

// A producer that counts records: what a batch is to one that holds, as its newest,
// a batch of 5 records with the sequence 100, at offsets 40 to 44.
func TestWhatABatchIsToAProducerThatCountsRecords(t *testing.T) {
	const last = 100
	newest := producer.Class{Verdict: producer.Held, First: 40, Last: 44, Held: 5, Len: 5}
	older := producer.Class{Verdict: producer.Held, First: 39, Last: 39, Held: 1, Len: 1}
	partial := producer.Class{Verdict: producer.Partial, First: 45, Last: 46, Held: 2, Len: 3}
	none := producer.Class{}
	next := producer.Class{Verdict: producer.Next, Expected: 105}
	gap := producer.Class{Verdict: producer.Gap, Expected: 105}
	expired := producer.Class{Verdict: producer.Expired, Expected: 105}
	for _, c := range []struct {
		what          string
		exact, newest producer.Class
		last          uint64
		sequence      uint64
		n             uint32
		want          producer.Class
	}{
		{"unknown producer", none, none, 0, 0, 5, none},
		{"unknown producer, later sequence", none, none, 0, 7, 5, none},
		{"the one that follows", gap, newest, last, 105, 1, next},
		{"one too far", gap, newest, last, 106, 1, gap},
		{"within the newest", next, newest, last, 101, 4, gap},
		{"its last record", gap, newest, last, 104, 1, gap},
		{"the newest again", newest, newest, last, 100, 5, newest},
		{"the newest with other records", newest, newest, last, 100, 4, newest},
		{"the one before, remembered", older, newest, last, 99, 1, older},
		{"the one before, of another length", older, newest, last, 99, 2, expired},
		{"the one before, forgotten", expired, newest, last, 99, 1, expired},
		{"the first ever", expired, newest, last, 0, 1, expired},
		{"the open batch", partial, newest, last, 105, 3, partial},
		{"the open batch of one not held otherwise", partial, none, 0, 0, 3, partial},
		// Around 2^31, where sequences begin again.
		{
			"the one that follows, begun again", none,
			producer.Class{Verdict: producer.Held, Held: 5, Len: 5},
			recordSequences - 5, 0, 1,
			producer.Class{Verdict: producer.Next},
		},
		{
			"the one that follows, begun again within the newest", none,
			producer.Class{Verdict: producer.Held, Held: 5, Len: 5},
			recordSequences - 2, 3, 1,
			producer.Class{Verdict: producer.Next, Expected: 3},
		},
		{
			"older, from before the beginning", none,
			producer.Class{Verdict: producer.Held, Held: 5, Len: 5},
			2, recordSequences - 3, 5,
			producer.Class{Verdict: producer.Expired, Expected: 7},
		},
		{"as old as can be", none, newest, last, recordSequences + last - (olderSequences - 1), 1, expired},
		{"older than that is ahead", none, newest, last, recordSequences + last - olderSequences, 1, gap},
	} {
		t.Run(c.what, func(t *testing.T) {
			if got := classByRecord(c.exact, c.newest, c.last, c.sequence, c.n); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// What a batch is, asked of a state that holds real ones.
func TestBatchesAreClassifiedByTheStateTheyLeave(t *testing.T) {
	for _, numbering := range []Numbering{ByBatch, ByRecord} {
		s := producer.New(producer.Options{})
		offset, sequence := uint64(0), uint64(0)
		for _, n := range []uint32{1, 1, 1, 3, 2, 2, 1} {
			batch := ProducerBatch{Producer: 9, Sequence: sequence, Numbering: numbering}
			want := producer.Next
			if offset == 0 {
				want = producer.Unknown
			}
			if got := batch.classify(s, n); got.Verdict != want {
				t.Errorf("%v: batch at %d is %v, want %v", numbering, sequence, got.Verdict, want)
			}
			marks := producer.Marks(9, sequence, n)
			for i := range n {
				s.Observe(offset+uint64(i), marks(i), nil)
			}
			again := batch.classify(s, n)
			if again.Verdict != producer.Held || again.First != offset || again.Last != offset+uint64(n)-1 {
				t.Errorf("%v: batch at %d again: %+v", numbering, sequence, again)
			}
			offset += uint64(n)
			if sequence++; numbering == ByRecord {
				sequence += uint64(n) - 1
			}
		}
	}
}

func TestABatchThatCannotBeIsRefused(t *testing.T) {
	for _, c := range []struct {
		batch ProducerBatch
		n     int
		valid bool
	}{
		{ProducerBatch{}, 0, false},
		{ProducerBatch{}, 1, true},
		{ProducerBatch{Sequence: 1 << 63}, 1, true},
		{ProducerBatch{Numbering: ByRecord, Sequence: recordSequences}, 1, false},
		{ProducerBatch{Numbering: ByRecord, Sequence: recordSequences - 1}, 1, true},
		{ProducerBatch{Numbering: ByRecord}, 0, false},
		{ProducerBatch{Numbering: ByRecord + 1}, 1, false},
	} {
		if reason := c.batch.invalid(c.n); (reason == "") != c.valid {
			t.Errorf("%+v of %d records: %q", c.batch, c.n, reason)
		}
	}
}

func TestReasonsAndNumberingsHaveNames(t *testing.T) {
	seen := make(map[string]bool)
	for r := SequenceReason(0); r <= SequenceNotOpen+1; r++ {
		text := (&SequenceError{Reason: r}).Error()
		if seen[r.String()] || text == "" {
			t.Errorf("%d is %q: %s", r, r, text)
		}
		seen[r.String()] = true
	}
	if got := fmt.Sprint(ByBatch, ByRecord, Numbering(9)); got != "by_batch by_record numbering(9)" {
		t.Error(got)
	}
}
