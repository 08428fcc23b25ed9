package simdisk_test

import (
	"fmt"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/internal/simdisk"
)

// visit enumerates and gives the distinct descriptions.
func visit(t *testing.T, d *simdisk.Disk, b simdisk.Bound, describe func(*simdisk.Disk) string) (*simdisk.States, map[string]int) {
	t.Helper()
	s := d.States(b)
	found := map[string]int{}
	for state := range s.All() {
		found[describe(state)]++
	}
	t.Logf("within %+v: %d combinations, exhaustive %v, visited %d, distinct %d", b, s.Total(), s.Exhaustive(), s.Visited, s.Distinct)
	return s, found
}

func TestEnumerationVisitsEachStateOnce(t *testing.T) {
	f := func(d *simdisk.Disk) string { return summary(t, d, "f") }
	for _, c := range []struct {
		name  string
		do    func(r *rig)
		bound simdisk.Bound
		total uint64
		want  []string
	}{
		{
			name: "nothing in doubt is one state",
			do:   func(r *rig) { r.writeDsync(r.created("f"), 0, fill('a', page)) },
			want: []string{"a8"}, total: 1,
		},
		{
			name: "two pages, whole",
			do: func(r *rig) {
				f := r.created("f")
				r.writeDsync(f, 0, fill('a', 2*page))
				r.write(f, 0, fill('b', 2*page))
			},
			want: []string{"a16", "a8 b8", "b8 a8", "b16"}, total: 4,
		},
		{
			name: "a page, torn",
			do: func(r *rig) {
				f := r.created("f")
				r.writeDsync(f, 0, fill('a', page))
				r.write(f, 0, fill('b', page))
			},
			bound: simdisk.Bound{Grain: simdisk.TornPages},
			want:  []string{"a8", "b8", "b1 a7", "b2 a6", "b3 a5", "b4 a4", "b5 a3", "b6 a2", "b7 a1"}, total: 9,
		},
		{
			name: "a page of which three sectors changed, any of them",
			do: func(r *rig) {
				f := r.created("f")
				r.writeDsync(f, 0, fill('a', page))
				r.write(f, sector, fill('b', 3*sector))
			},
			bound: simdisk.Bound{Grain: simdisk.AnySectors},
			want: []string{
				"a8", "a1 b1 a6", "a2 b1 a5", "a3 b1 a4", "a1 b2 a5", "a1 b1 a1 b1 a4", "a2 b2 a4", "a1 b3 a4",
			},
			total: 8,
		},
		{
			name: "lengths between, by step, and pages that do not show are one state",
			do: func(r *rig) {
				f := r.created("f")
				r.write(f, 0, fill('b', 3*sector))
			},
			bound: simdisk.Bound{LengthStep: sector},
			want:  []string{"", ".1", ".2", ".3", "b1", "b2", "b3"}, total: 8,
		},
		{
			name: "names",
			do: func(r *rig) {
				r.writeDsync(r.create("f"), 0, fill('a', 1))
				r.writeDsync(r.create("g"), 0, fill('a', 1))
			},
			want: []string{"a1b", "gone"}, total: 4,
		},
		{
			name: "a rename is not lost",
			do: func(r *rig) {
				r.writeDsync(r.created("f.tmp"), 0, fill('a', 1))
				r.must(r.Rename(path("f.tmp"), path("f")))
			},
			want: []string{"a1b", "gone"}, total: 4,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			c.do(r)
			s, found := visit(t, r.Disk, c.bound, f)
			if !s.Exhaustive() || s.Total() != c.total || s.Visited != int(c.total) {
				t.Errorf("%d combinations, exhaustive %v, visited %d; want %d", s.Total(), s.Exhaustive(), s.Visited, c.total)
			}
			for _, state := range c.want {
				if found[state] == 0 {
					t.Errorf("%q was not visited", state)
				}
				delete(found, state)
			}
			if len(found) > 0 {
				t.Error("visited as well:", found)
			}
		})
	}
}

func TestEnumerationTellsWritesUnderWayApart(t *testing.T) {
	r, q, f := stepped(t)
	one := &device.Op{Kind: device.Write, File: f, Buf: fill('b', 2*sector)}
	two := &device.Op{Kind: device.Write, File: f, Buf: fill('c', sector)}
	q.Submit(one, two)
	_, found := visit(t, r.Disk, simdisk.Bound{Grain: simdisk.AnySectors}, func(d *simdisk.Disk) string { return summary(t, d, "f") })
	for _, state := range []string{"a8", "b2 a6", "b1 a7", "a1 b1 a6", "c1 a7", "c1 b1 a6"} {
		if found[state] != 1 {
			t.Errorf("%q was visited %d times", state, found[state])
		}
		delete(found, state)
	}
	if len(found) > 0 {
		t.Error("visited as well:", found)
	}
	r.must(q.Close())
}

func TestBeyondItsBoundAnEnumerationSamples(t *testing.T) {
	r := newRig(t)
	f := r.created("f")
	r.write(f, 0, fill('b', 20*page))
	b := simdisk.Bound{Grain: simdisk.AnySectors, StatesMax: 500, Seed: 1}
	describe := func(d *simdisk.Disk) string { return fmt.Sprint(d.Digest()) }
	s, found := visit(t, r.Disk, b, describe)
	if s.Exhaustive() || s.Total() != 1<<64-1 || s.Visited != 500 || s.Distinct != len(found) || s.Distinct < 200 {
		t.Fatalf("%d combinations, visited %d, distinct %d, %d found", s.Total(), s.Visited, s.Distinct, len(found))
	}
	_, again := visit(t, r.Disk, b, describe)
	for digest := range found {
		if again[digest] == 0 {
			t.Fatal("another sample with the same seed")
		}
	}
	corners := map[string]bool{}
	for state := range r.States(b).All() {
		if s := summary(t, state, "f"); s == "" || s == "b160" {
			corners[s] = true
		}
	}
	if len(corners) != 2 {
		t.Fatal("the corners were not visited:", corners)
	}
}

func TestAnEnumerationMayEndEarly(t *testing.T) {
	r := newRig(t)
	r.write(r.created("f"), 0, fill('b', 4*page))
	s := r.States(simdisk.Bound{})
	for range s.All() {
		break
	}
	if s.Visited != 1 || s.Distinct != 1 {
		t.Fatal(s.Visited, s.Distinct)
	}
}

func TestEverySampledImageIsAmongTheEnumeratedOnes(t *testing.T) {
	r := newRig(t)
	f := r.created("f")
	r.write(f, 0, fill('b', 2*sector))
	r.writeDsync(r.create("g"), 0, fill('c', 1))
	all := map[uint64]bool{}
	s := r.States(simdisk.Bound{Grain: simdisk.TornPages, LengthStep: 1, StatesMax: 1 << 20})
	if !s.Exhaustive() {
		t.Fatal(s.Total())
	}
	for state := range s.All() {
		all[state.Digest()] = true
	}
	images(r.Disk, func(seed uint64, image *simdisk.Disk) {
		if !all[image.Digest()] {
			t.Fatalf("seed %d: %s is missing in the enumeration", seed, summary(t, image, "f"))
		}
	})
}
