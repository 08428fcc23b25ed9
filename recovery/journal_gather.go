package recovery

import (
	"maps"
	"slices"

	"felix.local/felix/journal"
)

// gatherBytes bounds what is in memory at a time of the journal's records, one frame
// aside. They are gathered by shard, so that a segment is opened, compared
// and written once for many entries.
const gatherBytes = 32 << 20

// What keeping track of an extent and of an entry takes beside its bytes. Entries may
// be as small as a record without a payload, so it counts.
const (
	extentCost    = 192
	beginningCost = 16
)

// extent is entries of one segment that follow each other.
type extent struct {
	segment    uint64
	base       uint64
	headerCRC  uint32
	position   int64
	first      uint64
	last       uint64
	bytes      []byte
	beginnings []beginning
}

// beginning is where an entry begins: in bytes, and in which frame of the chain.
type beginning struct {
	at    int
	frame int
}

func (x *extent) end() int64      { return x.position + int64(len(x.bytes)) }
func (x *extent) entries() uint64 { return uint64(len(x.beginnings)) }

// frameAt is the frame that holds a position of the segment, or the nearest.
func (x *extent) frameAt(position int64) int {
	frame := x.beginnings[0].frame
	for _, b := range x.beginnings {
		if x.position+int64(b.at) <= position {
			frame = b.frame
		}
	}
	return frame
}

// continues says whether an entry goes on where the extent ends.
func (x *extent) continues(e *journal.Entry) bool {
	return e.Segment == x.segment && e.BaseOffset == x.base && e.HeaderCRC == x.headerCRC && e.Position == x.end() && e.First == x.last+1
}

// place is an entry's in the chain.
type place struct{ frame, entry int }

func (p place) before(other place) bool {
	return p.frame < other.frame || p.frame == other.frame && p.entry < other.entry
}

// fences are what a journal says about entries that do not count any more.
type fences map[string][]fence

type fence struct {
	at      place
	through uint64 // the last segment it is about
}

// add takes a fence. One that a later one covers is forgotten, so that at most one
// is kept for each segment that is named.
func (f fences) add(shard string, at place, through uint64) {
	kept := f[shard]
	for len(kept) > 0 && kept[len(kept)-1].through <= through {
		kept = kept[:len(kept)-1]
	}
	f[shard] = append(kept, fence{at, through})
}

// voids says whether a later fence is about an entry.
func (f fences) voids(e *journal.Entry, at place) bool {
	for _, one := range f[e.Shard] {
		if at.before(one.at) && e.Segment <= one.through {
			return true
		}
	}
	return false
}

// gather hands the entries that count to do, those of one shard in their order and
// as few extents as the budget of bytes allows. take is asked for every such entry
// first; nil takes them all. The bytes of an extent are valid until do returns.
func gather(chain *journal.Chain, f fences, budget int, take func(*journal.Entry, int) bool, do func(shard string, x *extent) error) error {
	g := gatherer{do: do, waiting: make(map[string][]*extent)}
	frame := -1
	err := chain.Each(func(_ journal.Header, entries []journal.Entry) error {
		frame++
		for i := range entries {
			e := &entries[i]
			if e.Kind != journal.Data || f.voids(e, place{frame, i}) || take != nil && !take(e, frame) {
				continue
			}
			g.add(e, frame)
		}
		if g.held < budget {
			return nil
		}
		return g.flush()
	})
	if err != nil {
		return err
	}
	return g.flush()
}

type gatherer struct {
	do      func(shard string, x *extent) error
	waiting map[string][]*extent
	held    int
}

func (g *gatherer) add(e *journal.Entry, frame int) {
	list := g.waiting[e.Shard]
	if len(list) == 0 || !list[len(list)-1].continues(e) {
		list = append(list, &extent{segment: e.Segment, base: e.BaseOffset, headerCRC: e.HeaderCRC, position: e.Position, first: e.First})
		g.waiting[e.Shard] = list
		g.held += extentCost
	}
	x := list[len(list)-1]
	x.beginnings = append(x.beginnings, beginning{len(x.bytes), frame})
	x.bytes = append(x.bytes, e.Bytes...)
	x.last = e.Last
	g.held += len(e.Bytes) + beginningCost
}

func (g *gatherer) flush() error {
	for _, shard := range slices.Sorted(maps.Keys(g.waiting)) {
		for _, x := range g.waiting[shard] {
			if err := g.do(shard, x); err != nil {
				return err
			}
		}
	}
	clear(g.waiting)
	g.held = 0
	return nil
}
