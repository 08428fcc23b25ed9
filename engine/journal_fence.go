package engine

import (
	"fmt"

	"felix.local/felix/journal"
)

// leftBehind notes that a log is about to go on in another segment than this one.
func (j *commitJournal) leftBehind(l *Log, segment uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if shard, ok := j.mu.shards[l.name]; ok {
		shard.sealed, shard.left = shard.last, segment
		j.mu.shards[l.name] = shard
	}
}

// goesOn notes in which segment a log that was opened goes on. That may be one which it
// had left behind before it was poisoned: when nothing of the next one reached the
// device there is no next one. What is journaled for it from here on counts, and a fence
// must not take it for what was left behind.
func (j *commitJournal) goesOn(l *Log) {
	active := l.mu.active.id
	j.mu.Lock()
	defer j.mu.Unlock()
	shard, ok := j.mu.shards[l.name]
	if !ok {
		return
	}
	shard.lowest = min(shard.lowest, active)
	switch {
	case shard.left < active:
	case active == 0:
		shard.sealed, shard.left = 0, 0
	default:
		shard.left = active - 1
	}
	j.mu.shards[l.name] = shard
}

// fence makes it durable that the journal holds nothing for the segments of a shard
// up to one, before they are removed or cut: a start would find them missing, or
// would bring back what was cut. Their bytes are durable where they belong, or are
// not wanted any more.
//
// When it has to be told of a segment that was left behind it is told of all of them,
// which hold what is durable: a journal without a free file has little room for that.
func (j *commitJournal) fence(shard string, segment uint64) error {
	segment, speaks := j.speaksOf(shard, segment)
	if !speaks {
		return nil
	}
	e := &journalEntry{Entry: journal.Entry{Kind: journal.Fence, Shard: shard, Segment: segment}, done: make(chan error, 1)}
	lead, err := j.stage(e)
	if lead {
		j.store.committers.run(j.leadFn)
	}
	if err == nil {
		err = <-e.done
	}
	if err != nil {
		return fmt.Errorf("the commit journal could not be told that %s gives up records: %w", shard, err)
	}
	return nil
}

// speaksOf says whether a start might find entries of a shard for segments up to one,
// and up to which it may be told of.
func (j *commitJournal) speaksOf(shard string, segment uint64) (through uint64, speaks bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	held := j.mu.shards[shard]
	if j.mu.lost && j.mu.gone { // a start finds nothing, or refuses what is not whole
		return segment, false
	}
	if held.last < j.mu.told || held.last == 0 {
		delete(j.mu.shards, shard)
		return segment, false
	}
	if segment == journal.AllSegments {
		return segment, true
	}
	return max(segment, held.left), held.sealed != 0 && held.sealed >= j.mu.told && segment >= held.lowest
}

// fencedLocked notes a fence that is durable.
func (j *commitJournal) fencedLocked(e *journalEntry) {
	held, ok := j.mu.shards[e.Shard]
	switch {
	case !ok:
	case e.Segment == journal.AllSegments:
		delete(j.mu.shards, e.Shard)
	default:
		held.lowest = max(held.lowest, e.Segment+1)
		if e.Segment >= held.left {
			held.sealed = 0
		}
		j.mu.shards[e.Shard] = held
	}
}

// holds says that the journal alone may hold records of a shard.
func (j *commitJournal) holds(shard string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for l := range j.mu.pinned {
		if l.name == shard {
			return true
		}
	}
	return false
}

// forget drops what the journal keeps for a shard that was deleted.
func (j *commitJournal) forget(shard string) {
	j.mu.Lock()
	var logs []*Log
	for l := range j.mu.pinned {
		if l.name == shard {
			logs = append(logs, l)
			l.pins = pins{}
			delete(j.mu.pinned, l)
		}
	}
	j.mu.Unlock()
	for _, l := range logs { // closed, all of them
		l.mu.Lock()
		j.lagBytes.Add(-l.mu.active.lag.bytes())
		l.mu.active.lag = lag{}
		l.mu.Unlock()
	}
	j.advance()
}
