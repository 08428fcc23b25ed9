package recovery

import (
	"bytes"
	"fmt"
	"slices"

	"felix.local/felix/segment"
)

func damageCases() []damageCase {
	return slices.Concat(emptyCases(), blankCases(), tailCases(), shortCases(), zeroCases(), sealedCases(), indexCases(), retiredCases(), retiredBlankCases(), offloadCases(), nameCases())
}

// flip damages one byte.
func flip(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 0x5a
	return b
}

func emptyCases() []damageCase {
	return []damageCase{
		{name: "C200 an empty directory starts a log at offset 0", setup: func(s *shard) { s.write("x", nil); s.remove("x") }, want: "make segment 0; [0,0) in 1"},
		{name: "C200 a missing directory is made", setup: func(*shard) {}, want: "make directory; make segment 0; [0,0) in 1"},
		{
			name: "C200 an empty log begins at its placed base", setup: func(*shard) {},
			policy: func(p *Policy) { p.PlacedBase = 77 }, want: "make directory; make segment 0; [77,77) in 1",
		},
		{
			name: "C201 temporaries of ours are removed", setup: func(s *shard) { s.write("epochs.tmp", []byte("x")); s.write("offload.tmp", nil) },
			want: "remove leftover epochs.tmp; remove leftover offload.tmp; make segment 0; [0,0) in 1",
		},
		{
			name: "a mark that vouches for records of a log without segments refuses", setup: func(s *shard) { s.mark(3, 8192) },
			want: "refuse 3@8192", says: "every record is missing",
		},
		{
			name: "a mark of a later segment refuses to start an empty log", setup: func(s *shard) { s.mark(1, 32) },
			want: "refuse 1@32", says: "every record is missing",
		},
		{name: "a mark that vouches for no record lets an empty log start", setup: func(s *shard) { s.mark(0, 32) }, want: "make segment 0; [0,0) in 1"},
		{name: "an intact log is clean", setup: func(s *shard) { s.sealed(3); s.mark(2, at(5)) }, want: "[0,15) in 3"},
		{name: "an intact log without a mark is clean", setup: func(s *shard) { s.sealed(3) }, want: "[0,15) in 3"},
		{name: "a damaged mark counts as none", setup: func(s *shard) { s.sealed(2); s.write(MarkName, []byte("FLSM, or so")) }, want: "[0,10) in 2"},
		{
			name: "a mark of a segment that is gone is a warning", setup: func(s *shard) { s.sealed(2); s.mark(4, 500) },
			want: "[0,10) in 2", says: "names segment 4",
		},
		{
			name: "records that end before the mark are a warning", setup: func(s *shard) { s.sealed(2); s.mark(1, at(9)) },
			want: "[0,10) in 2", says: "records are missing",
		},
		{
			name: "segments of versions 2, 3 and 4 are read", setup: func(s *shard) {
				for id, version := range []uint16{2, 3, 4} {
					b := segment.Header{Version: version, BaseOffset: uint64(id)}.AppendTo(nil)
					s.put(uint64(id), appendRecord(b, uint64(id), []byte("x")))
				}
			},
			want: "[0,3) in 3",
		},
		{name: "C217 ids need not be offsets and the first base need not be 0", setup: func(s *shard) { s.put(7, segmentBytes(900, 4)); s.put(9, segmentBytes(904, 1)) }, want: "[900,905) in 2"},
		{name: "C222 records without a payload are records", setup: func(s *shard) {
			s.put(0, appendRecord(appendRecord(headerBytes(0), 0, nil), 1, nil))
		}, want: "[0,2) in 1"},
		{name: "C223 a segment may hold one record only", setup: func(s *shard) {
			s.put(0, appendRecord(headerBytes(0), 0, make([]byte, 100_000)))
			s.put(1, segmentBytes(1, 1))
		}, want: "[0,2) in 2"},
		{name: "C224 offsets reach the end of their range", setup: func(s *shard) {
			s.put(0, segmentBytes(1<<64-4, 3))
		}, want: "[18446744073709551612,18446744073709551615) in 1"},
		{name: "C225 the largest id is an id", setup: func(s *shard) { s.put(1<<64-1, segmentBytes(0, 1)) }, want: "[0,1) in 1"},
	}
}

func blankCases() []damageCase {
	cases := []damageCase{
		{name: "C202 a newest segment of a header only is an empty active one", setup: func(s *shard) { s.put(2, headerBytes(s.sealed(2))) }, want: "[0,10) in 3"},
		{
			name:  "C202 a newest segment without records and with a base past the end is an abandoned preparation",
			setup: func(s *shard) { s.sealed(2); s.put(2, headerBytes(12)); s.mark(1, 32) }, want: "delete segment 2; [0,10) in 2",
		},
		{
			name:  "C202 a newest segment without records whose base the mark proves witnesses missing records",
			setup: func(s *shard) { s.sealed(2); s.put(2, headerBytes(12)); s.mark(2, 32) }, want: "refuse 2@0",
			says: "records are missing", cause: segment.OffsetOutOfOrder,
		},
		{
			name:  "C202 several preparations are abandoned newest first",
			setup: func(s *shard) { s.sealed(2); s.write(segment.LogName(2), nil); s.put(3, headerBytes(99)) },
			want:  "delete segment 3; delete segment 2; [0,10) in 2",
		},
		{
			name:  "C202 preparations that agree only with each other are abandoned",
			setup: func(s *shard) { s.sealed(1); s.put(1, headerBytes(9)); s.put(2, headerBytes(9)); s.mark(0, at(5)) },
			want:  "delete segment 2; delete segment 1; [0,5) in 1",
		},
		{
			name:  "C202 a preparation in front of one that fits is abandoned with it",
			setup: func(s *shard) { s.sealed(1); s.put(1, headerBytes(9)); s.put(2, headerBytes(5)) },
			want:  "delete segment 2; delete segment 1; [0,5) in 1",
		},
		{
			name:  "C202 empty segments that begin where the log ends stay",
			setup: func(s *shard) { s.sealed(1); s.put(1, headerBytes(5)); s.put(2, headerBytes(5)) },
			want:  "[0,5) in 3",
		},
		{
			name:  "C202 an empty log of one segment keeps it",
			setup: func(s *shard) { s.put(3, headerBytes(70)); s.mark(3, 32) }, want: "[70,70) in 1",
		},
		{
			name:  "C202 of empty segments only, the first says where the log stands",
			setup: func(s *shard) { s.put(3, headerBytes(70)); s.put(4, headerBytes(80)) }, want: "delete segment 4; [70,70) in 1",
		},
		{
			name: "C202 an empty newest segment stays when the one before it lost vouched bytes, and that refuses",
			setup: func(s *shard) {
				s.put(0, segmentBytes(0, 5)[:at(4)+9])
				s.put(1, headerBytes(5))
				s.mark(0, at(5))
			}, want: fmt.Sprintf("refuse 0@%d", at(4)), cause: segment.Truncated,
		},
		{
			name:  "C202 an abandoned preparation with a torn record is set aside",
			setup: func(s *shard) { s.sealed(1); s.put(1, segmentBytes(9, 1)[:60]) }, want: "set segment aside 1; [0,5) in 1",
		},
		{
			name: "C202 a zeroed newest header with records behind it, unsynced, is set aside",
			setup: func(s *shard) {
				s.sealed(1)
				s.write(segment.LogName(1), zeroed(segmentBytes(5, 2), 0, 32))
				s.mark(0, 300)
			},
			want: "set segment aside 1; [0,5) in 1",
		},
		{
			name: "C202 a zeroed newest header that the mark does not vouch for, though it names the segment, is set aside",
			setup: func(s *shard) {
				s.sealed(1)
				s.write(segment.LogName(1), zeroed(segmentBytes(5, 2), 0, 32))
				s.mark(1, 0)
			},
			want: "set segment aside 1; [0,5) in 1",
		},
		{
			name: "C202 a zeroed newest header that the mark vouches for refuses",
			setup: func(s *shard) {
				s.sealed(1)
				s.write(segment.LogName(1), zeroed(segmentBytes(5, 2), 0, 32))
				s.mark(1, 32)
			},
			want: "refuse 1@0", cause: segment.SegmentMagic, says: "reads as zeros",
		},
		{
			name:  "C202 a zeroed newest header with records behind it refuses without a mark",
			setup: func(s *shard) { s.sealed(1); s.write(segment.LogName(1), zeroed(segmentBytes(5, 2), 0, 32)) },
			want:  "refuse 1@0", cause: segment.SegmentMagic, says: "reads as zeros",
		},
		{
			name:  "C202 a zeroed newest segment refuses below the mark",
			setup: func(s *shard) { s.sealed(1); s.write(segment.LogName(1), make([]byte, 400)); s.mark(1, 400) },
			want:  "refuse 1@0", cause: segment.SegmentMagic,
		},
		{
			name:  "C202 a newest segment of zeros only holds no record",
			setup: func(s *shard) { s.sealed(1); s.write(segment.LogName(1), make([]byte, 400)) }, want: "delete segment 1; [0,5) in 1",
		},
		{
			name:  "C204 a blank newest segment refuses when the mark vouches for records in it",
			setup: func(s *shard) { s.sealed(1); s.write(segment.LogName(1), nil); s.mark(1, 300) },
			want:  "refuse 1@0", cause: segment.Truncated,
		},
		{
			name:  "C203 a blank only segment lets the log start at its placed base",
			setup: func(s *shard) { s.write(segment.LogName(0), make([]byte, 32)); s.mark(0, 32) }, policy: func(p *Policy) { p.PlacedBase = 5 },
			want: "delete segment 0; make segment 0; [5,5) in 1",
		},
		{
			name: "C204 an index is no evidence for a blank only segment", setup: func(s *shard) {
				s.write(segment.LogName(0), nil)
				s.write(segment.IndexName(0), indexOf(segmentBytes(0, 9), spacing))
			}, want: "delete segment 0; make segment 0; [0,0) in 1",
		},
		{
			name:  "C204 a blank only segment refuses when the mark vouches for records",
			setup: func(s *shard) { s.write(segment.LogName(0), nil); s.mark(0, 300) }, want: "refuse 0@0", cause: segment.Truncated,
		},
		{
			name:  "C203 a blank only segment with another id refuses",
			setup: func(s *shard) { s.write(segment.LogName(4), nil) }, want: "refuse 4@0", cause: segment.Truncated,
		},
		{
			name:  "C203 an only segment longer than a header and all zeros refuses",
			setup: func(s *shard) { s.write(segment.LogName(0), make([]byte, 33)) }, want: "refuse 0@0", cause: segment.SegmentMagic,
		},
		{
			name: "a blank file between segments that follow each other is deleted", setup: func(s *shard) {
				s.put(0, segmentBytes(0, 5))
				s.write(segment.LogName(1), nil)
				s.write(segment.LogName(2), make([]byte, 31))
				s.put(3, segmentBytes(5, 5))
				s.put(4, segmentBytes(10, 1))
			}, want: "delete segment 2; delete segment 1; [0,11) in 3",
		},
		{
			name: "a blank file in a gap refuses", setup: func(s *shard) {
				s.put(0, segmentBytes(0, 5))
				s.write(segment.LogName(1), nil)
				s.put(2, segmentBytes(6, 5))
			}, want: "refuse 1@0", cause: segment.Truncated,
		},
		{
			name: "a blank first file of several refuses", setup: func(s *shard) {
				s.write(segment.LogName(0), nil)
				s.put(1, segmentBytes(0, 5))
			}, want: "refuse 0@0", cause: segment.Truncated,
		},
	}
	for _, n := range []int{0, 1, 31, 32} {
		cases = append(cases, damageCase{
			name:  fmt.Sprintf("C202 a newest segment of %d zero bytes is deleted", n),
			setup: func(s *shard) { s.sealed(2); s.write(segment.LogName(2), make([]byte, n)); s.mark(1, at(5)) },
			want:  "delete segment 2; [0,10) in 2",
		})
	}
	for i := range 28 {
		cause := segment.SegmentHeaderChecksum
		switch {
		case i < 4:
			cause = segment.SegmentMagic
		case i < 6:
			cause = segment.SegmentVersion
		case i < 8:
			cause = segment.SegmentFlags
		}
		for id := range uint64(3) {
			cases = append(cases, damageCase{
				name:  fmt.Sprintf("C205 byte %d of the header of segment %d flipped refuses", i, id),
				setup: func(s *shard) { s.sealed(3); s.write(segment.LogName(id), flip(segmentBytes(id*5, 5), i)) },
				want:  fmt.Sprintf("refuse %d@0", id), cause: cause,
			})
		}
	}
	return cases
}

// zeroed zeroes [from, to).
func zeroed(b []byte, from, to int) []byte {
	b = bytes.Clone(b)
	clear(b[from:to])
	return b
}
