package producer

import "felix.local/felix/segment"

// Marks gives the mark of record i, counted from 0, of a producer's batch of n
// records: the first opens the batch, all others continue it. To store what is
// missing of a batch of which the log holds some records, begin at i = held.
func Marks(producer, sequence uint64, n uint32) func(i uint32) segment.Mark {
	return func(i uint32) segment.Mark {
		if i == 0 {
			return segment.Mark{Kind: segment.BatchOpen, Producer: producer, Sequence: sequence, Len: n}
		}
		return segment.Mark{Kind: segment.BatchContinue}
	}
}
