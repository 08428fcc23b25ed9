package blocklog_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"felix.local/felix/test/matrix/powercut/blocklog"
)

const (
	sectorBytes = 512
	diskSectors = 64
)

// made is a log that is written by hand.
type made struct {
	bytes.Buffer
	count uint64
}

func newMade() *made {
	m := &made{}
	m.Write(make([]byte, sectorBytes)) // the superblock, later
	return m
}

// op adds an operation; fill is what every byte of its data is.
func (m *made) op(flags blocklog.Flags, sector, sectors uint64, fill byte) *made {
	return m.raw(uint64(flags), sector, sectors, 0, bytes.Repeat([]byte{fill}, int(sectors)*sectorBytes))
}

func (m *made) raw(flags, sector, sectors, told uint64, data []byte) *made {
	head := make([]byte, sectorBytes)
	for i, n := range []uint64{sector, sectors, flags, told} {
		binary.LittleEndian.PutUint64(head[8*i:], n)
	}
	m.Write(head)
	m.Write(data)
	m.Write(make([]byte, -m.Len()&(sectorBytes-1)))
	m.count++
	return m
}

func (m *made) bytes() []byte {
	b := slices.Clone(m.Bytes())
	for i, n := range []uint64{0x6a736677736872, 1, m.count, sectorBytes} {
		binary.LittleEndian.PutUint64(b[8*i:], n)
	}
	return b
}

func read(t *testing.T, b []byte) *blocklog.Log {
	t.Helper()
	l, err := blocklog.Read(bytes.NewReader(b), int64(len(b)), diskSectors*sectorBytes)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// disk is an image in memory.
type disk []byte

func (d disk) WriteAt(p []byte, at int64) (int, error) {
	if at+int64(len(p)) > int64(len(d)) {
		return 0, errors.New("behind the end of the disk")
	}
	return copy(d[at:], p), nil
}

// build gives the first byte of each of the first sectors.
func build(t *testing.T, l *blocklog.Log, c blocklog.Cut, sectors int) string {
	t.Helper()
	d := disk(bytes.Repeat([]byte{'.'}, diskSectors*sectorBytes))
	if _, _, err := l.Build(d, c); err != nil {
		t.Fatal(err)
	}
	var text []byte
	for i := range sectors {
		sector := d[i*sectorBytes : (i+1)*sectorBytes]
		if bytes.Count(sector, sector[:1]) != sectorBytes {
			t.Fatalf("sector %d is torn inside", i)
		}
		text = append(text, sector[0])
	}
	return string(text)
}

// story is a log with a write of each fate.
func story() *made {
	return newMade().
		op(0, 0, 2, 'a').              // 0: safe from the flush on
		op(blocklog.Flush, 0, 0, 0).   // 1
		op(0, 1, 2, 'b').              // 2: in the cache
		op(blocklog.FUA, 3, 1, 'c').   // 3: safe at once, and alone
		op(blocklog.Discard, 0, 0, 0). // 4
		op(0, 0, 1, 'd').              // 5: in the cache
		op(blocklog.Flush, 0, 0, 0).   // 6
		op(blocklog.Flush|blocklog.FUA, 4, 1, 'e')
}

func TestACutLeavesWhatIsSafeAndTheCacheItsFate(t *testing.T) {
	l := read(t, story().bytes())
	for _, row := range []struct {
		before     int
		kept, lost string
	}{
		{0, ".....", "....."},
		{1, "aa...", "....."},
		{2, "aa...", "aa..."},
		{3, "abb..", "aa..."},
		{4, "abbc.", "aa.c."},
		{6, "dbbc.", "aa.c."},
		{7, "dbbc.", "dbbc."},
		{8, "dbbce", "dbbce"},
	} {
		if got := build(t, l, blocklog.Cut{Before: row.before, Cache: blocklog.Kept}, 5); got != row.kept {
			t.Errorf("after %d, cache kept: %s, want %s", row.before, got, row.kept)
		}
		if got := build(t, l, blocklog.Cut{Before: row.before, Cache: blocklog.Lost}, 5); got != row.lost {
			t.Errorf("after %d, cache lost: %s, want %s", row.before, got, row.lost)
		}
	}
}

func TestAFlushDoesNotCoverItsOwnDataWithoutFUA(t *testing.T) {
	l := read(t, newMade().op(0, 0, 1, 'a').op(blocklog.Flush, 1, 1, 'b').bytes())
	if got := build(t, l, blocklog.Cut{Before: 2, Cache: blocklog.Lost}, 2); got != "a." {
		t.Errorf("got %s", got)
	}
}

func TestChanceLeavesAnyPartOfTheCacheAndNothingElse(t *testing.T) {
	log := newMade().op(0, 0, 1, 's').op(blocklog.Flush, 0, 0, 0).op(0, 1, 4, 'x').op(0, 5, 1, 'y')
	l := read(t, log.bytes())
	seen := make(map[string]bool)
	for seed := range uint64(400) {
		cut := blocklog.Cut{Before: 4, Cache: blocklog.Some, Seed: seed}
		got := build(t, l, cut, 7)
		if got != build(t, l, cut, 7) {
			t.Fatalf("seed %d gives two images", seed)
		}
		if got[0] != 's' || got[6] != '.' {
			t.Fatalf("seed %d: %s", seed, got)
		}
		seen[got] = true
	}
	// 4 sectors of the one and 1 of the other: each combination.
	if len(seen) != 32 {
		t.Errorf("%d images were seen, want 32", len(seen))
	}
}

func TestBuildCountsWhatItLeftOut(t *testing.T) {
	l := read(t, story().bytes())
	for _, row := range []struct {
		cut             blocklog.Cut
		unsafe, dropped int
	}{
		{blocklog.Cut{Before: 6, Cache: blocklog.Kept}, 2, 0},
		{blocklog.Cut{Before: 6, Cache: blocklog.Lost}, 2, 2},
		{blocklog.Cut{Before: 7, Cache: blocklog.Lost}, 0, 0},
	} {
		unsafe, dropped, err := l.Build(make(disk, diskSectors*sectorBytes), row.cut)
		if err != nil || unsafe != row.unsafe || dropped != row.dropped {
			t.Errorf("%v: %d unsafe, %d dropped, %v", row.cut, unsafe, dropped, err)
		}
	}
	if _, _, err := l.Build(disk{}, blocklog.Cut{Before: 99}); err == nil {
		t.Error("a moment behind the log's end is none")
	}
	if _, _, err := l.Build(disk{}, blocklog.Cut{Before: 1}); err == nil {
		t.Error("an image that takes no write must be an error")
	}
}

func TestMomentsLieAroundBarriersAndAreSpread(t *testing.T) {
	log := newMade()
	for range 10 {
		log.op(0, 0, 1, 'a').op(blocklog.Flush, 0, 0, 0).op(0, 1, 1, 'b')
	}
	l := read(t, log.bytes())
	for n, want := range map[int][]int{
		1:   nil,
		2:   {4, 5}, // the first one has a single write in front of it
		3:   {4, 5},
		4:   {4, 5, 16, 17},
		6:   {4, 5, 10, 11, 19, 20},
		100: {1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 19, 20, 22, 23, 25, 26, 28, 29},
	} {
		if diff := cmp.Diff(want, l.Moments(n, 0, len(l.Entries))); diff != "" {
			t.Errorf("%d moments: %s", n, diff)
		}
	}
	if diff := cmp.Diff([]int{4, 5, 7, 8}, l.Moments(9, 2, 8)); diff != "" {
		t.Errorf("of a part: %s", diff)
	}
}

func TestOfNeighboursTheMomentWithMostInTheCacheIsTaken(t *testing.T) {
	log := newMade()
	for _, writes := range []int{1, 3, 2, 0, 5, 4} {
		for range writes {
			log.op(0, 0, 1, 'a')
		}
		log.op(blocklog.Flush, 0, 0, 0)
	}
	l := read(t, log.bytes())
	if diff := cmp.Diff([]int{5, 6, 15, 16}, l.Moments(4, 0, len(l.Entries))); diff != "" {
		t.Error(diff)
	}
}

func TestTheLastWriteBeforeAMomentIsFound(t *testing.T) {
	l := read(t, newMade().op(0, 8, 1, 'a').op(0, 9, 1, 'x').op(0, 8, 1, 'b').op(blocklog.Discard, 8, 0, 0).bytes())
	for before, want := range map[int]int{1: 0, 2: 0, 3: 2, 4: 2} {
		i, ok := l.LastAt(8, before)
		if !ok || i != want {
			t.Errorf("before %d: %d %t, want %d", before, i, ok, want)
		}
	}
	if i, ok := l.LastAt(8, 0); ok {
		t.Errorf("nothing was written, and %d is found", i)
	}
	if b, err := l.Read(2); err != nil || !bytes.Equal(b, bytes.Repeat([]byte{'b'}, sectorBytes)) {
		t.Errorf("%q %v", b, err)
	}
}

func TestMarksOfTheLogAreSkippedWithTheirData(t *testing.T) {
	l := read(t, newMade().raw(uint64(blocklog.Mark), 0, 0, 3, []byte("abc")).op(0, 0, 1, 'a').bytes())
	if got := build(t, l, blocklog.Cut{Before: 2}, 2); got != "a." {
		t.Errorf("got %s", got)
	}
}

func TestADamagedLogIsRefusedWithItsPlace(t *testing.T) {
	for name, damage := range map[string]func(b []byte) []byte{
		"magic":        func(b []byte) []byte { b[0]++; return b },
		"version":      func(b []byte) []byte { b[8] = 2; return b },
		"sector size":  func(b []byte) []byte { b[24], b[25] = 0x10, 0; return b },
		"count":        func(b []byte) []byte { b[20] = 1; return b },
		"cut off":      func(b []byte) []byte { return b[:len(b)-sectorBytes] },
		"no header":    func([]byte) []byte { return nil },
		"flags":        func(b []byte) []byte { b[sectorBytes+16] = 0x20; return b },
		"sector":       func(b []byte) []byte { b[sectorBytes] = diskSectors; return b },
		"data length":  func(b []byte) []byte { b[sectorBytes+30] = 1; return b },
		"sector count": func(b []byte) []byte { b[sectorBytes+15] = 0xff; return b },
	} {
		b := damage(story().bytes())
		_, err := blocklog.Read(bytes.NewReader(b), int64(len(b)), diskSectors*sectorBytes)
		var format *blocklog.FormatError
		if !errors.As(err, &format) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatStandsBehindTheCountIsLeftOut(t *testing.T) {
	b := append(story().bytes(), bytes.Repeat([]byte{0xff}, sectorBytes)...)
	if l := read(t, b); len(l.Entries) != 8 {
		t.Errorf("%d entries", len(l.Entries))
	}
}

func ExampleCut_String() {
	fmt.Println(blocklog.Cut{Before: 12, Cache: blocklog.Some, Seed: 7})
	// Output: after 12 operations, cache some, seed 7
}
