package kafka

import (
	"encoding/binary"
	"fmt"
	"math"
	"sort"

	"felix.local/felix/broker"
)

// noEpoch is the epoch of nothing, and what a client says that knows none.
const noEpoch = -1

// epochs are the leader epochs of a partition: the generations of its shard, as far
// as they have records. A generation above 2^31-1 is that epoch, with all after it.
// Records from before the first generation on record are of epoch 0. The zero value
// is epoch 0 alone: a partition that nobody led by generation.
type epochs struct {
	// oldest is the epoch of the records before those of later.
	oldest int32
	// later rise, in epoch and in start.
	later []epochStart
}

// epochStart says that the records from offset first on are of an epoch.
type epochStart struct {
	epoch int32
	first uint64
}

// epochsOf gives a partition's epochs. A generation is on record before its first
// record can be read, so that they are right for all that was seen of the shard before.
func epochsOf(stream *broker.Stream, shard int) (epochs, error) {
	generations, err := stream.Generations(shard)
	if err != nil || len(generations) == 0 {
		return epochs{}, err
	}
	return epochsFrom(generations), nil
}

// epochsFor gives a partition's epochs to a client that says it knows the current one.
func epochsFor(stream *broker.Stream, shard int, current int32) (epochs, error) {
	known, err := epochsOf(stream, shard)
	if err == nil {
		err = known.admit(current)
	}
	return known, err
}

// epochsFrom makes generations epochs. One that begins where the next does wrote
// nothing, and is left out.
func epochsFrom(generations []broker.Generation) epochs {
	var e epochs
	for _, g := range generations {
		epoch, n := int32(min(g.Number, math.MaxInt32)), len(e.later)
		switch {
		case g.First == 0:
			e.oldest = epoch
		case n > 0 && e.later[n-1].first == g.First:
			e.later[n-1].epoch = epoch
		case epoch != e.newest():
			e.later = append(e.later, epochStart{epoch, g.First})
		}
	}
	return e
}

// newest is the epoch of the leader.
func (e epochs) newest() int32 {
	if n := len(e.later); n > 0 {
		return e.later[n-1].epoch
	}
	return e.oldest
}

// at is the epoch of the record at an offset, and where the next epoch begins:
// math.MaxUint64 behind the newest.
func (e epochs) at(offset uint64) (epoch int32, end uint64) {
	n := sort.Search(len(e.later), func(i int) bool { return e.later[i].first > offset })
	epoch, end = e.oldest, math.MaxUint64
	if n > 0 {
		epoch = e.later[n-1].epoch
	}
	if n < len(e.later) {
		end = e.later[n].first
	}
	return epoch, end
}

// admit refuses a client whose leader is of another epoch than the newest: it asks
// for the metadata again, or waits for this server to know what it knows.
func (e epochs) admit(current int32) error {
	newest := e.newest()
	switch {
	case current == noEpoch || current == newest:
		return nil
	case current < newest:
		return refuse(codeFencedLeaderEpoch, fmt.Sprintf("leader epoch %d is over; this one is %d", current, newest))
	default:
		return refuse(codeUnknownLeaderEpoch, fmt.Sprintf("leader epoch %d is not known here; the newest is %d", current, newest))
	}
}

// endOf gives the largest epoch that is not above asked, and the offset behind its
// last record, which is next for the newest. It is noEpoch and -1 for an epoch before
// the first, and for one above the newest, of whose records nothing is known.
func (e epochs) endOf(asked int32, next uint64) (epoch int32, end int64) {
	n := sort.Search(len(e.later), func(i int) bool { return e.later[i].epoch > asked })
	switch {
	case asked < e.oldest || asked > e.newest():
		return noEpoch, -1
	case n < len(e.later):
		next = e.later[n].first
	}
	if n == 0 {
		return e.oldest, int64(next)
	}
	return e.later[n-1].epoch, int64(next)
}

// appendBatches is appendBatch with a batch for the records of each epoch.
func appendBatches(dst []byte, records []broker.Record, e epochs, budget int, must bool) (out []byte, taken int) {
	out = dst
	for taken < len(records) {
		run := records[taken:]
		epoch, end := e.at(run[0].Offset)
		run = run[:sort.Search(len(run), func(i int) bool { return run[i].Offset >= end })]
		start, n := len(out), 0
		out, n = appendBatch(out, run, budget-(start-len(dst)), must && taken == 0)
		if n > 0 {
			setEpoch(out[start:], epoch)
		}
		taken += n
		if n < len(run) {
			break
		}
	}
	return out, taken
}

// appendGap appends an empty batch for the offsets from first on that hold no records,
// up to those before next, or to the end of their epoch. behind is where it ends.
func appendGap(dst []byte, first, next uint64, e epochs) (out []byte, behind uint64) {
	epoch, end := e.at(first)
	behind = min(next, end, first+math.MaxInt32)
	out = appendEmptyBatch(dst, first, behind-1)
	setEpoch(out[len(dst):], epoch)
	return out, behind
}

// setEpoch writes the epoch of a batch, which its checksum does not cover.
func setEpoch(batch []byte, epoch int32) {
	binary.BigEndian.PutUint32(batch[batchEpochAt:], uint32(epoch))
}
