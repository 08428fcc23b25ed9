package engine

import (
	"fmt"
	"math"

	"felix.local/felix/journal"
)

// allSegments fences off everything of a shard.
const allSegments = math.MaxUint64

// leftBehind notes that a log goes on in another segment.
func (j *commitJournal) leftBehind(l *Log) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if shard, ok := j.mu.shards[l.name]; ok {
		shard.sealed = shard.last
		j.mu.shards[l.name] = shard
	}
}

// fence makes it durable that the journal holds nothing for the segments of a shard
// up to one, before they are removed or cut: a start would find them missing, or
// would bring back what was cut. Their bytes are durable where they belong, or are
// not wanted any more.
func (j *commitJournal) fence(shard string, segment uint64) error {
	j.mu.Lock()
	held := j.mu.shards[shard]
	highest := held.last
	if segment != allSegments {
		highest = held.sealed
	}
	needless := highest == 0 || highest < j.mu.told
	if needless && highest == held.last {
		delete(j.mu.shards, shard)
	}
	j.mu.Unlock()
	if needless {
		return nil
	}
	e := &journalEntry{Entry: journal.Entry{Kind: journal.Fence, Shard: shard, Segment: segment}, done: make(chan error, 1)}
	if err := j.append(e); err != nil {
		return fmt.Errorf("the commit journal could not be told that %s gives up records: %w", shard, err)
	}
	return nil
}

// forget drops what the journal keeps for a log whose records are not wanted any more.
func (j *commitJournal) forget(l *Log) {
	j.mu.Lock()
	defer j.mu.Unlock()
	l.pins = pins{}
	delete(j.mu.pinned, l)
}
