package blocklog

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
)

// Cache is what became of what the disk had in its cache when power went out.
type Cache uint8

// The fates.
const (
	// Kept: every write is there.
	Kept Cache = iota
	// Lost: only what is safe is there.
	Lost
	// Some: what is safe, and of the rest what chance leaves, down to single sectors.
	Some
)

// String gives the fate as tables write it.
func (c Cache) String() string { return [...]string{"kept", "lost", "some"}[c] }

// Cut is a moment at which power goes out: Before is how many operations had ended.
type Cut struct {
	Before int
	Cache  Cache
	// Seed decides what Some leaves.
	Seed uint64
}

// String names the moment.
func (c Cut) String() string {
	return fmt.Sprintf("after %d operations, cache %v, seed %d", c.Before, c.Cache, c.Seed)
}

// Moments are up to n moments, in order: just before and just after flushes and writes
// with forced unit access, spread over the operations from one on and before another. Of
// neighbours the one is taken in front of which most writes are not safe.
func (l *Log) Moments(n, from, before int) []int {
	var barriers []int
	cached := make(map[int]int) // writes in the cache at each barrier
	pending := 0
	for i, e := range l.Entries[:before] {
		if e.Flags&(Flush|FUA) != 0 && i >= from {
			barriers = append(barriers, i)
			cached[i] = pending
		}
		if e.Flags&Flush != 0 {
			pending = 0
		}
		if e.writes() && e.Flags&FUA == 0 {
			pending++
		}
	}
	var moments []int
	pairs := min(n/2, len(barriers))
	for k := range pairs {
		neighbours := barriers[k*len(barriers)/pairs : (k+1)*len(barriers)/pairs]
		i := slices.MaxFunc(neighbours, func(a, b int) int { return cmp.Compare(cached[a], cached[b]) })
		moments = append(moments, i, i+1)
	}
	return slices.Compact(moments)
}

// Build writes to an image of the disk, as it was when the log began, what the disk
// holds after a cut. It returns how many writes were not safe, and of them how many
// were left out, wholly or in part.
func (l *Log) Build(image io.WriterAt, c Cut) (unsafe, dropped int, err error) {
	if c.Before > len(l.Entries) {
		return 0, 0, fmt.Errorf("the log has %d operations, fewer than %d", len(l.Entries), c.Before)
	}
	safe := l.safe(c.Before)
	chance := rand.New(rand.NewPCG(c.Seed, uint64(c.Before)))
	for i, e := range l.Entries[:c.Before] {
		if !e.writes() {
			continue
		}
		keep := all
		if !safe[i] {
			unsafe++
			keep = c.keep(chance)
		}
		whole, err := l.put(image, i, keep)
		if err != nil {
			return unsafe, dropped, err
		}
		if !whole {
			dropped++
		}
	}
	return unsafe, dropped, nil
}

// safe says of each of the first operations whether the disk may not lose it.
func (l *Log) safe(before int) []bool {
	safe := make([]bool, before)
	begin := 0 // of what is in the cache
	for i, e := range l.Entries[:before] {
		if e.Flags&Flush != 0 {
			for k := begin; k < i; k++ {
				safe[k] = true
			}
			begin = i
		}
		if e.Flags&FUA != 0 {
			safe[i] = true
		}
	}
	return safe
}

// A keeper says whether a sector of a write is there.
type keeper func() bool

func all() bool  { return true }
func none() bool { return false }

// keep decides about one write that is not safe.
func (c Cut) keep(chance *rand.Rand) keeper {
	switch c.Cache {
	case Kept:
		return all
	case Lost:
		return none
	default:
		return [...]keeper{all, none, func() bool { return chance.IntN(2) == 0 }}[chance.IntN(3)]
	}
}

// put writes the sectors of an operation that are kept; whole says that all were.
func (l *Log) put(image io.WriterAt, i int, keep keeper) (whole bool, err error) {
	data, err := l.Read(i)
	if err != nil {
		return false, err
	}
	at := int64(l.Entries[i].Sector) * l.SectorBytes
	whole = true
	begin := int64(-1) // of the run of kept sectors
	for pos := int64(0); ; pos += l.SectorBytes {
		kept := pos < int64(len(data)) && keep()
		switch {
		case kept && begin < 0:
			begin = pos
		case !kept && begin >= 0:
			if _, err := image.WriteAt(data[begin:pos], at+begin); err != nil {
				return false, err
			}
			begin = -1
		}
		if pos >= int64(len(data)) {
			return whole, nil
		}
		whole = whole && kept
	}
}
