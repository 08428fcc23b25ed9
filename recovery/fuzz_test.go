package recovery

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"felix.local/felix/segment"
)

// program is a list of mutations, eight bytes each: what, which file, two
// numbers of two bytes, a value, and one byte that is not used.
const mutationBytes = 8

// healthy is a small directory as a running log leaves it: layout chooses the
// number of sealed segments, of records in the active one, and the mark.
func (s *shard) healthy(layout byte) {
	sealed, records := int(layout%3), int(layout/3%5)
	next := s.sealed(sealed)
	s.put(uint64(sealed), segmentBytes(next, records))
	switch layout / 15 % 4 {
	case 0:
		s.mark(uint64(sealed), at(records))
	case 1:
		s.mark(uint64(sealed), at(records/2))
	case 2:
		if sealed > 0 {
			s.mark(uint64(sealed-1), at(3)) // a retired segment, not yet sealed
		}
	}
}

// mutate carries out one mutation.
func (s *shard) mutate(m []byte) {
	names := slices.Sorted(mapKeys(s.state()))
	if len(names) == 0 {
		return
	}
	name := names[int(m[1])%len(names)]
	b := s.read(name)
	from, n := int(binary.BigEndian.Uint16(m[2:])), int(binary.BigEndian.Uint16(m[4:]))
	from %= len(b) + 1
	end := min(len(b), from+n%200)
	switch m[0] % 9 {
	case 0: // flip a bit
		if from < len(b) {
			b[from] ^= 1 << (m[6] % 8)
		}
	case 1: // cut
		b = b[:from]
	case 2: // lose blocks
		clear(b[from:])
	case 3:
		clear(b[from:end])
	case 4: // garbage, or zeros
		b = append(b, bytes.Repeat([]byte{m[6]}, n%700)...)
	case 5:
		s.remove(name)
		return
	case 6: // copy to another id
		s.write(segment.LogName(uint64(m[6]%6)), b)
		return
	case 7: // another mark
		s.mark(uint64(m[6]%5), n%500)
		return
	case 8: // a record more, of an offset near by
		b = appendRecord(bytes.Clone(b), uint64(m[6]%24), payloadOf(uint64(m[6]%24)))
	}
	s.write(name, b)
}

// salvage gives the intact records at the beginning of every segment, up to
// where the mark vouches for them, or all when vouched is false.
func (s *shard) salvage(mark *Mark, vouched bool) map[string]bool {
	found := map[string]bool{}
	for name, content := range s.state() {
		id, ok := segment.ParseLogName(name)
		if !ok {
			continue
		}
		limit := int64(len(content))
		if vouched {
			limit = min(limit, evidence{mark}.syncedThrough(id))
		}
		// A bad header gives no record, and the scan stops at damage.
		_, _ = segment.Scan(bytes.NewReader([]byte(content)), int64(len(content)), segment.ScanOptions{Each: func(pos int64, r segment.Record) error {
			if pos+int64(segment.RecordHeaderSize+len(r.Payload)) > limit {
				return errors.New("the mark ends here")
			}
			found[fmt.Sprintf("%d %s", r.Offset, r.Payload)] = true
			return nil
		}})
	}
	return found
}

func checkRandomDamage(t *testing.T, layout byte, program []byte) {
	s := newShard(t)
	s.healthy(layout)
	for ; len(program) >= mutationBytes; program = program[mutationBytes:] {
		s.mutate(program)
	}
	p := testPolicy()
	p.VerifyAllOnOpen = layout&0x80 != 0
	checkAnyDirectory(t, s, p)
}

// checkAnyDirectory opens a directory in whatever state it is: opening does what
// the plan says, a refusal changes nothing, whatever goes is in a side copy, and
// no record that the mark vouches for is gone.
func checkAnyDirectory(t *testing.T, s *shard, p Policy) {
	before := s.state()
	plan := s.plan(p)
	vouched := s.salvage(plan.snapshot.Mark, true)
	recovered, err := Open(osDisk(), s.dir, "orders/0", p)
	if plan.Refused() {
		var refused *RefusedError
		if !errors.As(err, &refused) {
			t.Fatalf("opened with %v, but the plan refuses:\n%s", err, plan)
		}
		if digest(before) != digest(s.state()) {
			t.Fatalf("a refusal changed the directory:\n%s", plan)
		}
		return
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, plan)
	}
	checkCarriedOut(t, plan, recovered)
	s.unread = !p.VerifyAllOnOpen
	checkRecovered(t, s, recovered, p)
	checkKept(t, s, plan, recovered, before)
	checkIdempotent(t, s, recovered, p)
	after := s.salvage(nil, false)
	for record := range vouched {
		if !after[record] {
			t.Errorf("a record below the mark is gone: %s\n%s", record, plan)
		}
	}
	if t.Failed() {
		t.Logf("the plan was:\n%s", plan)
	}
}

func TestRandomDamageLosesNothingBelowTheMark(t *testing.T) {
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 1))
		program := make([]byte, mutationBytes*(1+random.IntN(4)))
		for i := range program {
			program[i] = byte(random.Uint32())
		}
		layout := byte(random.Uint32())
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { checkRandomDamage(t, layout, program) })
	}
}

func FuzzRecovery(f *testing.F) {
	for layout := range byte(60) {
		f.Add(layout, []byte{layout, 1, 0, 100, 0, 50, 3, 0})
	}
	f.Fuzz(func(t *testing.T, layout byte, program []byte) {
		if len(program) > 8*mutationBytes {
			t.Skip("long programs only damage everything")
		}
		checkRandomDamage(t, layout, program)
	})
}
