package journal

import (
	"cmp"
	"errors"
)

// Ref is where a frame lies.
type Ref struct {
	// File is the index of the source.
	File     int
	Position int64
	Header
	// bodyCRC tells frames of one sequence apart.
	bodyCRC uint32
}

// end is the position of the block behind the frame.
func (r Ref) end() int64 { return r.Position + PaddedBytes(r.FrameBytes()) }

func compareSequence(a, b Ref) int { return cmp.Compare(a.Sequence, b.Sequence) }

// Chain is the frames that are needed, in a row without a gap.
type Chain struct {
	sources []Source
	refs    []Ref
}

// Frames gives the frames in the order they were written.
func (c *Chain) Frames() []Ref { return c.refs }

// Each reads the frames once more, in the order they were written. The record
// bytes of the entries are valid until do returns; its error ends the walk and is
// returned as it is. A frame that is no longer what Scan found is a *RottenError.
func (c *Chain) Each(do func(Header, []Entry) error) error {
	buf := make([]byte, windowBytes(c.sources))
	var w window
	for i, ref := range c.refs {
		if i == 0 || ref.File != c.refs[i-1].File {
			w = window{source: c.sources[ref.File], buf: buf}
		}
		h, entries, crc, err := w.frame(ref.Position)
		var bad *Corruption
		if err != nil && !errors.As(err, &bad) {
			return err
		}
		if err == nil && (h != ref.Header || crc != ref.bodyCRC) {
			err = impossible("the frame was overwritten after it was found")
		}
		if err != nil {
			last := c.refs[len(c.refs)-1]
			return &RottenError{
				Sequence: ref.Sequence, File: c.sources[ref.File].Name, Position: ref.Position,
				Later: last.Sequence, LaterFile: c.sources[last.File].Name, Cause: err,
			}
		}
		if err := do(h, entries); err != nil {
			return err
		}
	}
	return nil
}
