package engine

import (
	"bytes"
	"io"
	"testing"
)

// Whatever part of a segment is read, from the file, from memory or from both, the
// bytes are those of the segment.
func TestALaggingSegmentReadsAsAWholeOne(t *testing.T) {
	whole := []byte("0123456789abcdefghij")
	for from := range len(whole) + 1 {
		for middle := from; middle <= len(whole); middle++ {
			r := lagReader{
				file: bytes.NewReader(whole[:from]), from: int64(from),
				writing: whole[from:middle], staged: whole[middle:],
			}
			for pos := range len(whole) + 2 {
				for n := range len(whole) + 2 {
					p := make([]byte, n)
					got, err := r.ReadAt(p, int64(pos))
					want := whole[min(pos, len(whole)):min(pos+n, len(whole))]
					if !bytes.Equal(p[:got], want) || (err != nil) != (len(want) < n) || err != nil && err != io.EOF {
						t.Fatalf("file to %d, writing to %d: %d bytes at %d read %q, %v", from, middle, n, pos, p[:got], err)
					}
				}
			}
		}
	}
}

// Memory that a reader was lent is not written over; other memory is used again.
func TestLentBytesAreNotUsedAgain(t *testing.T) {
	var g lag
	g.add([]byte("first"))
	lent := g.lend(0)
	g.begin()
	g.end()
	g.add([]byte("other"))
	if string(lent.staged) != "first" {
		t.Errorf("a reader's bytes became %q", lent.staged)
	}
	seen := make(map[*byte]bool)
	for range 100 { // under the race detector a pool forgets now and then
		seen[&g.begin()[0]] = true
		g.end()
		g.add([]byte("again"))
	}
	if len(seen) > 90 {
		t.Error("no memory is used again")
	}
}
