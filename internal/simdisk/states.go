package simdisk

import (
	"iter"
	"math/bits"
)

// Grain is how finely a page's fate is told apart.
type Grain uint8

// The grains.
const (
	// WholePages: a dirty page is lost or written.
	WholePages Grain = iota
	// TornPages: also its first so many sectors new and the rest old.
	TornPages
	// AnySectors: any set of its sectors.
	AnySectors
)

// Bound says which states an enumeration visits. It is to be printed with the
// counts: what is proved is proved within it.
type Bound struct {
	Grain Grain
	// LengthStep adds, to the durable and the current length, each multiple of it
	// between the two; 0 adds none.
	LengthStep int64
	// StatesMax ends an exhaustive visit that would take more; the states are
	// sampled then. Zero means 1 << 16.
	StatesMax int
	// Seed chooses the sample.
	Seed uint64
}

const statesMaxDefault = 1 << 16

// States are the disks that a power loss at one moment may leave.
type States struct {
	bound Bound
	bases []stateBase
	total uint64
	// Visited counts the states built, Distinct those that were not equal to an
	// earlier one. They are final when All ended.
	Visited, Distinct int
}

// stateBase is the disk with some of the writes under way landed.
type stateBase struct {
	disk *Disk
	dims []dimension
}

// flightsInStatesMax bounds how many writes under way are told apart; beyond, all
// have happened or none.
const flightsInStatesMax = 4

// States prepares an enumeration for this moment. The disk goes on.
func (d *Disk) States(b Bound) *States {
	if b.StatesMax == 0 {
		b.StatesMax = statesMaxDefault
	}
	s := &States{bound: b}
	n := d.writesUnderWay()
	subsets := []uint64{0, 1<<n - 1}
	if n <= flightsInStatesMax {
		subsets = subsets[:0]
		for subset := range uint64(1) << n {
			subsets = append(subsets, subset)
		}
	}
	for _, subset := range subsets {
		at := 0
		base := d.cloneWith(func(_ *flight, left int) int {
			at++
			if subset>>(at-1)&1 == 1 {
				return left
			}
			return 0
		})
		dims := dimensions(base.doubtLocked(), b)
		total := uint64(1)
		for _, dim := range dims {
			total = saturatingProduct(total, uint64(dim.options))
		}
		s.bases = append(s.bases, stateBase{base, dims})
		s.total = saturatingSum(s.total, total)
	}
	return s
}

func (d *Disk) writesUnderWay() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for fl := range d.mu.flights {
		if fl.landed < len(fl.buf) {
			n++
		}
	}
	return min(n, 63)
}

// Total is the number of combinations within the bound, equal ones counted
// again; math.MaxUint64 stands for that and more.
func (s *States) Total() uint64 { return s.total }

// Exhaustive says whether All visits every combination within the bound.
func (s *States) Exhaustive() bool { return s.total <= uint64(s.bound.StatesMax) }

// All gives each distinct state once: all of them within the bound, or, when
// those are too many, the corners (nothing and everything reached the device)
// and a sample.
func (s *States) All() iter.Seq[*Disk] {
	return func(yield func(*Disk) bool) {
		s.Visited, s.Distinct = 0, 0
		seen := make(map[uint64]bool)
		visit := func(base stateBase, choices []int) bool {
			state := base.choose(choices)
			s.Visited++
			digest := state.Digest()
			if seen[digest] {
				return true
			}
			seen[digest] = true
			s.Distinct++
			return yield(state)
		}
		if s.Exhaustive() {
			s.everything(visit)
		} else {
			s.sample(visit)
		}
	}
}

func (s *States) everything(visit func(stateBase, []int) bool) {
	for _, base := range s.bases {
		choices := make([]int, len(base.dims))
		for more := true; more; more = advance(choices, base.dims) {
			if !visit(base, choices) {
				return
			}
		}
	}
}

// advance goes to the next combination; false after the last.
func advance(choices []int, dims []dimension) bool {
	for i := range choices {
		if choices[i]++; choices[i] < dims[i].options {
			return true
		}
		choices[i] = 0
	}
	return false
}

func (s *States) sample(visit func(stateBase, []int) bool) {
	r := NewRand(s.bound.Seed)
	for _, base := range s.bases {
		least, most := make([]int, len(base.dims)), make([]int, len(base.dims))
		for i, dim := range base.dims {
			most[i] = dim.options - 1
		}
		if !visit(base, least) || !visit(base, most) {
			return
		}
	}
	for s.Visited < s.bound.StatesMax {
		base := s.bases[r.Below(uint64(len(s.bases)))]
		choices := make([]int, len(base.dims))
		for i, dim := range base.dims {
			choices[i] = int(r.Below(uint64(dim.options)))
		}
		if !visit(base, choices) {
			return
		}
	}
}

// dimension is one choice that is independent of the others: option 0 is the
// state the device is known to hold, the last one is the current state.
type dimension struct {
	options int
	set     func(o *outcome, option int)
}

func dimensions(in *doubt, b Bound) []dimension {
	var dims []dimension
	for i := range in.names {
		dims = append(dims, dimension{2, func(o *outcome, option int) { o.fresh[i] = option == 1 }})
	}
	for i, df := range in.files {
		sizes := lengths(df.file.deviceSize, df.file.size, b.LengthStep)
		dims = append(dims, dimension{len(sizes), func(o *outcome, option int) { o.files[i].size = sizes[option] }})
		for j, page := range df.pages {
			ps := df.file.pages[page]
			masks := b.Grain.masks(differing(ps.device, ps.cache))
			dims = append(dims, dimension{len(masks), func(o *outcome, option int) { o.files[i].masks[j] = masks[option] }})
		}
	}
	return dims
}

func lengths(synced, current, step int64) []int64 {
	sizes := []int64{synced}
	if step > 0 {
		low, high := min(synced, current), max(synced, current)
		for size := (low/step + 1) * step; size < high; size += step {
			sizes = append(sizes, size)
		}
	}
	if current != synced {
		sizes = append(sizes, current)
	}
	return sizes
}

// masks are the sets of sectors to tell apart for a page that changed in these.
func (g Grain) masks(changed uint8) []uint8 {
	masks := []uint8{0}
	switch g {
	case TornPages:
		for n := 1; n < sectorsPerPage; n++ {
			if m := firstSectors(n) & changed; m != masks[len(masks)-1] && m != changed {
				masks = append(masks, m)
			}
		}
	case AnySectors:
		for m := uint8(1); m < changed; m++ {
			if m&^changed == 0 {
				masks = append(masks, m)
			}
		}
	}
	return append(masks, changed)
}

// choose builds one state; the base stays as it is.
func (s stateBase) choose(choices []int) *Disk {
	c := s.disk.cloneWith(func(*flight, int) int { return 0 })
	in := c.doubtLocked()
	o := &outcome{fresh: make([]bool, len(in.names)), files: make([]fileOutcome, len(in.files))}
	for i, df := range in.files {
		o.files[i].masks = make([]uint8, len(df.pages))
	}
	for i, dim := range s.dims {
		dim.set(o, choices[i])
	}
	c.settleLoss(in, o, false)
	return c
}

func saturatingProduct(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	if high != 0 {
		return 1<<64 - 1
	}
	return low
}

func saturatingSum(a, b uint64) uint64 {
	sum, carry := bits.Add64(a, b, 0)
	if carry != 0 {
		return 1<<64 - 1
	}
	return sum
}
