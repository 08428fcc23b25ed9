package recovery

import (
	"bytes"
	"fmt"
	"os"

	"felix.local/felix/segment"
	"felix.local/felix/sidecar"
)

// copyOf is the entry of the segment of five records that sealed makes for an id.
func copyOf(id uint64) sidecar.OffloadedCopy {
	return sidecar.OffloadedCopy{
		Segment: id, First: id * 5, Last: id*5 + 4, Size: uint64(at(5)), Key: "node/shard/" + segment.LogName(id),
	}
}

// manifest writes the entries as they stand.
func (s *shard) manifest(copies ...sidecar.OffloadedCopy) {
	s.t.Helper()
	var o sidecar.Offload
	for _, c := range copies {
		s.must(o.Add(c))
	}
	s.write(sidecar.OffloadName, o.AppendTo(nil))
}

// without puts n segments of five records and takes the files of some away.
func (s *shard) without(n int, missing ...uint64) {
	s.t.Helper()
	s.sealed(n)
	for _, id := range missing {
		s.remove(segment.LogName(id))
		s.remove(segment.IndexName(id))
	}
}

// offloadCases have a manifest. A gap is none when all of it, and every segment in
// front of it, has a copy.
func offloadCases() []damageCase {
	copies := func(ids ...uint64) (out []sidecar.OffloadedCopy) {
		for _, id := range ids {
			out = append(out, copyOf(id))
		}
		return out
	}
	gap := func(change func(s *shard, o []sidecar.OffloadedCopy) []sidecar.OffloadedCopy) func(*shard) {
		return func(s *shard) {
			s.without(5, 2)
			s.mark(4, at(5))
			s.manifest(change(s, copies(0, 1, 2))...)
		}
	}
	whole := sidecar.Offload{}.AppendTo(nil)
	return []damageCase{
		{name: "a manifest alone changes nothing", setup: func(s *shard) { s.sealed(3); s.manifest(copies(0, 1)...) }, want: "[0,15) in 3"},
		{name: "an empty manifest is one", setup: func(s *shard) { s.sealed(3); s.manifest() }, want: "[0,15) in 3"},
		{name: "a log may begin behind its copies", setup: func(s *shard) { s.without(4, 0, 1); s.manifest(copies(0, 1)...) }, want: "[10,20) in 2"},
		{
			name:  "a gap that is copied, with all in front of it, is where the log begins",
			setup: gap(func(_ *shard, o []sidecar.OffloadedCopy) []sidecar.OffloadedCopy { return o }),
			want:  "delete copied segment 0; delete copied segment 1; [15,25) in 2", says: "the object store has a copy",
		},
		{
			name: "a gap may be several copies", setup: func(s *shard) {
				s.without(5, 1, 2)
				s.manifest(copies(0, 1, 2)...)
			}, want: "delete copied segment 0; [15,25) in 2",
		},
		{
			name: "the last of two gaps is where the log begins", setup: func(s *shard) {
				s.without(6, 1, 3)
				s.manifest(copies(0, 1, 2, 3)...)
			}, want: "delete copied segment 0; delete copied segment 2; [20,30) in 2",
		},
		{
			name: "a gap in front of the active segment may be copied", setup: func(s *shard) {
				s.without(3, 1)
				s.manifest(copies(0, 1)...)
			}, want: "delete copied segment 0; [10,15) in 1",
		},
		{
			name: "a torn tail behind a gap that is copied is cut", setup: func(s *shard) {
				s.without(3, 1)
				s.write(segment.LogName(2), segmentBytes(10, 5)[:at(4)+9])
				s.manifest(copies(0, 1)...)
			}, want: "delete copied segment 0; cut tail 2@" + fmt.Sprint(at(4)) + "; refresh index 2; [10,14) in 1",
		},
		{
			name: "an offset of the gap without a copy refuses",
			setup: gap(func(_ *shard, o []sidecar.OffloadedCopy) []sidecar.OffloadedCopy {
				o[2].Last--
				return o
			}), want: "refuse 3@0", cause: segment.OffsetOutOfOrder,
		},
		{
			name:  "a segment in front of the gap without a copy refuses",
			setup: gap(func(_ *shard, o []sidecar.OffloadedCopy) []sidecar.OffloadedCopy { return o[1:] }),
			want:  "refuse 3@0", cause: segment.OffsetOutOfOrder,
		},
		{
			name: "a segment in front of the gap that is longer than its copy refuses",
			setup: gap(func(_ *shard, o []sidecar.OffloadedCopy) []sidecar.OffloadedCopy {
				o[1].Size--
				return o
			}), want: "refuse 3@0", cause: segment.OffsetOutOfOrder,
		},
		{
			name: "a copy of another segment in front of the gap refuses",
			setup: gap(func(_ *shard, o []sidecar.OffloadedCopy) []sidecar.OffloadedCopy {
				o[1].Segment = 7
				return o
			}), want: "refuse 3@0", cause: segment.OffsetOutOfOrder,
		},
		{
			name: "a damaged segment in front of a gap refuses, whatever is copied",
			setup: gap(func(s *shard, o []sidecar.OffloadedCopy) []sidecar.OffloadedCopy {
				s.write(segment.LogName(1), flip(segmentBytes(5, 5), at(4)+40))
				return o
			}), want: "refuse 1@" + fmt.Sprint(at(4)), cause: segment.RecordChecksum,
		},
		{
			name: "a gap that is copied does not excuse one that is not", setup: func(s *shard) {
				s.without(6, 1, 3)
				s.manifest(copies(0, 1, 2)...)
			}, want: "refuse 4@0", cause: segment.OffsetOutOfOrder,
		},
		{
			name: "an overlap refuses, whatever is copied", setup: func(s *shard) {
				s.put(0, segmentBytes(0, 5))
				s.put(1, segmentBytes(3, 5))
				s.manifest(copies(0, 1)...)
			}, want: "refuse 1@0", cause: segment.OffsetOutOfOrder,
		},
		{
			name: "copies past the tail are told", setup: func(s *shard) { s.sealed(2); s.manifest(copies(0, 1, 2)...) },
			want: "[0,10) in 2", says: "names a copy of segment 2, offsets 10 to 14, and the log ends at 10",
		},
		{
			name: "copies of a log without segments are told", setup: func(s *shard) { s.manifest(copies(0)...) },
			want: "make segment 0; [0,0) in 1", says: "and the log ends at 0",
		},
		{name: "a damaged manifest refuses", setup: func(s *shard) { s.sealed(3); s.write(sidecar.OffloadName, flip(whole, 12)) }, want: "refuse 0@0", says: "offload.manifest: wrong checksum"},
		{name: "an empty file for a manifest refuses", setup: func(s *shard) { s.sealed(3); s.write(sidecar.OffloadName, nil) }, want: "refuse 0@0", says: "offload.manifest: too short"},
		{
			name: "a manifest of a later version refuses", setup: func(s *shard) {
				s.sealed(3)
				s.write(sidecar.OffloadName, append([]byte("FLOF\x00\x02"), bytes.Repeat([]byte{1}, 90)...))
			}, want: "refuse 0@0", says: "open the log with the build that wrote it",
		},
		{
			name: "a damaged manifest of a log without segments refuses", setup: func(s *shard) { s.write(sidecar.OffloadName, []byte("FLOF")) },
			want: "refuse 0@0", says: "too short",
		},
		{
			name: "a damaged manifest refuses before anything is repaired", setup: func(s *shard) {
				s.write(segment.LogName(0), segmentBytes(0, 5)[:at(4)+9])
				s.write("epochs.tmp", nil)
				s.write(sidecar.OffloadName, whole[:9])
			}, want: "refuse 0@0",
		},
		{
			name: "a temporary of a manifest is never read", setup: func(s *shard) {
				s.sealed(1)
				s.must(os.WriteFile(s.path("offload.tmp"), []byte("FLOF"), 0o640))
			}, want: "remove leftover offload.tmp; [0,5) in 1",
		},
	}
}
