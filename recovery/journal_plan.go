package recovery

import (
	"cmp"
	"slices"

	"felix.local/felix/journal"
)

// JournalPlan is what replaying the commit journal would do.
type JournalPlan struct {
	Root string
	// Current is what the journal says about itself; zero when that is unreadable.
	Current journal.Current
	// Frames is the number of frames that are needed, First to Last their sequences.
	Frames      int
	First, Last uint64
	// Entries counts what the frames hold, Void how many of these a later fence is
	// about, and Fences the fences.
	Entries, Void, Fences uint64
	// Shards are those with entries that count, sorted by name.
	Shards []JournalShard
	// Refusals is empty unless the journal must not be replayed. More counts those
	// that are not listed.
	Refusals []*JournalError
	More     int
}

// JournalShard is what a replay does to one shard.
type JournalShard struct {
	// Shard is the directory below the root.
	Shard string
	// Segments are those with entries, in the order of the entries.
	Segments []JournalSegment
	// Mark is what durable.mark says, nil when there is none; MarkAfter is what it
	// will say.
	Mark, MarkAfter *Mark

	refused bool
}

// JournalSegment is what a replay does to one segment.
type JournalSegment struct {
	Segment uint64
	// Entries is the number of entries, Position to End where they go and First to
	// Last the offsets they hold.
	Entries       uint64
	Position, End int64
	First, Last   uint64
	// Size is the file's length and ValidEnd the end of its intact records. Below
	// ValidEnd it holds what the journal holds; from there to End it is written.
	Size, ValidEnd int64
	// Cut says that the file ends at End afterwards: only zeros follow there.
	Cut bool

	// next is the offset that belongs at end, the end of what the file will hold as
	// far as the entries were judged.
	next      uint64
	nextKnown bool
	whole     bool
	end       int64
	headerCRC uint32
	base      uint64
}

// Missing is the number of bytes to write.
func (s *JournalSegment) Missing() int64 { return max(0, s.End-s.ValidEnd) }

// Refused says that nothing would be replayed, and no shard opened.
func (p *JournalPlan) Refused() bool { return len(p.Refusals) > 0 }

// BytesMissing is the number of bytes that only the journal holds.
func (p *JournalPlan) BytesMissing() int64 {
	var n int64
	for i := range p.Shards {
		for j := range p.Shards[i].Segments {
			n += p.Shards[i].Segments[j].Missing()
		}
	}
	return n
}

// refuse notes a reason.
func (p *JournalPlan) refuse(e *JournalError) {
	if len(p.Refusals) == refusalsMax {
		p.More++
		return
	}
	p.Refusals = append(p.Refusals, e)
}

// err is nil unless the plan is refused.
func (p *JournalPlan) err() error {
	if !p.Refused() {
		return nil
	}
	return &JournalRefusedError{Root: p.Root, Refusals: p.Refusals, More: p.More}
}

// shard finds a shard of the plan; nil when it has none.
func (p *JournalPlan) shard(name string) *JournalShard {
	i, found := slices.BinarySearchFunc(p.Shards, name, func(s JournalShard, name string) int { return cmp.Compare(s.Shard, name) })
	if !found {
		return nil
	}
	return &p.Shards[i]
}

// segment finds a segment of the shard; nil when it has none yet.
func (s *JournalShard) segment(id uint64) *JournalSegment {
	for i := range s.Segments {
		if s.Segments[i].Segment == id {
			return &s.Segments[i]
		}
	}
	return nil
}

// markAfter is what the mark says when the segments are on the device: the highest
// of them through the last entry, and never less than it says already. What follows
// is for opening the shard to vouch for, so that a replay that was interrupted ends
// as one that was not.
func (s *JournalShard) markAfter() *Mark {
	var after Mark
	for _, g := range s.Segments {
		if reached := (Mark{g.Segment, g.End}); after.before(reached) {
			after = reached
		}
	}
	if s.Mark != nil && !s.Mark.before(after) {
		return s.Mark
	}
	return &after
}

// before says that a mark vouches for less than another.
func (m Mark) before(other Mark) bool {
	return m.Segment < other.Segment || m.Segment == other.Segment && m.Synced < other.Synced
}
