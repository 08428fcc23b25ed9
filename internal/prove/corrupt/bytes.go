package corrupt

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"felix.local/felix/segment"
)

// This file reads damaged bytes by itself, as far as the rules make a difference
// between damages. It knows where the records were.

// hit lists the records whose bytes are no longer what they were.
func (t *segmentTruth) hit(got []byte) (hit []int) {
	for n := range t.records {
		if !t.spared(got, n) {
			hit = append(hit, n)
		}
	}
	return hit
}

// spared says that record n is where it was, with every byte.
func (t *segmentTruth) spared(got []byte, n int) bool {
	start, end := t.starts[n], t.starts[n+1]
	return end <= int64(len(got)) && bytes.Equal(got[start:end], t.content[start:end])
}

// Where the fields of a record's header are.
const (
	headerCRCAt  = 20
	batchOpenBit = 1 << 31
	tagBytes     = 20
	lengthMask   = 1<<29 - 1
)

// claimed is where the record at a position ends by what its header says. A header
// that is not trusted, since its checksum fails, claims its own bytes alone.
func claimed(got []byte, position int64) (end int64, trusted bool) {
	end = position + segment.RecordHeaderSize
	if end > int64(len(got)) {
		return end, false
	}
	h := got[position:]
	if crc32.ChecksumIEEE(h[:headerCRCAt]) != binary.BigEndian.Uint32(h[headerCRCAt:]) {
		return end, false
	}
	word := binary.BigEndian.Uint32(h)
	end += int64(word & lengthMask)
	if word&batchOpenBit != 0 {
		end += tagBytes
	}
	return end, true
}

// zerosBehind says whether a segment reads, from the record at a position on that
// claims to end at end, as blocks that were never written: zeros to the end of the
// file, from the record's start or from a boundary of 512 bytes within it on.
func zerosBehind(got []byte, position, end int64) bool {
	size := int64(len(got))
	zero := size
	for zero > position && got[zero-1] == 0 {
		zero--
	}
	if zero == size || zero == position {
		return zero == position
	}
	boundary := (zero + sectorBytes - 1) / sectorBytes * sectorBytes
	return boundary < min(end, size)
}

// intactBehind is how many intact records follow record n, which was hit: at least
// those, and at most those.
func (t *segmentTruth) intactBehind(n int, got []byte, d Damage) (least, most int) {
	if !d.Kind.ofTwoSectors() {
		for m := n + 1; m < len(t.records); m++ {
			if t.spared(got, m) {
				most++
			}
		}
		return most, most
	}
	// Behind both sectors, and behind what a record claims that came to the end of
	// one, everything is found. In front of that, a record which came there from
	// further back has a higher offset than those that are still at their place.
	safe := max(d.Position, d.From) + sectorBytes + longest(t)
	for m := n + 1; m < len(t.records); m++ {
		if bytes.Contains(got[t.starts[n]:], t.content[t.starts[m]:t.starts[m+1]]) {
			most++
		}
		if t.starts[m] >= safe {
			least++
		}
	}
	return least, most
}

// longest is the size of the longest record.
func longest(t *segmentTruth) (size int64) {
	for n := range t.records {
		size = max(size, t.starts[n+1]-t.starts[n])
	}
	return size
}
