package sidecar

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// copied makes a manifest of copies of (first, last) pairs, numbered from 0 on.
func copied(t testing.TB, pairs ...uint64) Offload {
	t.Helper()
	var o Offload
	for i := 0; i < len(pairs); i += 2 {
		must(t, o.Add(OffloadedCopy{Segment: uint64(i / 2), First: pairs[i], Last: pairs[i+1], Size: 100, Key: "k"}))
	}
	return o
}

func lasts(o Offload) []uint64 {
	var out []uint64
	for _, c := range o.Copies() {
		out = append(out, c.Last)
	}
	return out
}

func TestACutDropsTheCopiesThatHoldItsOffsetsOrLaterOnes(t *testing.T) {
	all := copied(t, 0, 4, 5, 9, 20, 29)
	for cut, want := range map[uint64][]uint64{
		0: nil, 4: nil, 5: {4}, 9: {4}, 10: {4, 9}, 20: {4, 9}, 29: {4, 9}, 30: {4, 9, 29}, math.MaxUint64: {4, 9, 29},
	} {
		o := all
		if dropped := o.TruncateFrom(cut); dropped != (len(want) < 3) || !cmp.Equal(lasts(o), want) {
			t.Errorf("cut at %d: %v, dropped %v; want %v", cut, lasts(o), dropped, want)
		}
	}
	// What is added to one that was cut does not show in the original.
	o := all
	o.TruncateFrom(5)
	must(t, o.Add(OffloadedCopy{Segment: 9, First: 7, Last: 8}))
	if got := lasts(all); !cmp.Equal(got, []uint64{4, 9, 29}) {
		t.Error(got)
	}
	if newest, ok := all.Newest(); !ok || newest.Segment != 2 {
		t.Errorf("%+v, %v", newest, ok)
	}
}

func TestOffsetsAreCoveredByCopiesInARow(t *testing.T) {
	const end = math.MaxUint64
	o := copied(t, 0, 4, 5, 9, 20, 29, 30, end)
	for _, c := range []struct {
		first, end uint64
		want       bool
	}{
		{0, 10, true},
		{3, 7, true},
		{4, 5, true},
		{9, 10, true},
		{20, 40, true},
		{25, end, true},
		{end - 1, end, true},
		{7, 7, true},
		{15, 15, true},
		{0, 11, false},
		{9, 21, false},
		{10, 20, false},
		{10, 11, false},
		{19, 25, false},
		{5, 25, false},
	} {
		if got := o.Covers(c.first, c.end); got != c.want {
			t.Errorf("[%d, %d): %v", c.first, c.end, got)
		}
	}
	if (Offload{}).Covers(0, 1) || !(Offload{}).Covers(1, 1) {
		t.Error("an empty manifest covers an offset, or not even none")
	}
}

func TestACopyIsOfExactlyOneSegment(t *testing.T) {
	o := copied(t, 0, 4, 5, 9)
	if !o.Describes(1, 5, 9, 100) || !o.Describes(0, 0, 4, 100) {
		t.Error("a segment is not found")
	}
	for _, other := range [][4]uint64{{0, 5, 9, 100}, {1, 6, 9, 100}, {1, 5, 8, 100}, {1, 5, 9, 99}, {2, 10, 14, 100}} {
		if o.Describes(other[0], other[1], other[2], other[3]) {
			t.Errorf("%v is taken for a copy", other)
		}
	}
}

func TestACopyThatCouldNotBeReadBackIsNotNoted(t *testing.T) {
	o := copied(t, 0, 4)
	for name, c := range map[string]OffloadedCopy{
		"that ends before it begins":  {First: 6, Last: 5},
		"that overlaps":               {First: 4, Last: 5},
		"of lower offsets":            {First: 0, Last: 1},
		"with a key that is not text": {First: 5, Last: 5, Key: "\xff"},
		"with a key that is too long": {First: 5, Last: 5, Key: strings.Repeat("k", 1<<16)},
	} {
		if err := o.Add(c); !errors.Is(err, ErrContent) || len(o.Copies()) != 1 {
			t.Errorf("%s: %v, %v", name, err, o)
		}
		// Nor is it read.
		bad := Offload{copies: append(o.Copies(), c)}
		if got, err := DecodeOffload(bad.AppendTo(nil)); err == nil {
			t.Errorf("%s was read: %+v", name, got)
		}
	}
	must(t, o.Add(OffloadedCopy{First: 5, Last: 5, Key: strings.Repeat("k", 1<<16-1)}))
	back, err := DecodeOffload(o.AppendTo(nil))
	if diff := cmp.Diff(o, back, values); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// The count is not believed before the entries are there.
func TestAManifestOfManyEntriesThatAreNotThereAllocatesNothing(t *testing.T) {
	b := seal(OffloadName, append([]byte("FLOF\x00\x01\x00\x00\xff\xff\xff\xff"), make([]byte, 1<<10)...))
	if allocs := testing.AllocsPerRun(10, func() {
		if _, err := DecodeOffload(b); !errors.Is(err, ErrShort) {
			t.Error(err)
		}
	}); allocs > 8 {
		t.Errorf("%v allocations", allocs)
	}
}
