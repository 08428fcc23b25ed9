package corrupt

import (
	"iter"
	"slices"
)

// damages lists what is done to the files of a world: everything of the kinds
// that are wanted, as far as the stride wants it.
func (w *world) damages() iter.Seq[Damage] {
	return func(yield func(Damage) bool) {
		n := 0
		for _, k := range w.o.Kinds {
			for d := range w.damagesOf(k) {
				taken := n%w.o.Stride == w.o.Phase%w.o.Stride
				if n++; taken && !yield(d) {
					return
				}
			}
		}
	}
}

// damagesOf lists all damages of a kind.
func (w *world) damagesOf(k Kind) iter.Seq[Damage] {
	return func(yield func(Damage) bool) {
		for i, f := range w.files {
			of := placesOf
			if k.ofFiles() {
				of = func(Kind, fileTruth) iter.Seq[Damage] { return w.pairs(k, i) }
			}
			for d := range of(k, f) {
				d.Kind, d.File = k, f.name
				if !yield(d) {
					return
				}
			}
		}
	}
}

// placesOf lists the damages of a kind within a file.
func placesOf(k Kind, f fileTruth) iter.Seq[Damage] {
	switch k {
	case Flip:
		return bitsOf(f.size)
	case Cut:
		return steps(f.size, 1)
	case ZeroPage:
		return steps(f.size, pageBytes)
	case CopySector, SwapSectors:
		return sectorPairs(f.size, k == CopySector)
	default:
		return steps(f.size, sectorBytes)
	}
}

func steps(size, step int64) iter.Seq[Damage] {
	return func(yield func(Damage) bool) {
		for position := int64(0); position < size; position += step {
			if !yield(Damage{Position: position}) {
				return
			}
		}
	}
}

func bitsOf(size int64) iter.Seq[Damage] {
	return func(yield func(Damage) bool) {
		for position := range size {
			for bit := range bitsPerByte {
				if !yield(Damage{Position: position, Bit: bit}) {
					return
				}
			}
		}
	}
}

// sectorPairs lists each pair of sectors once, or twice when it matters which of
// the two comes first.
func sectorPairs(size int64, bothWays bool) iter.Seq[Damage] {
	return func(yield func(Damage) bool) {
		for position := int64(0); position < size; position += sectorBytes {
			for from := int64(0); from < size; from += sectorBytes {
				wanted := from > position || bothWays && from < position
				if wanted && !yield(Damage{Position: position, From: from}) {
					return
				}
			}
		}
	}
}

// pairs lists what is done to a whole file, with each other file where it takes
// two.
func (w *world) pairs(k Kind, file int) iter.Seq[Damage] {
	if k == RemoveFile {
		return slices.Values([]Damage{{}})
	}
	return func(yield func(Damage) bool) {
		for i, other := range w.files {
			wanted := i > file || k == CopyFile && i != file
			if wanted && !yield(Damage{Other: other.name}) {
				return
			}
		}
	}
}
