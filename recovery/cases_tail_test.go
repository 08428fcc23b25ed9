package recovery

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"felix.local/felix/segment"
)

func allowTail(p *Policy) { p.RepairChecksumTail = true }

// resealed recomputes the header checksum of the record at a position, so that
// only what the test changed is wrong.
func resealed(b []byte, record int) []byte {
	binary.BigEndian.PutUint32(b[record+20:], crc32.ChecksumIEEE(b[record:record+20]))
	return b
}

// oversized makes the record at a position claim more than a record may hold.
func oversized(b []byte, record int) []byte {
	b = bytes.Clone(b)
	binary.BigEndian.PutUint32(b[record:], segment.MaxPayloadBytes+1)
	return resealed(b, record)
}

// twoKinds gives the record at a position two kinds.
func twoKinds(b []byte, record int) []byte {
	b = bytes.Clone(b)
	b[record] |= 0xc0
	return resealed(b, record)
}

// tailCases put each kind of damage into the last and into an earlier record of
// the newest segment, above, below and without the mark.
func tailCases() []damageCase {
	four := segmentBytes(5, 4)
	last, middle := at(3), at(1)
	gap := appendRecord(bytes.Clone(four[:last]), 9, payloadOf(9)) // offset 8 is missing
	kinds := []struct {
		name  string
		last  []byte
		inner []byte
		cause segment.CorruptionKind
		// byFlag says that the operator may have the last record cut.
		byFlag bool
	}{
		{"payload", flip(four, last+40), flip(four, middle+40), segment.RecordChecksum, true},
		{"header", flip(four, last+12), flip(four, middle+12), segment.RecordHeaderChecksum, false},
		{"length over the limit", oversized(four, last), oversized(four, middle), segment.RecordTooLarge, true},
		{"two kinds", twoKinds(four, last), twoKinds(four, middle), segment.RecordFlags, false},
		{"offset", gap, nil, segment.OffsetOutOfOrder, true},
	}
	var cases []damageCase
	add := func(name string, b []byte, mark int, policy func(*Policy), want string, cause segment.CorruptionKind) {
		cases = append(cases, damageCase{name: name, policy: policy, want: want, cause: cause, setup: func(s *shard) {
			s.sealed(1)
			s.put(1, b)
			if mark > 0 {
				s.mark(1, mark)
			}
		}})
	}
	for _, k := range kinds {
		name := k.name
		cut, refused := fmt.Sprintf("cut tail 1@%d; [0,8) in 2", last), fmt.Sprintf("refuse 1@%d", last)
		add("C207 bad "+name+" in the last record, at the mark, is cut", k.last, last, nil, cut, 0)
		add("C207 bad "+name+" in the last record, past the mark, is cut", k.last, 32, nil, cut, 0)
		add("C207 bad "+name+" in the last record refuses without a mark", k.last, 0, nil, refused, k.cause)
		add("C208 bad "+name+" in the last record, below the mark, refuses", k.last, last+1, nil, refused, k.cause)
		if k.byFlag {
			add("C207 bad "+name+" in the last record is cut when that is allowed", k.last, 0, allowTail, cut, 0)
			add("C208 bad "+name+" in the last record, below the mark, is cut when that is allowed", k.last, len(four), allowTail,
				fmt.Sprintf("cut tail 1@%d below mark; [0,8) in 2", last), 0)
		} else {
			// The header is not trusted, so the record's end is unknown, and
			// bytes lie behind the header.
			add("C208 bad "+name+" in the last record refuses even when repair is allowed", k.last, len(four), allowTail, refused, k.cause)
		}
		if k.inner == nil {
			continue
		}
		add("C211 bad "+name+" in an earlier record, past the mark, is cut with what follows", k.inner, middle, nil,
			fmt.Sprintf("cut tail 1@%d dropping 2; [0,6) in 2", middle), 0)
		add("C211 bad "+name+" in an earlier record, below the mark, refuses", k.inner, len(four), nil, fmt.Sprintf("refuse 1@%d", middle), k.cause)
		add("C211 bad "+name+" in an earlier record refuses without a mark", k.inner, 0, nil, fmt.Sprintf("refuse 1@%d", middle), k.cause)
		if k.cause != segment.RecordTooLarge {
			add("C211 bad "+name+" in an earlier record refuses even when tail repair is allowed", k.inner, 0, allowTail, fmt.Sprintf("refuse 1@%d", middle), k.cause)
		}
	}
	return append(cases, damageCase{
		name: "C208 a bad header of 28 bytes at the very end is cut when that is allowed", policy: allowTail,
		setup: func(s *shard) { s.put(0, flip(appendRecord(segmentBytes(0, 2), 2, nil), at(2)+5)); s.mark(0, at(2)+28) },
		want:  fmt.Sprintf("cut tail 0@%d below mark; [0,2) in 1", at(2)),
	}, damageCase{
		name:  "C207 the mark of an older segment excuses damage in a newer one",
		setup: func(s *shard) { s.sealed(1); s.put(1, flip(four, last+40)); s.mark(0, at(5)) },
		want:  fmt.Sprintf("cut tail 1@%d; [0,8) in 2", last),
	}, damageCase{
		name:  "C208 the mark of a later segment that is gone vouches for the newest one",
		setup: func(s *shard) { s.sealed(1); s.put(1, flip(four, last+40)); s.mark(2, 32) },
		want:  fmt.Sprintf("refuse 1@%d", last), cause: segment.RecordChecksum,
	})
}

// shortCases cut the last record at every length.
func shortCases() []damageCase {
	whole := segmentBytes(0, 4)
	var cases []damageCase
	for n := 1; n < recordBytes; n++ {
		size := at(3) + n
		for _, mark := range []int{0, 32, at(4)} {
			c := damageCase{
				name:  fmt.Sprintf("C206 last record short, %d bytes of it left, mark at %d", n, mark),
				setup: func(s *shard) { s.put(0, whole[:size]) },
				want:  fmt.Sprintf("cut tail 0@%d; [0,3) in 1", at(3)),
			}
			if mark > 0 {
				c.setup = func(s *shard) { s.put(0, whole[:size]); s.mark(0, mark) }
			}
			if mark == at(4) {
				c.want = fmt.Sprintf("cut tail 0@%d below mark; [0,3) in 1", at(3))
				c.says = "[below the durable mark]"
			}
			cases = append(cases, c)
		}
	}
	return cases
}

func zeroCases() []damageCase {
	// The fourth record is long enough to hold sectors.
	long := appendRecord(segmentBytes(0, 3), 3, bytes.Repeat([]byte("x"), 3000))
	sector := 1024 // the first boundaries behind at(3) are 512 and 1024
	withZeros := func(n int) []byte { return append(segmentBytes(0, 3), make([]byte, n)...) }
	cut := fmt.Sprintf("cut tail 0@%d; [0,3) in 1", at(3))
	refused := fmt.Sprintf("refuse 0@%d", at(3))
	put := func(b []byte, mark int) func(*shard) {
		return func(s *shard) {
			s.put(0, b)
			if mark > 0 {
				s.mark(0, mark)
			}
		}
	}
	return []damageCase{
		{name: "C209 zeros from a record boundary on are cut without a mark", setup: put(withZeros(5000), 0), want: cut},
		{name: "C209 zeros from a record boundary on are cut past the mark", setup: put(withZeros(5000), at(3)), want: cut},
		{name: "C209 zeros from a record boundary on refuse below the mark", setup: put(withZeros(5000), at(3)+1), want: refused, cause: segment.RecordHeaderChecksum},
		{name: "C209 fewer zeros than a record header are a short record", setup: put(withZeros(20), at(3)), want: cut},
		{name: "C209 zeros from a sector boundary within a record on are cut without a mark", setup: put(zeroed(long, sector, len(long)), 0), want: cut},
		{name: "C209 zeros from a sector boundary within a record refuse below the mark", setup: put(zeroed(long, sector, len(long)), len(long)), want: refused, cause: segment.RecordChecksum},
		{name: "C209 a few zeros at the end of a bad record are no lost block", setup: put(zeroed(long, len(long)-100, len(long)), 0), want: refused, cause: segment.RecordChecksum},
		{name: "C209 zeros behind a bad record that is there whole refuse", setup: put(append(flip(segmentBytes(0, 4), at(3)+40), make([]byte, 2000)...), 0), want: refused, cause: segment.RecordChecksum},
		{name: "C209 zeros in the last sector that begin before it are cut", setup: put(zeroed(flip(long, at(3)+100), 2560, len(long)), 0), want: cut},
		{name: "C210 zeros with a record behind them refuse without a mark", setup: put(appendRecord(withZeros(512), 4, payloadOf(4)), 0), want: refused, cause: segment.RecordHeaderChecksum, says: "intact records that follow: 1"},
		{name: "C210 zeros with a record behind them refuse below the mark", setup: put(appendRecord(withZeros(512), 4, payloadOf(4)), at(4)), want: refused, cause: segment.RecordHeaderChecksum},
		{
			name: "C210 zeros with a record behind them are cut past the mark", setup: put(appendRecord(withZeros(512), 4, payloadOf(4)), at(3)),
			want: fmt.Sprintf("cut tail 0@%d dropping 1; [0,3) in 1", at(3)),
		},
		{name: "C210 garbage past the mark is cut", setup: put(append(segmentBytes(0, 3), bytes.Repeat([]byte("garbage "), 40)...), at(3)), want: cut},
	}
}
