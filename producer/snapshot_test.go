package producer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"strings"
	"testing"

	"felix.local/felix/internal/golden"
	"felix.local/felix/segment"
)

// busy is a log with an open batch, windows that were trimmed, and ids and
// sequences that fill their fields.
func busy(digests bool) *rig {
	r := newRig(digests, ProducersMax, BatchesMax)
	for sequence := range uint64(70) {
		r.batch(1, sequence, 1, 0, 1)
	}
	r.batch(math.MaxUint64, math.MaxUint64-1, 2, 0, 2)
	r.batch(math.MaxUint64, math.MaxUint64, 2, 0, 2)
	r.batch(0, 0, 3, 0, 3)
	r.batch(9, 4, 5, 0, 3)
	return r
}

// reseal makes the checksum of a changed snapshot right again.
func reseal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[atSum:], crc32.ChecksumIEEE(b[headerSize:]))
	return b
}

func snapshotFault(t *testing.T, err error) *SnapshotError {
	t.Helper()
	var fault *SnapshotError
	if !errors.As(err, &fault) {
		t.Fatalf("%v is no *SnapshotError", err)
	}
	return fault
}

func TestASnapshotCutAnywhereIsRefused(t *testing.T) {
	for _, version := range []uint16{SnapshotV1, SnapshotV2} {
		r := busy(true)
		b := r.state.AppendTo(nil, r.model.tail, version)
		for n := range b {
			_, _, err := Decode(b[:n], Options{})
			if fault := snapshotFault(t, err).Fault; fault != FaultTruncated && fault != FaultChecksum {
				t.Fatalf("%d of %d bytes: %v", n, len(b), err)
			}
			if n < headerSize {
				continue
			}
			if _, _, err := Decode(reseal(bytes.Clone(b[:n])), Options{}); snapshotFault(t, err).Fault != FaultTruncated {
				t.Fatalf("%d of %d bytes with a right checksum: %v", n, len(b), err)
			}
		}
	}
}

func TestEveryBitOfASnapshotCounts(t *testing.T) {
	for _, version := range []uint16{SnapshotV1, SnapshotV2} {
		for name, r := range map[string]*rig{"busy": busy(true), "empty": newRig(true, 1, 1)} {
			t.Run(name, func(t *testing.T) {
				b := r.state.AppendTo(nil, r.model.tail, version)
				for bit := range 8 * len(b) {
					flipped := bytes.Clone(b)
					flipped[bit/8] ^= 0x80 >> (bit % 8)
					checkFlipped(t, r, b, flipped, bit/8)
				}
			})
		}
	}
}

// checkFlipped expects an error, but where the format has nothing to tell by.
func checkFlipped(t *testing.T, r *rig, b, flipped []byte, at int) {
	t.Helper()
	s, asOf, err := Decode(flipped, Options{})
	switch {
	case err != nil:
		snapshotFault(t, err)
	case at == atVersion+2 || at == atVersion+3: // reserved
		if asOf != r.model.tail || !bytes.Equal(s.AppendTo(nil, asOf, binary.BigEndian.Uint16(b[atVersion:])), b) {
			t.Fatalf("a flip in reserved byte %d changed the state", at)
		}
	case at >= atAsOf && at < atCount:
		// Nothing covers as_of but what the batches say: with an open batch it is
		// known to the offset, without one it cannot be below their ends.
		if r.state.open.waiting || asOf < r.model.tail {
			t.Fatalf("a flip in byte %d gave a state as of %d", at, asOf)
		}
	default:
		t.Fatalf("a flip in byte %d was not seen", at)
	}
}

func TestContentThatNoLogCouldLeaveIsRefused(t *testing.T) {
	u16, u32, u64 := binary.BigEndian.AppendUint16, binary.BigEndian.AppendUint32, binary.BigEndian.AppendUint64
	const asOf = 100
	// one is a producer with a batch of each length, from an offset on.
	one := func(b []byte, id, last, first uint64, lens ...uint32) []byte {
		b = u16(u64(u64(b, id), last), uint16(len(lens)))
		for _, n := range lens {
			b = u32(u64(b, first), n)
			first += uint64(n)
		}
		return b
	}
	open := func(n uint32, first uint64, held uint32) []byte {
		return u32(u64(u32(u64(u64([]byte{1}, 7), 0), n), first), held)
	}
	none := []byte{0}
	for name, c := range map[string]struct {
		version uint16
		count   uint32
		body    []byte
		what    string
	}{
		"open flag 2":                  {1, 0, []byte{2}, "open flag"},
		"nothing held":                 {1, 0, open(3, 100, 0), "records held"},
		"all held":                     {1, 0, open(3, 97, 3), "records held"},
		"open below the end":           {1, 0, open(3, 97, 2), "end of the open batch"},
		"open past the end":            {1, 0, open(3, 99, 2), "end of the open batch"},
		"open past 64 bits":            {1, 0, open(200, math.MaxUint64-1, 102), "end of the open batch"},
		"a batch inside the open":      {1, 1, one(open(5, 98, 2), 7, 0, 97, 2), "past what the snapshot covers"},
		"no batches":                   {1, 1, one(none, 7, 0, 0), "batches of a producer, at least"},
		"65 batches":                   {1, 1, one(none, 7, 99, 0, make([]uint32, 65)...), "batches of a producer"},
		"sequences below 0":            {1, 1, one(none, 7, 0, 0, 1, 1), "sequence 0"},
		"a batch past the end":         {1, 1, one(none, 7, 0, 99, 2), "past what the snapshot covers"},
		"a batch past 64 bits":         {1, 1, one(none, 7, 0, math.MaxUint64, 2), "past what the snapshot covers"},
		"batches that overlap":         {1, 1, u32(u64(u32(u64(u16(u64(u64(none, 7), 1), 2), 0), 3), 2), 3), "inside the one before"},
		"a producer twice":             {1, 2, one(one(none, 7, 0, 0, 1), 7, 0, 1, 1), "listed again"},
		"a byte too many":              {1, 1, append(one(none, 7, 0, 0, 1), 0), "behind the last producer"},
		"4097 producers":               {1, 4097, none, "producers"},
		"all the producers of 32 bits": {1, math.MaxUint32, none, "producers"},
		"digest flag 2":                {2, 1, u64(append(one(none, 7, 0, 0, 1), 2), 0), "digest flag"},
		"digest known and unknown":     {2, 1, u64(append(one(none, 7, 0, 0, 1), 0), 1), "digest that is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			b := u32(u64(u16(u16([]byte("FLPS"), c.version), 0), asOf), c.count)
			b = reseal(append(u32(b, 0), c.body...))
			_, _, err := Decode(b, Options{})
			fault := snapshotFault(t, err)
			if fault.Fault != FaultContent || !strings.Contains(fault.What, c.what) {
				t.Fatalf("%v; want one about %q", err, c.what)
			}
		})
	}
}

func TestTheHeaderIsCheckedFirst(t *testing.T) {
	b := New(Options{}).AppendTo(nil, 3, SnapshotV1)
	for name, c := range map[string]struct {
		at    int
		value byte
		want  SnapshotError
		text  string
	}{
		"magic":    {0, 'X', SnapshotError{Fault: FaultMagic, Expected: snapshotMagic, Found: 0x584c5053}, "magic 0x584c5053"},
		"version":  {5, 3, SnapshotError{Fault: FaultVersion, Expected: 2, Found: 3, Position: 4}, "version 3 is not supported, 1 to 2 are"},
		"checksum": {24, 1, SnapshotError{Fault: FaultChecksum, Expected: 0xd202ef8d, Found: 0xa505df1b, Position: 20}, "stored 0xd202ef8d, computed 0xa505df1b"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := bytes.Clone(b)
			changed[c.at] = c.value
			_, _, err := Decode(changed, Options{})
			if got := *snapshotFault(t, err); got != c.want || !strings.Contains(err.Error(), c.text) {
				t.Fatalf("%+v\n%v", got, err)
			}
		})
	}
	h, err := DecodeSnapshotHeader(b)
	if err != nil || h.Version != 1 || h.AsOf != 3 || h.Producers != 0 {
		t.Fatalf("%+v, %v", h, err)
	}
}

func TestAnAbandonedBatchIsNotInASnapshot(t *testing.T) {
	var s State
	s.Observe(0, Marks(1, 0, 2)(0), nil)
	if b := s.AppendTo(nil, 1, SnapshotV1); b[headerSize] != 1 {
		t.Fatal("the open batch is missing")
	}
	if b := s.AppendTo(nil, 2, SnapshotV1); b[headerSize] != 0 {
		t.Fatal("a batch is open that no record at 2 continues")
	}
}

func TestABatchOfLength0IsReadAsTheRecordThatOpenedIt(t *testing.T) {
	b := golden.Bytes(t, "producers-v1")
	b[len(b)-1] = 0
	s, _, err := Decode(reseal(b), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.Classify(42, 5), (Class{Verdict: Held, First: 7, Last: 7, Held: 1, Len: 1}); got != want {
		t.Fatalf("%+v, want %+v", got, want)
	}
}

func TestWhatASnapshotCoversIsNotObservedAgain(t *testing.T) {
	s, asOf, err := Decode(golden.Bytes(t, "producers-v1"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	mustPanic(t, func() { s.Observe(asOf-1, segment.Mark{}, nil) })
	s.Settle(asOf + 5)
	mustPanic(t, func() { s.Observe(asOf+4, segment.Mark{}, nil) })
	s.Observe(asOf+5, segment.Mark{}, nil)
}

func TestDigestsOfASnapshotWithoutStayUnknown(t *testing.T) {
	r := busy(true)
	for _, version := range []uint16{SnapshotV1, SnapshotV2} {
		s, tail, err := Decode(r.state.AppendTo(nil, r.model.tail, version), Options{Digests: true})
		if err != nil {
			t.Fatal(err)
		}
		s.Observe(tail, segment.Mark{Kind: segment.BatchContinue}, []byte("9/4/3"))
		s.Observe(tail+1, segment.Mark{Kind: segment.BatchContinue}, []byte("9/4/4"))
		got := s.Classify(9, 4)
		want := Digest{}
		if version == SnapshotV2 {
			want = DigestOf([]byte("9/4/0"), []byte("9/4/1"), []byte("9/4/2"), []byte("9/4/3"), []byte("9/4/4"))
		}
		if got.Verdict != Held || got.Digest != want {
			t.Fatalf("version %d: %+v, want digest %+v", version, got, want)
		}
	}
}

func TestADigestIsUnknownOnceARecordWentBy(t *testing.T) {
	r := busy(true)
	s, tail, err := Decode(r.state.AppendTo(nil, r.model.tail, SnapshotV2), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Classify(0, 0).Digest; !got.Known {
		t.Fatal("the digest that was read is lost")
	}
	s.Observe(tail, segment.Mark{Kind: segment.BatchContinue}, []byte("9/4/3"))
	if got := s.Classify(9, 4); got.Verdict != Partial || got.Digest.Known {
		t.Fatalf("%+v", got)
	}
}

func TestOnlyKnownDigestsContradict(t *testing.T) {
	a, b := DigestOf([]byte("a")), DigestOf([]byte("b"))
	if !a.Contradicts(b) || a.Contradicts(a) || a.Contradicts(Digest{}) || (Digest{}).Contradicts(a) {
		t.Fatal("wrong")
	}
	if DigestOf([]byte("ab"), nil) == DigestOf([]byte("a"), []byte("b")) {
		t.Fatal("where a record ends makes no difference")
	}
}

func TestASnapshotIsUsableInsideItsLog(t *testing.T) {
	for _, c := range []struct {
		asOf, base, tail uint64
		want             bool
	}{{5, 5, 5, true}, {5, 0, 9, true}, {4, 5, 9, false}, {10, 5, 9, false}, {9, 5, 9, true}} {
		if got := Usable(c.asOf, c.base, c.tail); got != c.want {
			t.Errorf("as of %d in [%d, %d): %v", c.asOf, c.base, c.tail, got)
		}
	}
}

// full is a log at all bounds, with the most bytes a snapshot can have.
func full() (s *State, tail uint64) {
	s = New(Options{Digests: true})
	for sequence := range uint64(BatchesMax) {
		for id := range uint64(ProducersMax) {
			s.Observe(tail, Marks(id, sequence, 1)(0), nil)
			tail++
		}
	}
	s.Observe(tail, Marks(0, BatchesMax, 2)(0), nil)
	return s, tail + 1
}

func TestTheLargestSnapshotHasTheSizeThatIsSaid(t *testing.T) {
	s, tail := full()
	b := s.AppendTo(nil, tail, SnapshotV2)
	if len(b) != SnapshotBytesMax {
		t.Fatalf("%d bytes, SnapshotBytesMax is %d", len(b), SnapshotBytesMax)
	}
	again, _, err := Decode(b, Options{})
	if err != nil || !bytes.Equal(again.AppendTo(nil, tail, SnapshotV2), b) {
		t.Fatalf("does not come back: %v", err)
	}
}

func TestASnapshotIsAppended(t *testing.T) {
	s := goldenState(Options{})
	b := s.AppendTo([]byte("before"), 10, SnapshotV1)
	if want := append([]byte("before"), golden.Bytes(t, "producers-v1")...); !bytes.Equal(b, want) {
		t.Fatalf("%x", b)
	}
}
