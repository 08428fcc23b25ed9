package recovery

import (
	"bytes"
	"fmt"
	"os"

	"felix.local/felix/segment"
)

func sealedCases() []damageCase {
	return []damageCase{
		{
			name: "damage behind the last index entry of a sealed segment refuses", setup: func(s *shard) {
				s.sealed(3)
				s.write(segment.LogName(1), flip(segmentBytes(5, 5), at(4)+40))
			}, want: fmt.Sprintf("refuse 1@%d", at(4)), cause: segment.RecordChecksum, says: "sealed segment",
		},
		{
			name: "a short sealed segment refuses", setup: func(s *shard) { s.sealed(3); s.write(segment.LogName(1), segmentBytes(5, 5)[:at(5)-3]) },
			want: fmt.Sprintf("refuse 1@%d", at(4)), cause: segment.Truncated,
		},
		{
			name: "zeros behind a sealed segment refuse", setup: func(s *shard) {
				s.sealed(3)
				s.write(segment.LogName(0), append(segmentBytes(0, 5), make([]byte, 4096)...))
			},
			want: fmt.Sprintf("refuse 0@%d", at(5)), cause: segment.RecordHeaderChecksum,
		},
		{
			name: "every damaged segment is named", setup: func(s *shard) {
				s.sealed(4)
				s.write(segment.LogName(0), flip(segmentBytes(0, 5), at(4)+40))
				s.write(segment.LogName(2), flip(segmentBytes(10, 5), 9))
			}, want: fmt.Sprintf("refuse 0@%d; refuse 2@0", at(4)), cause: segment.RecordChecksum,
		},
		{
			name: "damage in front of the last index entry waits for a reader", setup: func(s *shard) {
				s.sealed(2)
				s.write(segment.LogName(0), flip(segmentBytes(0, 5), at(1)+40))
				s.unread = true
			}, want: "[0,10) in 2",
		},
		{
			name: "damage in front of the last index entry refuses when everything is verified", setup: func(s *shard) {
				s.sealed(2)
				s.write(segment.LogName(0), flip(segmentBytes(0, 5), at(1)+40))
			}, policy: func(p *Policy) { p.VerifyAllOnOpen = true },
			want: fmt.Sprintf("refuse 0@%d", at(1)), cause: segment.RecordChecksum,
		},
		{
			name: "C215 two segments with the same base that both hold records refuse", setup: func(s *shard) { s.put(0, segmentBytes(0, 5)); s.put(1, segmentBytes(0, 5)) },
			want: "refuse 1@0", cause: segment.OffsetOutOfOrder, says: segment.LogName(0),
		},
		{
			name: "C215 a newest segment without records and with the base of the one before is deleted", setup: func(s *shard) { s.put(0, segmentBytes(0, 5)); s.put(1, headerBytes(0)) },
			want: "delete segment 1; [0,5) in 1",
		},
		{
			name: "C215 an empty sealed segment is part of the chain", setup: func(s *shard) {
				s.put(0, segmentBytes(0, 5))
				s.put(1, headerBytes(5))
				s.put(2, segmentBytes(5, 1))
			}, want: "[0,6) in 3",
		},
		{
			name: "C216 a gap refuses", setup: func(s *shard) {
				s.sealed(4)
				s.remove(segment.LogName(1))
				s.remove(segment.IndexName(1))
				s.mark(3, at(5))
			},
			want: "refuse 2@0", cause: segment.OffsetOutOfOrder, says: "records are missing between the two",
		},
		{
			name: "C216 a gap in front of the newest segment refuses without a mark", setup: func(s *shard) { s.sealed(3); s.remove(segment.LogName(1)); s.remove(segment.IndexName(1)) },
			want: "refuse 2@0", cause: segment.OffsetOutOfOrder,
		},
		{
			name: "C216 a gap in front of the newest segment refuses when the mark vouches for what is missing",
			setup: func(s *shard) {
				s.sealed(3)
				s.remove(segment.LogName(1))
				s.remove(segment.IndexName(1))
				s.mark(2, at(5))
			},
			want: "refuse 2@0", cause: segment.OffsetOutOfOrder,
		},
		{
			name: "C216 an overlap refuses", setup: func(s *shard) { s.put(0, segmentBytes(0, 5)); s.put(1, segmentBytes(3, 5)); s.mark(0, at(3)) },
			want: "refuse 1@0", cause: segment.OffsetOutOfOrder, says: "overlap",
		},
	}
}

// indexCases damage indexes; C212 and C213 call for a rebuild.
func indexCases() []damageCase {
	b := segmentBytes(0, 20)
	good := indexOf(b, spacing)
	entry := func(offset uint64, position int64) []byte {
		return segment.AppendIndexEntry(bytes.Clone(good), segment.IndexEntry{Offset: offset, Position: position})
	}
	damaged := []struct {
		name  string
		index []byte
	}{
		{"C212 of 0 bytes", []byte{}},
		{"C212 of a header only", good[:segment.IndexHeaderSize]},
		{"C212 with a torn last entry", good[:len(good)-5]},
		{"C212 with entries of zeros", append(bytes.Clone(good), make([]byte, 32)...)},
		{"C212 with another magic", flip(good, 1)},
		{"C212 of another base", indexOf(segmentBytes(1, 20), spacing)},
		{"C212 that descends at the end", append(bytes.Clone(good), good[segment.IndexHeaderSize:segment.IndexHeaderSize+16]...)[:len(good)]},
		{"C213 with an entry beyond the end", entry(30, int64(len(b))+68)},
		{"C213 with an entry at the end", entry(20, int64(len(b)))},
		{"C213 with an entry inside the header", entry(30, 16)},
		{"C213 with an entry inside a record", entry(19, int64(at(19))+4)},
		{"C213 with the right offset and a wrong position", entry(19, int64(at(18)))},
		{"C213 with a negative position", entry(19, -1)},
	}
	// The entry that descends replaces the true last one.
	damaged[6].index = append(bytes.Clone(good[:len(good)-16]), segment.AppendIndexEntry(nil, segment.IndexEntry{Offset: 3, Position: int64(at(4))})...)
	var cases []damageCase
	for _, d := range damaged {
		cases = append(cases, damageCase{
			name: "a sealed index " + d.name + " is rebuilt",
			setup: func(s *shard) {
				s.put(0, b)
				s.put(1, segmentBytes(20, 1))
				s.write(segment.IndexName(0), d.index)
			},
			want: "rebuild index 0; [0,21) in 2",
		}, damageCase{
			name:  "an active index " + d.name + " is written anew",
			setup: func(s *shard) { s.put(0, b); s.write(segment.IndexName(0), d.index) },
			want:  "refresh index 0; [0,20) in 1",
		})
	}
	return append(cases, damageCase{
		name: "C212 a missing sealed index is rebuilt", setup: func(s *shard) { s.sealed(2); s.remove(segment.IndexName(0)) },
		want: "rebuild index 0; [0,10) in 2",
	}, damageCase{
		name: "C212 a missing active index is written anew", setup: func(s *shard) { s.sealed(2); s.remove(segment.IndexName(1)) },
		want: "refresh index 1; [0,10) in 2",
	}, damageCase{
		name: "C214 an index without a segment is removed", setup: func(s *shard) { s.sealed(1); s.write(segment.IndexName(9), good) },
		want: "remove orphan index 9; [0,5) in 1",
	}, damageCase{
		name: "C214 an index alone makes no segment of its own", setup: func(s *shard) { s.write(segment.IndexName(3), good) },
		want: "remove orphan index 3; make segment 0; [0,0) in 1",
	}, damageCase{
		name: "an index of another spacing stays while its segment is sealed", setup: func(s *shard) {
			s.put(0, b)
			s.put(1, segmentBytes(20, 1))
			s.write(segment.IndexName(0), indexOf(b, 700))
		}, want: "[0,21) in 2",
	}, damageCase{
		name: "an unsorted index whose end is right waits for a reader, who drops what does not ascend", setup: func(s *shard) {
			s.put(0, b)
			s.put(1, segmentBytes(20, 1))
			s.write(segment.IndexName(0), flip(good, segment.IndexHeaderSize+16+7))
		}, want: "[0,21) in 2",
	}, damageCase{
		name: "an unsorted index is rebuilt when everything is verified", setup: func(s *shard) {
			s.put(0, b)
			s.put(1, segmentBytes(20, 1))
			s.write(segment.IndexName(0), flip(good, segment.IndexHeaderSize+16+7))
		}, policy: func(p *Policy) { p.VerifyAllOnOpen = true },
		want: "rebuild index 0; [0,21) in 2",
	})
}

// retiredCases lose the end of a segment that a background roll had retired.
func retiredCases() []damageCase {
	five := segmentBytes(0, 5)
	put := func(retired, active []byte, markSegment uint64, mark int) func(*shard) {
		return func(s *shard) {
			s.put(0, retired)
			s.put(1, active)
			if mark > 0 {
				s.mark(markSegment, mark)
			}
		}
	}
	torn := five[:at(4)+20]
	return []damageCase{
		{name: "a torn retired segment is cut and what follows is set aside", setup: put(torn, segmentBytes(5, 2), 0, at(2)), want: fmt.Sprintf("set segment aside 1 dropping 2; cut tail 0@%d; [0,4) in 1", at(4))},
		{name: "a retired segment short by whole records is kept and what follows is set aside", setup: put(five[:at(4)], segmentBytes(5, 2), 0, at(2)), want: "set segment aside 1 dropping 2; [0,4) in 1"},
		{name: "a retired segment with zeros past the mark is cut", setup: put(zeroed(five, at(3), len(five)), segmentBytes(5, 1), 0, at(3)), want: fmt.Sprintf("set segment aside 1 dropping 1; cut tail 0@%d; [0,3) in 1", at(3))},
		{name: "what follows stays when the cut leaves the retired segment ending where it begins", setup: put(append(bytes.Clone(five), 1, 2, 3), segmentBytes(5, 2), 0, at(2)), want: fmt.Sprintf("cut tail 0@%d; [0,7) in 2", at(5))},
		{name: "an empty segment behind a torn retired one is deleted", setup: put(torn, headerBytes(5), 0, at(2)), want: fmt.Sprintf("delete segment 1; cut tail 0@%d; [0,4) in 1", at(4))},
		{name: "a torn segment below the mark is no retired one", setup: put(torn, segmentBytes(5, 2), 0, len(five)), want: fmt.Sprintf("refuse 0@%d", at(4)), cause: segment.Truncated},
		{name: "a torn segment below a later mark is no retired one", setup: put(torn, segmentBytes(5, 2), 1, 32), want: fmt.Sprintf("refuse 0@%d", at(4)), cause: segment.Truncated},
		{name: "a torn sealed segment refuses without a mark", setup: put(torn, segmentBytes(5, 2), 0, 0), want: fmt.Sprintf("refuse 0@%d", at(4)), cause: segment.Truncated},
		{name: "a segment short by whole records below the mark refuses", setup: put(five[:at(4)], segmentBytes(5, 2), 0, len(five)), want: "refuse 1@0", cause: segment.OffsetOutOfOrder},
		{name: "rot in a retired segment below the mark refuses", setup: put(flip(five, at(4)+40), segmentBytes(5, 2), 0, len(five)), want: fmt.Sprintf("refuse 0@%d", at(4)), cause: segment.RecordChecksum},
		{
			name: "a hole in a retired segment past the mark is found although its index leads to the end",
			setup: func(s *shard) {
				s.put(0, segmentBytes(0, 9))
				s.write(segment.LogName(0), zeroed(segmentBytes(0, 9), at(3), at(4)))
				s.put(1, segmentBytes(9, 2))
				s.mark(0, at(2))
			}, want: fmt.Sprintf("set segment aside 1 dropping 2; cut tail 0@%d dropping 5; refresh index 0; [0,3) in 1", at(3)),
		},
		{
			name: "an empty segment behind a retired one with a hole past the mark is deleted",
			setup: func(s *shard) {
				s.put(0, segmentBytes(0, 9))
				s.write(segment.LogName(0), zeroed(segmentBytes(0, 9), at(3), at(4)))
				s.put(1, headerBytes(9))
				s.mark(0, at(2))
			}, want: fmt.Sprintf("delete segment 1; cut tail 0@%d dropping 5; refresh index 0; [0,3) in 1", at(3)),
		},
		{
			name: "a hole in a retired segment below the mark refuses",
			setup: func(s *shard) {
				s.put(0, segmentBytes(0, 9))
				s.write(segment.LogName(0), zeroed(segmentBytes(0, 9), at(3), at(4)))
				s.put(1, segmentBytes(9, 2))
				s.mark(0, at(8))
			}, want: fmt.Sprintf("refuse 0@%d", at(3)), cause: segment.RecordHeaderChecksum,
		},
		{
			name: "a damaged tail behind a torn retired segment goes with its file", setup: put(torn, flip(segmentBytes(5, 2), at(1)+40), 0, at(2)),
			want: fmt.Sprintf("set segment aside 1 dropping 1; cut tail 0@%d; [0,4) in 1", at(4)),
		},
		{
			name: "an older segment's damage is not excused by the repair", setup: func(s *shard) {
				s.put(0, flip(five, at(4)+40))
				s.put(1, segmentBytes(5, 5)[:at(4)+20])
				s.put(2, segmentBytes(10, 1))
				s.mark(1, at(1))
			}, want: fmt.Sprintf("refuse 0@%d; refuse 1@%d", at(4), at(4)), cause: segment.RecordChecksum,
		},
	}
}

// retiredBlankCases lose the header of a segment that a background roll had opened
// and another one retired before any flush.
func retiredBlankCases() []damageCase {
	put := func(retired, active []byte, mark ...int) func(*shard) {
		return func(s *shard) {
			s.sealed(1)
			s.write(segment.LogName(1), retired)
			s.put(2, active)
			if len(mark) > 0 {
				s.mark(uint64(mark[0]), mark[1])
			}
		}
	}
	active := segmentBytes(10, 2)
	const setAside, dropped = "set segment aside 2 dropping 2; ", "delete segment 1; [0,5) in 1"
	var cases []damageCase
	for _, blank := range []struct {
		name, end string
		retired   []byte
		cause     segment.CorruptionKind
	}{
		{"that is empty", dropped, nil, segment.Truncated},
		{"shorter than a header", dropped, make([]byte, 31), segment.Truncated},
		{"of a header of zeros", dropped, make([]byte, 32), segment.SegmentMagic},
		{"of zeros only", dropped, make([]byte, 300), segment.SegmentMagic},
		{"with a zeroed header", "set segment aside 1; [0,5) in 1", zeroed(segmentBytes(5, 5), 0, 32), segment.SegmentMagic},
	} {
		name := "a retired segment " + blank.name
		cases = append(cases, damageCase{
			name:  name + " goes with what follows when the mark vouches for nothing in it",
			setup: put(blank.retired, active, 1, 0), want: setAside + blank.end,
		}, damageCase{
			name:  name + " goes with what follows when the mark stayed before it",
			setup: put(blank.retired, active, 0, at(5)), want: setAside + blank.end,
		}, damageCase{
			name:  name + " goes with an empty active one",
			setup: put(blank.retired, headerBytes(10), 1, 0), want: "delete segment 2; " + blank.end,
		}, damageCase{
			name:  name + " refuses when the mark vouches for its header",
			setup: put(blank.retired, active, 1, 32), want: "refuse 1@0", cause: blank.cause,
		}, damageCase{
			name:  name + " refuses below a later mark",
			setup: put(blank.retired, active, 2, 0), want: "refuse 1@0", cause: blank.cause,
		}, damageCase{
			name:  name + " refuses without a mark",
			setup: put(blank.retired, active), want: "refuse 1@0", cause: blank.cause,
		})
	}
	return append(cases, damageCase{
		name:  "a blank retired segment takes a damaged active one with it",
		setup: put(nil, flip(active, at(1)+40), 1, 0), want: "set segment aside 2 dropping 1; " + dropped,
	}, damageCase{
		name:  "a blank retired segment and a blank active one go",
		setup: put(zeroed(segmentBytes(5, 5), 0, 32), zeroed(active, 0, 32), 1, 0),
		want:  "set segment aside 2; set segment aside 1; [0,5) in 1",
	}, damageCase{
		name:  "a blank retired segment does not excuse a damaged header behind it",
		setup: put(nil, flip(active, 9), 1, 0), want: "refuse 1@0; refuse 2@0", cause: segment.Truncated,
	}, damageCase{
		name: "a blank retired segment does not excuse damage in front of it", setup: func(s *shard) {
			put(nil, active, 1, 0)(s)
			s.write(segment.LogName(0), flip(segmentBytes(0, 5), at(4)+40))
		}, want: fmt.Sprintf("refuse 0@%d; refuse 1@0", at(4)), cause: segment.RecordChecksum,
	}, damageCase{
		name: "a blank retired segment does not excuse damage before the last index entry in front of it", setup: func(s *shard) {
			put(nil, active, 1, 0)(s)
			s.write(segment.LogName(0), flip(segmentBytes(0, 5), at(1)+40))
		}, want: fmt.Sprintf("refuse 0@%d; refuse 1@0", at(1)), cause: segment.RecordChecksum,
	}, damageCase{
		name: "a blank first segment in front of an active one refuses: nothing says where the log began", setup: func(s *shard) {
			s.write(segment.LogName(1), nil)
			s.put(2, active)
			s.mark(1, 0)
		}, want: "refuse 1@0", cause: segment.Truncated,
	})
}

func nameCases() []damageCase {
	return []damageCase{
		{name: "C218 foreign names are left alone", setup: func(s *shard) {
			s.sealed(1)
			s.must(os.Mkdir(s.path("lost+found"), 0o700))
			for _, name := range []string{
				".nfs0001", segment.LogName(0) + ".gz", "1.log", "0000000000000000000.log", "000000000000000000000.log",
				"0000000000000000000A.log", "00000000000000000001.LOG", "00000000000000000001.log.torn-x",
			} {
				s.write(name, []byte("not ours"))
			}
		}, want: "[0,5) in 1", says: "left alone: lost+found"},
		{name: "sidecars of the layers above are left alone", setup: func(s *shard) {
			s.sealed(1)
			for _, name := range sidecarNames() {
				s.write(name, []byte("theirs"))
			}
			s.manifest()
		}, want: "[0,5) in 1"},
		{name: "a temporary's name on a directory is not ours", setup: func(s *shard) {
			s.sealed(1)
			s.must(os.Mkdir(s.path("epochs.tmp"), 0o700))
		}, want: "[0,5) in 1", says: "left alone: epochs.tmp"},
		{name: "side copies beyond the bound are pruned, oldest first", setup: func(s *shard) {
			s.sealed(1)
			for i := range uint64(10) {
				s.write(sideCopyName(9-i, 100+i), []byte("old"))
			}
		}, want: "prune side copy " + sideCopyName(9, 100) + "; prune side copy " + sideCopyName(8, 101) + "; [0,5) in 1"},
		{name: "a new side copy counts for the bound", setup: func(s *shard) {
			s.put(0, segmentBytes(0, 2)[:at(1)+7])
			for i := range uint64(8) {
				s.write(sideCopyName(0, 100+i), []byte("old"))
			}
		}, want: fmt.Sprintf("cut tail 0@%d; prune side copy %s; [0,1) in 1", at(1), sideCopyName(0, 100))},
		{name: "the name of a new side copy is not one that is taken", setup: func(s *shard) {
			s.put(0, segmentBytes(0, 2)[:at(1)+7])
			s.write(sideCopyName(0, testPolicy().NowMicros()), []byte("earlier"))
		}, want: fmt.Sprintf("cut tail 0@%d; [0,1) in 1", at(1))},
	}
}
