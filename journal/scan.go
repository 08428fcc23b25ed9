package journal

import (
	"errors"
	"slices"
)

// Scan finds the chain of an epoch: it starts at the largest OldestNeeded among
// the valid frames and goes on by exactly sequence + 1. A frame that is not whole
// ends it, because the last frame of a store that stopped may be unfinished;
// unless a later one exists, then the error is a *RottenError. Any other error is
// a failed read.
//
// In a file, frames lie back to back from position 0. What follows the last of
// them is whatever the file held before: frames of lower sequences, frames of
// other epochs, or what is left of either.
func Scan(sources []Source, epoch uint64) (*Chain, error) {
	s := scanner{epoch: epoch, sources: sources, buf: make([]byte, windowBytes(sources))}
	for file := range sources {
		if err := s.walk(file); err != nil {
			return nil, err
		}
	}
	return s.chain()
}

// scanner collects the frames of an epoch.
type scanner struct {
	epoch   uint64
	sources []Source
	buf     []byte
	// intact are the valid frames; broken those of which only the header is
	// intact, with what is wrong with the rest.
	intact []Ref
	broken []brokenFrame
}

type brokenFrame struct {
	Ref
	cause error
}

// walk looks at every block of a file that may begin a frame.
func (s *scanner) walk(file int) error {
	w := window{source: s.sources[file], buf: s.buf}
	for pos := int64(0); pos+HeaderBytes <= w.source.Bytes; {
		h, _, crc, err := w.frame(pos)
		var bad *Corruption
		if err != nil && !errors.As(err, &bad) {
			return err
		}
		ref := Ref{File: file, Position: pos, Header: h, bodyCRC: crc}
		switch {
		case h.Epoch != s.epoch: // no frame, or a leftover
		case err != nil:
			s.broken = append(s.broken, brokenFrame{ref, bad})
		default:
			s.intact = append(s.intact, ref)
			pos = ref.end()
			continue
		}
		pos += BlockBytes
	}
	return nil
}

// chain puts the frames in a row.
func (s *scanner) chain() (*Chain, error) {
	c := &Chain{sources: s.sources}
	if len(s.intact) == 0 {
		return c, nil
	}
	slices.SortStableFunc(s.intact, compareSequence)
	var next uint64
	for _, ref := range s.intact {
		next = max(next, ref.OldestNeeded)
	}
	for _, ref := range s.intact {
		switch {
		case ref.Sequence < next && (len(c.refs) == 0 || ref.Sequence < c.refs[0].Sequence):
			// Not needed any more.
		case ref.Sequence == next:
			c.refs = append(c.refs, ref)
			next++
		case ref.Sequence < next:
			if last := c.refs[len(c.refs)-1]; ref.Header != last.Header || ref.bodyCRC != last.bodyCRC {
				return nil, s.rotten(ref.Sequence, ref.File, ref.Position, impossible("another frame has the same sequence, in %s at position %d",
					s.sources[last.File].Name, last.Position))
			}
			// A copy, in a payload.
		default:
			return nil, s.missing(next)
		}
	}
	return c, nil
}

// missing says where a frame has to be that is not there.
func (s *scanner) missing(sequence uint64) error {
	for _, b := range s.broken {
		if b.Sequence == sequence {
			return s.rotten(sequence, b.File, b.Position, b.cause)
		}
	}
	i := slices.IndexFunc(s.intact, func(r Ref) bool { return r.Sequence > sequence })
	next := s.intact[i]
	file, position := next.File, s.endBefore(next)
	// Two frames in a row lie back to back, or the second begins a file. So the
	// missing one is in the file of the frame behind it, unless that is the first
	// there or not the very next.
	if i > 0 && s.intact[i-1].Sequence+1 == sequence && (next.Position == 0 || next.Sequence != sequence+1) {
		file, position = s.intact[i-1].File, s.intact[i-1].end()
	}
	return s.rotten(sequence, file, position, nil)
}

// endBefore is where the last intact frame in front of another ends, in its file.
func (s *scanner) endBefore(next Ref) int64 {
	var end int64
	for _, r := range s.intact {
		if r.File == next.File && r.end() <= next.Position {
			end = max(end, r.end())
		}
	}
	return end
}

func (s *scanner) rotten(sequence uint64, file int, position int64, cause error) error {
	last := s.intact[len(s.intact)-1]
	return &RottenError{
		Sequence: sequence, File: s.sources[file].Name, Position: position,
		Later: last.Sequence, LaterFile: s.sources[last.File].Name, Cause: cause,
	}
}
