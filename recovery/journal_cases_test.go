package recovery

import (
	"bytes"
	"slices"

	"felix.local/felix/journal"
	"felix.local/felix/segment"
)

// journalCase is a root with a journal, and what a replay makes of it.
type journalCase struct {
	name  string
	setup func(*journaled)
	// refuses is a part of the refusal; else want is what the segments hold after
	// the replay, by name below the root, and marks what the marks say.
	refuses string
	want    map[string][]byte
	marks   map[string]Mark
	// written is the number of bytes that go into segments.
	written int
	// opened says that opening the shard afterwards has something to cut.
	opened bool
}

const logA, logA1, logB = shardA + "/00000000000000000000.log", shardA + "/00000000000000000001.log", shardB + "/00000000000000000000.log"

// ten is a segment of ten records, other the same offsets with other payloads.
func ten() []byte { return segmentBytes(0, 10) }

func other() []byte {
	b := headerBytes(0)
	for offset := range uint64(10) {
		b = appendRecord(b, offset, bytes.Repeat([]byte{'o'}, 40))
	}
	return b
}

// holding is a segment of which the first n records are there and then rest.
func holding(n int, rest ...byte) []byte { return append(bytes.Clone(ten()[:at(n)]), rest...) }

func journalCases() []journalCase {
	return slices.Concat(appliedCases(), lagCases(), tailJournalCases(), fenceCases(), chainJournalCases(), markCases(), refusedCases(), brokenJournalCases())
}

func appliedCases() []journalCase {
	whole := map[string][]byte{logA: ten()}
	mark := map[string]Mark{shardA: {0, int64(at(10))}}
	return []journalCase{
		{
			name: "an entry is applied", want: whole, marks: mark, written: 3 * recordBytes,
			setup: func(j *journaled) {
				j.segment(shardA, 0, holding(7))
				j.mark(shardA, 0, at(4))
				j.frame(0, 1, 1, records(shardA, 0, ten(), 7, 10))
			},
		},
		{
			name: "entries of several frames and files are applied in their order", want: whole, marks: mark, written: 6 * recordBytes,
			setup: func(j *journaled) {
				j.segment(shardA, 0, holding(4))
				j.mark(shardA, 0, at(4))
				j.frame(1, 1, 1, records(shardA, 0, ten(), 4, 6))
				j.frame(1, 2, 1, records(shardA, 0, ten(), 6, 7), records(shardA, 0, ten(), 7, 8))
				j.frame(0, 3, 1, records(shardA, 0, ten(), 8, 10))
			},
		},
		{
			name: "a segment of which nothing but the header is there is filled", want: whole, marks: mark, written: 10 * recordBytes,
			setup: func(j *journaled) {
				j.segment(shardA, 0, headerBytes(0))
				j.frame(0, 1, 1, records(shardA, 0, ten(), 0, 10))
			},
		},
		{
			name: "equal bytes that are there already stay", want: whole, marks: mark,
			setup: func(j *journaled) {
				j.segment(shardA, 0, ten())
				j.mark(shardA, 0, at(2))
				j.frame(0, 1, 1, records(shardA, 0, ten(), 2, 8))
				j.frame(0, 2, 1, records(shardA, 0, ten(), 8, 10))
			},
		},
		{
			name: "an entry of which a part is there is completed", want: whole, marks: mark, written: 2 * recordBytes,
			setup: func(j *journaled) {
				j.segment(shardA, 0, holding(8))
				j.frame(0, 1, 1, records(shardA, 0, ten(), 5, 10))
			},
		},
		{
			name: "records that went past the journal lie between two entries", want: whole, marks: mark, written: 2 * recordBytes,
			setup: func(j *journaled) {
				j.segment(shardA, 0, holding(8))
				j.frame(0, 1, 1, records(shardA, 0, ten(), 2, 4))
				j.frame(0, 2, 1, records(shardA, 0, ten(), 8, 10))
			},
		},
		{
			name: "several shards", written: 5 * recordBytes,
			want:  map[string][]byte{logA: ten(), logB: ten()},
			marks: map[string]Mark{shardA: {0, int64(at(10))}, shardB: {0, int64(at(10))}},
			setup: func(j *journaled) {
				j.segment(shardA, 0, holding(7))
				j.segment(shardB, 0, holding(8))
				j.frame(0, 1, 1, records(shardA, 0, ten(), 7, 9), records(shardB, 0, ten(), 8, 9))
				j.frame(0, 2, 1, records(shardB, 0, ten(), 9, 10), records(shardA, 0, ten(), 9, 10))
			},
		},
		{
			name: "a log that rolled within the journal", written: 3 * recordBytes,
			want:  map[string][]byte{logA: ten(), logA1: segmentBytes(10, 3)},
			marks: map[string]Mark{shardA: {1, int64(at(3))}},
			setup: func(j *journaled) {
				j.segment(shardA, 0, ten())
				j.segment(shardA, 1, segmentBytes(10, 0))
				j.mark(shardA, 0, at(2))
				j.frame(0, 1, 1, records(shardA, 0, ten(), 7, 10))
				j.frame(0, 2, 1, records(shardA, 1, segmentBytes(10, 3), 0, 3))
			},
		},
		{
			name:  "a log that rolled since",
			want:  map[string][]byte{logA: ten(), logA1: segmentBytes(10, 3)},
			marks: map[string]Mark{shardA: {1, int64(at(2))}},
			setup: func(j *journaled) {
				j.segment(shardA, 0, ten())
				j.segment(shardA, 1, segmentBytes(10, 3))
				j.mark(shardA, 1, at(2))
				j.frame(0, 1, 1, records(shardA, 0, ten(), 7, 10))
			},
		},
		{
			name: "a journal that holds nothing", want: map[string][]byte{logA: ten()},
			setup: func(j *journaled) { j.segment(shardA, 0, ten()); j.frame(0, 1, 1) },
		},
		{
			name: "a journal that never held a frame", want: map[string][]byte{logA: ten()},
			setup: func(j *journaled) { j.segment(shardA, 0, ten()) },
		},
	}
}

// lagCases are what unfinished lagging writes leave.
func lagCases() []journalCase {
	lagging := func(name string, left func() []byte) journalCase {
		return journalCase{
			name: name, written: 7 * recordBytes,
			want: map[string][]byte{logA: ten()}, marks: map[string]Mark{shardA: {0, int64(at(10))}},
			setup: func(j *journaled) {
				j.segment(shardA, 0, left())
				j.mark(shardA, 0, at(3))
				j.frame(0, 1, 1, records(shardA, 0, ten(), 3, 6))
				j.frame(0, 2, 1, records(shardA, 0, ten(), 6, 10))
			},
		}
	}
	return []journalCase{
		lagging("nothing of the lagging writes is there", func() []byte { return holding(3) }),
		lagging("the lagging region is zeros up to its end", func() []byte { return zeroed(ten(), at(3), at(10)) }),
		lagging("a hole of zeros with valid later bytes", func() []byte { return zeroed(ten(), at(3), at(7)) }),
		lagging("a hole of zeros within a record", func() []byte { return zeroed(ten(), at(3)+30, at(4)-3) }),
		lagging("a torn page", func() []byte {
			return append(bytes.Clone(ten()[:at(3)+35]), bytes.Repeat([]byte{0xee}, 512-at(3)-35)...)
		}),
		lagging("a record cut short", func() []byte { return ten()[:at(3)+11] }),
		lagging("a flipped bit", func() []byte { return flip(ten(), at(3)+40) }),
		lagging("garbage that is no record", func() []byte { return holding(3, bytes.Repeat([]byte{0xee}, 300)...) }),
	}
}

// tailJournalCases are files that are longer than what the journal holds.
func tailJournalCases() []journalCase {
	mark := map[string]Mark{shardA: {0, int64(at(8))}}
	eight := func(rest ...byte) func(j *journaled) {
		return func(j *journaled) {
			j.segment(shardA, 0, append(zeroed(holding(8), at(5), at(8)), rest...))
			j.mark(shardA, 0, at(5))
			j.frame(0, 1, 1, records(shardA, 0, ten(), 5, 8))
		}
	}
	garbage := bytes.Repeat([]byte{0xee}, 100)
	return []journalCase{
		{
			name: "zeros behind the last entry are cut", setup: eight(make([]byte, 5000)...), written: 3 * recordBytes,
			want: map[string][]byte{logA: holding(8)}, marks: mark,
		},
		{
			name: "zeros behind the last entry are cut when the entries are there", want: map[string][]byte{logA: holding(8)}, marks: mark,
			setup: func(j *journaled) {
				j.segment(shardA, 0, holding(8, make([]byte, 77)...))
				j.mark(shardA, 0, at(5))
				j.frame(0, 1, 1, records(shardA, 0, ten(), 5, 8))
			},
		},
		{
			name: "zeros that the mark vouches for stay, and the shard refuses", want: map[string][]byte{logA: holding(8, make([]byte, 77)...)},
			marks: map[string]Mark{shardA: {0, int64(at(8)) + 77}},
			setup: func(j *journaled) {
				j.segment(shardA, 0, holding(8, make([]byte, 77)...))
				j.mark(shardA, 0, at(8)+77)
				j.frame(0, 1, 1, records(shardA, 0, ten(), 5, 8))
			},
		},
		{
			name: "garbage behind the last entry is left for opening the shard, which keeps a copy", setup: eight(garbage...), written: 3 * recordBytes,
			want: map[string][]byte{logA: holding(8, garbage...)}, marks: mark, opened: true,
		},
		{
			name: "records behind a hole that the journal fills stay", setup: eight(ten()[at(8):]...), written: 3 * recordBytes,
			want: map[string][]byte{logA: ten()}, marks: mark,
		},
		{
			name: "records that went past the journal stay behind the last entry", want: map[string][]byte{logA: ten()},
			marks: map[string]Mark{shardA: {0, int64(at(8))}},
			setup: func(j *journaled) {
				j.segment(shardA, 0, ten())
				j.mark(shardA, 0, at(5))
				j.frame(0, 1, 1, records(shardA, 0, ten(), 5, 8))
			},
		},
		{
			name: "zeros behind records that went past the journal are left for opening the shard", want: map[string][]byte{logA: holding(10, make([]byte, 9)...)},
			marks: map[string]Mark{shardA: {0, int64(at(8))}}, opened: true,
			setup: func(j *journaled) {
				j.segment(shardA, 0, holding(10, make([]byte, 9)...))
				j.mark(shardA, 0, at(5))
				j.frame(0, 1, 1, records(shardA, 0, ten(), 5, 8))
			},
		},
	}
}

func fenceCases() []journalCase {
	return []journalCase{
		{
			name: "a shard that is gone behind a fence", want: map[string][]byte{logB: ten()}, marks: map[string]Mark{shardB: {0, int64(at(10))}}, written: recordBytes,
			setup: func(j *journaled) {
				j.segment(shardB, 0, holding(9))
				j.frame(0, 1, 1, records(shardA, 0, ten(), 3, 6), records(shardB, 0, ten(), 9, 10))
				j.frame(0, 2, 1, fenceOff(shardA, journal.AllSegments))
			},
		},
		{
			name: "a fence in the frame of its entry", want: map[string][]byte{logA: holding(3)},
			setup: func(j *journaled) {
				j.segment(shardA, 0, holding(3))
				j.frame(0, 1, 1, records(shardA, 0, ten(), 3, 6), fenceOff(shardA, journal.AllSegments))
			},
		},
		{
			name: "an entry behind a fence in its frame", want: map[string][]byte{logA: holding(6)}, marks: map[string]Mark{shardA: {0, int64(at(6))}}, written: 3 * recordBytes,
			setup: func(j *journaled) {
				j.segment(shardA, 0, holding(3))
				j.frame(0, 1, 1, fenceOff(shardA, journal.AllSegments), records(shardA, 0, ten(), 3, 6))
			},
		},
		{
			name: "segments that were removed behind a fence, and the entries of a later one", written: 3 * recordBytes,
			want: map[string][]byte{logA1: segmentBytes(10, 3)}, marks: map[string]Mark{shardA: {1, int64(at(3))}},
			setup: func(j *journaled) {
				j.segment(shardA, 1, segmentBytes(10, 0))
				j.frame(0, 1, 1, records(shardA, 0, ten(), 7, 10))
				j.frame(0, 2, 1, records(shardA, 1, segmentBytes(10, 3), 0, 1))
				j.frame(0, 3, 1, fenceOff(shardA, 0))
				j.frame(0, 4, 1, records(shardA, 1, segmentBytes(10, 3), 1, 3))
			},
		},
		{
			name: "a fence about fewer segments does not undo an earlier one", want: map[string][]byte{logB: ten()},
			setup: func(j *journaled) {
				j.segment(shardB, 0, ten())
				j.frame(0, 1, 1, records(shardA, 1, segmentBytes(10, 3), 0, 3))
				j.frame(0, 2, 1, fenceOff(shardA, journal.AllSegments))
				j.frame(0, 3, 1, fenceOff(shardA, 0))
			},
		},
		{
			name: "a log that was cut behind a fence", want: map[string][]byte{logA: holding(4)},
			setup: func(j *journaled) {
				j.segment(shardA, 0, holding(4))
				j.frame(0, 1, 1, records(shardA, 0, ten(), 3, 6))
				j.frame(0, 2, 1, records(shardA, 0, ten(), 6, 9))
				j.frame(0, 3, 1, fenceOff(shardA, journal.AllSegments))
			},
		},
		{
			name: "a log that was cut behind a fence and went on otherwise", written: 2 * recordBytes,
			want:  map[string][]byte{logA: append(holding(4), other()[at(4):at(6)]...)},
			marks: map[string]Mark{shardA: {0, int64(at(6))}},
			setup: func(j *journaled) {
				j.segment(shardA, 0, holding(4))
				j.mark(shardA, 0, at(4))
				j.frame(0, 1, 1, records(shardA, 0, ten(), 3, 9))
				j.frame(0, 2, 1, fenceOff(shardA, journal.AllSegments))
				j.frame(0, 3, 1, records(shardA, 0, other(), 4, 6))
			},
		},
		{
			name: "a stream that was made again behind a fence", written: 2 * recordBytes,
			want: map[string][]byte{logA: remade()[:at(2)]}, marks: map[string]Mark{shardA: {0, int64(at(2))}},
			setup: func(j *journaled) {
				j.segment(shardA, 0, remade()[:at(0)])
				j.frame(0, 1, 1, records(shardA, 0, ten(), 0, 9))
				j.frame(0, 2, 1, fenceOff(shardA, journal.AllSegments))
				j.frame(0, 3, 1, records(shardA, 0, remade(), 0, 2))
			},
		},
	}
}

// remade is a segment as ten, created at another time.
func remade() []byte {
	b := segment.Header{Version: segment.VersionDefault, CreatedAtMicros: 2}.AppendTo(nil)
	return append(b, ten()[segment.HeaderSize:]...)
}

func chainJournalCases() []journalCase {
	return []journalCase{
		{
			name: "a stale frame of a file that was used again", want: map[string][]byte{logA: ten()}, marks: map[string]Mark{shardA: {0, int64(at(10))}}, written: 2 * recordBytes,
			setup: func(j *journaled) {
				j.segment(shardA, 0, holding(8))
				j.frame(1, 4, 3, records(shardA, 0, ten(), 8, 9))
				j.frame(0, 5, 3, records(shardA, 0, ten(), 9, 10))
				j.frame(0, 2, 1, records(shardB, 0, ten(), 0, 9)) // its shard is gone
				j.frame(1, 3, 3, records(shardA, 0, ten(), 7, 8))
				j.frames[1] = slices.Concat(sealed(oldEpoch, 3, 3, records(shardA, 0, ten(), 7, 8)), sealed(oldEpoch, 4, 3, records(shardA, 0, ten(), 8, 9)))
			},
		},
		{
			name: "frames of another epoch", want: map[string][]byte{logA: ten()}, marks: map[string]Mark{shardA: {0, int64(at(10))}}, written: recordBytes,
			setup: func(j *journaled) {
				j.segment(shardA, 0, holding(9))
				j.frame(0, 1, 1, records(shardA, 0, ten(), 9, 10))
				j.frames[0] = append(j.frames[0], sealed(oldEpoch+1, 2, 1, records(shardB, 0, ten(), 0, 9))...)
			},
		},
		{
			name: "a torn last frame", want: map[string][]byte{logA: holding(9)}, marks: map[string]Mark{shardA: {0, int64(at(9))}}, written: recordBytes,
			setup: func(j *journaled) {
				j.segment(shardA, 0, holding(8))
				j.frame(0, 1, 1, records(shardA, 0, ten(), 8, 9))
				j.frame(0, 2, 1, records(shardA, 0, ten(), 9, 10))
				j.frames[0][journal.BlockBytes+journal.HeaderBytes+60] ^= 1
			},
		},
		{
			name: "a rotted middle frame", refuses: "00000000.journal at position 4096",
			setup: func(j *journaled) {
				j.segment(shardA, 0, holding(7))
				j.frame(0, 1, 1, records(shardA, 0, ten(), 7, 8))
				j.frame(0, 2, 1, records(shardA, 0, ten(), 8, 9))
				j.frame(0, 3, 1, records(shardA, 0, ten(), 9, 10))
				j.frames[0][journal.BlockBytes+journal.HeaderBytes+60] ^= 1
			},
		},
	}
}

func markCases() []journalCase {
	whole := map[string][]byte{logA: ten()}
	return []journalCase{
		{
			name: "a mark is not lowered", want: whole, marks: map[string]Mark{shardA: {0, int64(at(10))}},
			setup: func(j *journaled) {
				j.segment(shardA, 0, ten())
				j.mark(shardA, 0, at(10))
				j.frame(0, 1, 1, records(shardA, 0, ten(), 5, 8))
			},
		},
		{
			name: "bytes that a mark vouched for and that are gone come from the journal", want: whole, marks: map[string]Mark{shardA: {0, int64(at(10))}}, written: 3 * recordBytes,
			setup: func(j *journaled) {
				j.segment(shardA, 0, holding(7))
				j.mark(shardA, 0, at(9))
				j.frame(0, 1, 1, records(shardA, 0, ten(), 5, 10))
			},
		},
		{
			name: "rot in what the journal holds comes from the journal, whatever the mark vouches for", want: whole,
			marks: map[string]Mark{shardA: {0, int64(at(10))}}, written: 3 * recordBytes,
			setup: func(j *journaled) {
				j.segment(shardA, 0, flip(ten(), at(7)+40))
				j.mark(shardA, 0, at(10))
				j.frame(0, 1, 1, records(shardA, 0, ten(), 5, 10))
			},
		},
		{
			name: "a damaged mark counts as none", want: whole, marks: map[string]Mark{shardA: {0, int64(at(10))}}, written: recordBytes,
			setup: func(j *journaled) {
				j.segment(shardA, 0, holding(9))
				j.put(shardA+"/"+MarkName, []byte("FLSM, or so"))
				j.frame(0, 1, 1, records(shardA, 0, ten(), 9, 10))
			},
		},
		{
			name: "rot below the mark is not healed by an entry that ends there, and stays for opening the shard to refuse",
			want: map[string][]byte{logA: flip(ten(), at(1)+40)}, marks: map[string]Mark{shardA: {0, int64(at(10))}}, written: 2 * recordBytes,
			setup: func(j *journaled) {
				j.segment(shardA, 0, flip(holding(8), at(1)+40))
				j.mark(shardA, 0, at(5))
				j.frame(0, 1, 1, records(shardA, 0, ten(), 5, 10))
			},
		},
	}
}

func refusedCases() []journalCase {
	// The first shard is fine: nothing of it may be replayed either.
	refused := func(name, says string, setup func(j *journaled), entries ...journal.Entry) journalCase {
		return journalCase{name: name, refuses: says, setup: func(j *journaled) {
			j.segment(shardB, 0, holding(9))
			setup(j)
			j.frame(0, 1, 1, records(shardB, 0, ten(), 9, 10))
			j.frame(0, 2, 1, entries...)
		}}
	}
	holds := func(b []byte) func(*journaled) {
		return func(j *journaled) { j.segment(shardA, 0, b) }
	}
	entry := records(shardA, 0, ten(), 5, 8)
	broken := func(change func(*journal.Entry)) journal.Entry {
		e := entry
		e.Bytes = bytes.Clone(e.Bytes)
		change(&e)
		return e
	}
	return []journalCase{
		refused("a gap", "the intact ones end at position 236, the journal goes on at 372", holds(holding(3)), entry),
		refused("a gap in front of valid later bytes", "records are missing", holds(zeroed(ten(), at(3), at(4))), entry),
		refused("a gap between two entries", "records are missing", holds(holding(5)), records(shardA, 0, ten(), 5, 6), records(shardA, 0, ten(), 7, 8)),
		refused("different bytes", "at position 464: the segment holds other bytes", holds(append(holding(6), other()[at(6):at(8)]...)), entry),
		refused("different bytes of which the file holds fewer", "the segment holds other bytes", holds(append(holding(5), other()[at(5):at(6)]...)), entry),
		refused("different bytes in the second of two entries", "position 4096, for shard "+shardA, holds(append(holding(6), other()[at(6):at(8)]...)),
			records(shardA, 0, ten(), 5, 6), records(shardA, 0, ten(), 6, 8)),
		refused("other bytes that the mark vouches for", "the segment holds other bytes", func(j *journaled) {
			j.segment(shardA, 0, append(holding(6), other()[at(6):]...))
			j.mark(shardA, 0, at(10))
		}, entry),
		refused("other records of other lengths that the mark vouches for", "the segment holds other bytes", func(j *journaled) {
			b := holding(4)
			for offset := range uint64(5) {
				b = appendRecord(b, 4+offset, bytes.Repeat([]byte{'o'}, 55))
			}
			j.segment(shardA, 0, b)
			j.mark(shardA, 0, len(b))
		}, entry),
		refused("other offsets that end where the entries begin", "offset 4 belongs there", func(j *journaled) {
			b := append(holding(3), appendRecord(nil, 3, make([]byte, 40+recordBytes))...)
			j.segment(shardA, 0, b)
			j.mark(shardA, 0, at(5))
		}, entry),
		refused("rot in front of the entries and past the mark", "records are missing", func(j *journaled) {
			j.segment(shardA, 0, flip(ten(), at(3)+40))
			j.mark(shardA, 0, at(2))
		}, entry),
		refused("rot in front of the entries where the mark ends", "records are missing", func(j *journaled) {
			j.segment(shardA, 0, flip(ten(), at(3)+9))
			j.mark(shardA, 0, at(3))
		}, entry),
		refused("a file that ends before the entries and before the mark", "the intact ones end at position 304", func(j *journaled) {
			j.segment(shardA, 0, holding(4))
			j.mark(shardA, 0, at(9))
		}, entry),
		refused("another segment of that number", "another one of that number", holds(remade()), entry),
		refused("another base", "begins at offset 3", holds(segmentBytes(3, 5)), entry),
		refused("a damaged header", "header is damaged", holds(flip(ten(), 9)), entry),
		refused("a blank segment", "header is damaged", holds(make([]byte, 400)), entry),
		refused("a missing segment", "the segment does not exist", func(j *journaled) { j.segment(shardA, 7, segmentBytes(99, 1)) }, entry),
		refused("a missing shard", "for shard "+shardA+", segment 0 at position 372", func(*journaled) {}, entry),
		refused("a fence about earlier segments only", "the segment does not exist", func(*journaled) {}, records(shardA, 1, ten(), 0, 1), fenceOff(shardA, 0)),
		refused("a stream that was made again without a fence", "two segments of that number", holds(holding(5)), entry, records(shardA, 0, remade(), 8, 9)),
		refused("entries that overlap", "overlap", holds(holding(5)), entry, records(shardA, 0, ten(), 7, 9)),
		refused("offsets that do not follow", "offset 5 belongs there", holds(holding(5)), broken(func(e *journal.Entry) {
			e.Bytes, e.First, e.Last = ten()[at(6):at(8)], 6, 7
		})),
		refused("an entry that is no record", "does not hold whole records", holds(holding(5)), broken(func(e *journal.Entry) { e.Bytes[3] ^= 1 })),
		refused("an entry that ends within a record", "ends within a record", holds(holding(5)), broken(func(e *journal.Entry) { e.Bytes = e.Bytes[:len(e.Bytes)-1] })),
		refused("an entry with fewer records than it says", "says that it holds 7", holds(holding(5)), broken(func(e *journal.Entry) { e.Bytes = e.Bytes[:2*recordBytes] })),
		refused("an entry with other offsets than it says", "the entry holds offset 5 where 4 belongs", holds(holding(5)), broken(func(e *journal.Entry) { e.First, e.Last = 4, 6 })),
	}
}

func brokenJournalCases() []journalCase {
	broken := func(name, says string, setup func(j *journaled)) journalCase {
		return journalCase{name: name, refuses: says, setup: func(j *journaled) {
			j.segment(shardA, 0, holding(9))
			j.frame(0, 1, 1, records(shardA, 0, ten(), 9, 10))
			setup(j)
		}}
	}
	put := func(name string, b []byte) func(*journaled) {
		return func(j *journaled) { j.put(journal.DirName+"/"+name, b) }
	}
	return []journalCase{
		broken("a damaged name of the epoch", "current: the file that names the epoch is damaged", put(journal.CurrentName, flip(testCurrent().AppendTo(nil), 9))),
		broken("an empty name of the epoch", "truncated", put(journal.CurrentName, nil)),
		broken("a longer name of the epoch", "too long", put(journal.CurrentName, append(testCurrent().AppendTo(nil), 0))),
		broken("a name of the epoch that is gone beside frames", "the file that names the epoch is gone, and 00000000.journal holds frames", func(j *journaled) {
			j.commit()
			j.must(j.d.Remove(testRoot + "/" + journal.DirName + "/" + journal.CurrentName))
		}),
		broken("a data file that is gone", "00000001.journal: a data file of the journal is gone", func(j *journaled) {
			j.commit()
			j.must(j.d.Remove(testRoot + "/" + journal.DirName + "/" + journal.FileName(1)))
		}),
		broken("a data file that is short", "has 4096 bytes, 32768 are expected", put(journal.FileName(1), make([]byte, 4096))),
	}
}
