package simdisk_test

import (
	"fmt"
	"sort"
	"strings"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/internal/simdisk"
)

const (
	page   = simdisk.PageBytes
	sector = simdisk.SectorBytes
)

// summary renders a file as runs of equal bytes by sector, "a8 b4 .4": eight
// sectors of a, four of b, four of zeros; a last run that is no whole number of
// sectors is given in bytes, "b100b"; a file that is not there is "gone".
func summary(t testing.TB, d *simdisk.Disk, name string) string {
	b := bytesOf(t, d, name)
	if b == nil {
		return "gone"
	}
	type run struct {
		value byte
		n     int
	}
	var runs []run
	for _, v := range b {
		if len(runs) == 0 || runs[len(runs)-1].value != v {
			runs = append(runs, run{v, 0})
		}
		runs[len(runs)-1].n++
	}
	parts := []string{}
	for _, r := range runs {
		value := string(rune(r.value))
		if r.value == 0 {
			value = "."
		}
		if r.n%sector == 0 {
			parts = append(parts, fmt.Sprintf("%s%d", value, r.n/sector))
		} else {
			parts = append(parts, fmt.Sprintf("%s%db", value, r.n))
		}
	}
	return strings.Join(parts, " ")
}

// TestWhatAPowerLossMayLeave is the model as a table: what was done, and every
// state that may follow. Each state has to turn up, and no other.
func TestWhatAPowerLossMayLeave(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(r *rig)
		file string // "f" when empty
		// exactly these; or, with within, at least these and only what within allows
		want   []string
		within func(state string) bool
	}{
		{
			name: "a synced file whose name is durable stays as it is",
			do: func(r *rig) {
				f := r.created("f")
				r.write(f, 0, fill('a', 2*page))
				r.flush(f)
			},
			want: []string{"a16"},
		},
		{
			name: "a synced file whose name is not durable may be gone",
			do: func(r *rig) {
				f := r.create("f")
				r.write(f, 0, fill('a', page))
				r.flush(f)
			},
			want: []string{"a8", "gone"},
		},
		{
			name: "a new file may have nothing but its name",
			do:   func(r *rig) { r.created("f") },
			want: []string{""},
		},
		{
			name: "a flush covers nothing written after it",
			do: func(r *rig) {
				f := r.created("f")
				r.write(f, 0, fill('a', page))
				r.flush(f)
				r.write(f, 0, fill('b', page))
			},
			want: []string{"a8", "b8", "b1 a7", "b2 a6", "b3 a5", "b4 a4", "b5 a3", "b6 a2", "b7 a1"},
		},
		{
			name: "a dsync write covers its own bytes and not those below",
			do: func(r *rig) {
				f := r.created("f")
				r.write(f, 0, fill('a', page))
				r.writeDsync(f, page, fill('b', page))
			},
			want: []string{
				".8 b8", "a8 b8", "a1 .7 b8", "a2 .6 b8", "a3 .5 b8", "a4 .4 b8", "a5 .3 b8", "a6 .2 b8", "a7 .1 b8",
			},
		},
		{
			name: "a dsync write covers its own bytes and not others of their page",
			do: func(r *rig) {
				f := r.created("f")
				r.write(f, 0, fill('a', sector))
				r.writeDsync(f, sector, fill('b', sector))
			},
			want: []string{".1 b1", "a1 b1"},
		},
		{
			name: "a dsync write makes the length up to its end durable",
			do: func(r *rig) {
				f := r.created("f")
				r.writeDsync(f, 0, fill('b', 100))
			},
			want: []string{"b100b"},
		},
		{
			name: "a dsync write leaves a clean page clean",
			do: func(r *rig) {
				f := r.created("f")
				r.writeDsync(f, 0, fill('a', sector))
				r.writeDsync(f, sector, fill('b', sector))
				r.writeDsync(f, 0, fill('c', 1))
			},
			want: []string{"c1b a511b b1"},
		},
		{
			name: "a dsync write does not make a truncation durable",
			do: func(r *rig) {
				f := r.created("f")
				r.writeDsync(f, 0, fill('a', 2*page))
				r.must(f.Truncate(0))
				r.writeDsync(f, 0, fill('b', page))
			},
			want:   []string{"b8", "b8 a8"},
			within: func(s string) bool { return strings.HasPrefix(s, "b8") && !strings.Contains(s, ".") },
		},
		{
			name: "a length may be anything between the durable and the current one",
			do: func(r *rig) {
				f := r.created("f")
				r.write(f, 0, fill('a', 3))
			},
			want: []string{"", ".1b", ".2b", ".3b", "a1b", "a2b", "a3b"},
		},
		{
			name: "a length may be durable without the bytes, which read as zeros",
			do: func(r *rig) {
				f := r.created("f")
				r.write(f, 0, fill('a', sector))
			},
			want: []string{"", ".1", "a1"},
			within: func(s string) bool {
				return !strings.Contains(s, " ")
			},
		},
		{
			name: "a truncation that was not flushed may not have happened",
			do: func(r *rig) {
				f := r.created("f")
				r.writeDsync(f, 0, fill('a', 2))
				r.must(f.Truncate(0))
			},
			want: []string{"", "a1b", "a2b"},
		},
		{
			name: "a flushed truncation stays",
			do: func(r *rig) {
				f := r.created("f")
				r.writeDsync(f, 0, fill('a', 2*page))
				r.must(f.Truncate(page + sector))
				r.flush(f)
			},
			want: []string{"a9"},
		},
		{
			name: "bytes cut off do not come back when the file grows again",
			do: func(r *rig) {
				f := r.created("f")
				r.writeDsync(f, 0, fill('a', 2*page))
				r.must(f.Truncate(sector))
				r.flush(f)
				r.must(f.Truncate(2 * page))
				r.flush(f)
			},
			want: []string{"a1 .15"},
		},
		{
			name: "the rest of the page at a truncation may be zeros at the old length",
			do: func(r *rig) {
				f := r.created("f")
				r.writeDsync(f, 0, fill('a', 2*page))
				r.must(f.Truncate(page / 2))
			},
			want:   []string{"a4", "a16", "a4 .4 a8"},
			within: func(s string) bool { return strings.HasPrefix(s, "a") },
		},
		{
			name: "a reservation shows nowhere",
			do: func(r *rig) {
				f := r.created("f")
				r.writeDsync(f, 0, fill('a', 10))
				r.do(&device.Op{Kind: device.Allocate, File: f, Pos: 0, Len: 1 << 20})
			},
			want: []string{"a10b"},
		},
		{
			name: "what the kernel wrote by itself may be what a power loss leaves",
			do: func(r *rig) {
				f := r.created("f")
				r.writeDsync(f, 0, fill('a', sector))
				for seed := range uint64(8) {
					r.write(f, 0, fill('b', sector))
					r.WriteBack(seed)
				}
				r.write(f, 0, fill('c', sector))
			},
			want: []string{"b1", "c1"},
		},
		{
			name: "an unlinked file may come back as it was synced",
			do: func(r *rig) {
				f := r.created("f")
				r.writeDsync(f, 0, fill('a', page))
				r.must(r.Remove(path("f")))
			},
			want: []string{"a8", "gone"},
		},
		{
			name: "an unlink whose directory was flushed stays",
			do: func(r *rig) {
				r.created("f")
				r.must(r.Remove(path("f")))
				r.flushDir(root)
			},
			want: []string{"gone"},
		},
		{
			name: "a file made under the name of an unlinked one is either",
			do: func(r *rig) {
				f := r.created("f")
				r.writeDsync(f, 0, fill('a', sector))
				r.must(r.Remove(path("f")))
				g := r.create("f")
				r.writeDsync(g, 0, fill('b', sector))
			},
			want: []string{"a1", "b1"},
		},
		{
			name: "a replaced file is the old or the new one and never gone",
			do: func(r *rig) {
				f := r.created("f")
				r.writeDsync(f, 0, fill('a', sector))
				g := r.create("f.tmp")
				r.writeDsync(g, 0, fill('b', sector))
				r.must(r.Rename(path("f.tmp"), path("f")))
			},
			want: []string{"a1", "b1"},
		},
		{
			name: "a rename takes unsynced bytes along and loses them",
			do: func(r *rig) {
				g := r.create("f.tmp")
				r.write(g, 0, fill('b', sector))
				r.must(r.Rename(path("f.tmp"), path("f")))
				r.flushDir(root)
			},
			want:   []string{"", ".1", "b1"},
			within: func(s string) bool { return s != "gone" },
		},
		{
			name: "a file in a directory whose own name is not durable may be gone",
			do: func(r *rig) {
				r.must(r.Mkdir(path("d"), 0o750))
				f := r.create("d/f")
				r.writeDsync(f, 0, fill('a', sector))
				r.flushDir(path("d"))
			},
			file: "d/f",
			want: []string{"a1", "gone"},
		},
		{
			name: "of a directory whose name is durable and entries are not",
			do: func(r *rig) {
				r.must(r.Mkdir(path("d"), 0o750))
				r.flushDir(root)
				f := r.create("d/f")
				r.writeDsync(f, 0, fill('a', sector))
			},
			file: "d/f",
			want: []string{"a1", "gone"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			c.do(r)
			file := c.file
			if file == "" {
				file = "f"
			}
			got := outcomes(t, r.Disk, func(d *simdisk.Disk) string { return summary(t, d, file) })
			for _, state := range c.want {
				if got[state] == 0 {
					t.Errorf("state %q never turned up", state)
				}
			}
			if c.within == nil {
				c.within = func(state string) bool { return contains(c.want, state) }
			}
			for _, state := range keys(got) {
				if !c.within(state) && !contains(c.want, state) {
					t.Errorf("state %q turned up %d times", state, got[state])
				}
			}
		})
	}
}

func contains(list []string, s string) bool {
	for _, other := range list {
		if other == s {
			return true
		}
	}
	return false
}

func keys(m map[string]int) []string {
	list := []string{}
	for k := range m {
		list = append(list, k)
	}
	sort.Strings(list)
	return list
}

func TestARenamedFileIsUnderOneOfItsNamesOrBoth(t *testing.T) {
	r := newRig(t)
	f := r.created("old")
	r.writeDsync(f, 0, fill('a', 1))
	r.must(r.Rename(path("old"), path("new")))
	names := func(d *simdisk.Disk) string { return fmt.Sprint(namesOf(t, d, root)) }
	if got := keys(outcomes(t, r.Disk, names)); fmt.Sprint(got) != "[[new old] [new] [old]]" {
		t.Fatal(got)
	}
	lost := 0
	for seed := range uint64(100) {
		if names(r.Crash(simdisk.CrashOptions{Seed: seed, LoseRenamed: true})) == "[]" {
			lost++
		}
	}
	if lost == 0 {
		t.Fatal("LoseRenamed lost nothing")
	}
}

func TestARenamedDirectoryIsUnderOneNameOnly(t *testing.T) {
	r := newRig(t)
	r.must(r.Mkdir(path("old"), 0o750))
	r.flushDir(root)
	r.must(r.Rename(path("old"), path("new")))
	names := func(d *simdisk.Disk) string { return fmt.Sprint(namesOf(t, d, root)) }
	if got := keys(outcomes(t, r.Disk, names)); fmt.Sprint(got) != "[[new] [old]]" {
		t.Fatal(got)
	}
}

func TestAChainOfRenamesLosesNoFile(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"a", "b"} {
		f := r.created(name)
		r.writeDsync(f, 0, []byte(name))
	}
	r.must(r.Rename(path("b"), path("c")))
	r.must(r.Rename(path("a"), path("b")))
	images(r.Disk, func(seed uint64, image *simdisk.Disk) {
		found := ""
		for _, name := range namesOf(t, image, root) {
			found += string(bytesOf(t, image, name))
		}
		if !strings.Contains(found, "a") || !strings.Contains(found, "b") {
			t.Fatalf("seed %d: %v hold %q", seed, namesOf(t, image, root), found)
		}
	})
}

func TestInOrderWritesAPrefixAndTearsThePageBehindIt(t *testing.T) {
	r := newRig(t)
	f := r.created("f")
	r.writeDsync(f, 0, fill('a', 3*page))
	r.write(f, 0, fill('b', 3*page))
	torn := 0
	for seed := range uint64(300) {
		image := r.Crash(simdisk.CrashOptions{Writeback: simdisk.InOrder, Seed: seed})
		s := summary(t, image, "f")
		parts := strings.Fields(s)
		if len(parts) > 2 || len(parts) == 2 && parts[0][0] != 'b' {
			t.Fatalf("seed %d: %s", seed, s)
		}
		if len(parts) == 2 && parts[0] != "b8" && parts[0] != "b16" {
			torn++
		}
	}
	if torn == 0 {
		t.Fatal("no page was torn")
	}
}

func TestAnySubsetWritesPagesBehindLostOnes(t *testing.T) {
	r := newRig(t)
	f := r.created("f")
	r.writeDsync(f, 0, fill('a', 3*page))
	r.write(f, 0, fill('b', 3*page))
	for seed := range uint64(300) {
		if summary(t, r.Crash(simdisk.CrashOptions{Seed: seed}), "f") == "a8 b8 a8" {
			return
		}
	}
	t.Fatal("the middle page was never the only one written")
}

func TestOneSeedGivesOneImage(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"c", "a", "b"} {
		r.write(r.create(name), 0, fill('a', 5*page+100))
	}
	for seed := range uint64(20) {
		o := simdisk.CrashOptions{Seed: seed}
		if first, second := r.Crash(o).Digest(), r.Crash(o).Digest(); first != second {
			t.Fatalf("seed %d gives two images", seed)
		}
	}
}

func TestTheOriginalGoesOnAndSharesNothingWithItsImages(t *testing.T) {
	r := newRig(t)
	f := r.created("f")
	r.writeDsync(f, 0, fill('a', page))
	image := rigOn(t, r.Crash(simdisk.CrashOptions{}))
	r.write(f, 0, fill('b', sector))
	r.must(r.Rename(path("f"), path("g")))
	if got := summary(t, image.Disk, "f"); got != "a8" {
		t.Fatal("the image changed with the original:", got)
	}
	g := image.open("f", device.ReadWrite)
	image.writeDsync(g, 0, fill('c', 2*sector))
	if got := summary(t, r.Disk, "g"); got != "b1 a7" {
		t.Fatal("the original changed with its image:", got)
	}
	if got := summary(t, image.Disk, "f"); got != "c2 a6" {
		t.Fatal(got)
	}
}

func TestAnImageIsDurableWhole(t *testing.T) {
	r := newRig(t)
	f := r.create("f")
	r.write(f, 0, fill('a', 3*page))
	r.must(r.Mkdir(path("d"), 0o750))
	images(r.Disk, func(seed uint64, image *simdisk.Disk) {
		if doubt := image.Doubt(); doubt != (simdisk.Doubt{}) {
			t.Fatalf("seed %d: %+v", seed, doubt)
		}
		if again := image.Crash(simdisk.CrashOptions{Seed: seed}); again.Digest() != image.Digest() {
			t.Fatalf("seed %d: a second power loss changed the disk", seed)
		}
	})
}

func TestDoubtCountsWhatAPowerLossDecides(t *testing.T) {
	r := newRig(t)
	f := r.created("f")
	r.write(f, 0, fill('a', 2*page))
	r.create("g")
	if got, want := r.Doubt(), (simdisk.Doubt{Names: 1, Files: 1, Pages: 2}); got != want {
		t.Fatalf("%+v, want %+v", got, want)
	}
	r.flush(f)
	r.flushDir(root)
	if got := r.Doubt(); got != (simdisk.Doubt{}) {
		t.Fatalf("%+v", got)
	}
}
