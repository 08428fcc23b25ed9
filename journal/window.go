package journal

import (
	"errors"
	"fmt"
	"io"
)

// Source is a data file to scan.
type Source struct {
	// Name is the file's, for errors.
	Name   string
	Reader io.ReaderAt
	// Bytes is the file's size.
	Bytes int64
}

// window is the part of a source that is in memory.
type window struct {
	source Source
	buf    []byte
	pos    int64
	have   []byte
}

// windowBytes is what a window over these sources needs: room for any frame that
// fits in one of them.
func windowBytes(sources []Source) int64 {
	var largest int64
	for _, s := range sources {
		largest = max(largest, s.Bytes)
	}
	return min(largest, FrameBytesMax)
}

// at gives n bytes from pos on, or as many as the source has, and whatever else
// follows in memory. Room for n bytes is there for any frame.
func (w *window) at(pos int64, n int) ([]byte, error) {
	n = int(max(0, min(int64(n), w.source.Bytes-pos)))
	if i := pos - w.pos; i >= 0 && i+int64(n) <= int64(len(w.have)) {
		return w.have[i:], nil
	}
	w.pos, w.have = pos, nil
	b := w.buf[:min(int64(len(w.buf)), w.source.Bytes-pos)]
	got, err := w.source.Reader.ReadAt(b, pos)
	if got < len(b) {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("reading journal file %s at position %d: %w", w.source.Name, pos, err)
	}
	w.have = b
	return b, nil
}

// frame decodes what is at pos.
func (w *window) frame(pos int64) (Header, []Entry, uint32, error) {
	b, err := w.at(pos, HeaderBytes)
	if err != nil {
		return Header{}, nil, 0, err
	}
	h, err := DecodeHeader(b)
	if err != nil {
		return h, nil, 0, err
	}
	if b, err = w.at(pos, h.FrameBytes()); err != nil {
		return h, nil, 0, err
	}
	h, entries, err := Decode(b)
	return h, entries, bodyChecksum(b), err
}
