package recovery

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/segment"
)

func (s *shard) sideCopies() []string {
	var names []string
	for name := range s.state() {
		if strings.Contains(name, tornInfix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func TestNewestEightSideCopiesAreKept(t *testing.T) {
	s := newShard(t)
	clock := uint64(1000)
	p := testPolicy()
	p.NowMicros = func() uint64 { clock++; return clock }
	for round := range 12 {
		s.put(0, append(segmentBytes(0, 2), byte(round)))
		if _, err := Open(osDisk(), s.dir, "orders/0", p); err != nil {
			t.Fatal(err)
		}
	}
	names := s.sideCopies()
	if len(names) != 8 {
		t.Fatalf("%d side copies are there: %v", len(names), names)
	}
	for i, name := range names {
		if got := s.read(name); !bytes.Equal(got, []byte{byte(4 + i)}) {
			t.Errorf("%s holds %v, want that of round %d", name, got, 4+i)
		}
	}
}

func TestAgeOfASideCopyIsInItsName(t *testing.T) {
	names := []string{sideCopyName(9, 5), sideCopyName(1, 40), sideCopyName(0, 300)}
	if got := oldestSideCopies(names, 1); !slices.Equal(got, names[:2]) {
		t.Errorf("the oldest are %v", got)
	}
}

func TestFullDiskCutsWithoutACopyOnlyWhatHoldsNoRecord(t *testing.T) {
	whole := segmentBytes(0, 3)
	for _, c := range []struct {
		name string
		b    []byte
		cut  bool
	}{
		{"a short record is cut", whole[:at(2)+50], true},
		{"zeros are cut", append(segmentBytes(0, 2), make([]byte, 4096)...), true},
		{"a bad record is not", flip(whole, at(2)+40), false},
		{"garbage is not", append(segmentBytes(0, 2), bytes.Repeat([]byte{7}, 50)...), false},
	} {
		for _, step := range []faultdisk.Kinds{faultdisk.Create, faultdisk.Write, faultdisk.Flush} {
			t.Run(fmt.Sprintf("C228 %s, full at %v of the copy", c.name, step), func(t *testing.T) {
				s := newShard(t)
				s.put(0, c.b)
				s.mark(0, at(2))
				for i := range uint64(8) {
					s.write(sideCopyName(0, i), []byte("old"))
				}
				before := s.state()
				disk := faultdisk.New(device.OS(), inline{}, faultdisk.Options{})
				disk.Inject(faultdisk.Fault{Kinds: step, Errno: syscall.ENOSPC, Lands: faultdisk.Half, Times: faultdisk.Forever, Path: func(path string) bool {
					return strings.Contains(path, tornInfix)
				}})
				recovered, err := Open(Disk{FS: disk.FS(), Queue: disk.Queue()}, s.dir, "orders/0", testPolicy())
				if step == faultdisk.Write && c.name == "zeros are cut" {
					checkKept(t, s, Decide(&Snapshot{}, Policy{}), recovered, before)
					return // a copy of zeros is one hole
				}
				if copies := s.sideCopies(); len(copies) != 8 {
					t.Errorf("a part of a copy, or a gap among the old ones, is left: %v", copies)
				}
				if !c.cut {
					if !errors.Is(err, device.ErrFull) {
						t.Errorf("opened with %v, want a full disk", err)
					}
					if digest(before) != digest(s.state()) {
						t.Error("the directory changed")
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				checkRecovered(t, s, recovered, testPolicy())
				if r := recovered.Report; len(r.SideCopies) != 0 || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "disk is full") {
					t.Errorf("report: %+v", r)
				}
			})
		}
	}
}

func TestReportCountsWhatWasCut(t *testing.T) {
	s := newShard(t)
	s.sealed(2)
	s.remove(segment.IndexName(0))
	s.write(segment.LogName(1), segmentBytes(5, 5)[:at(4)+10])
	s.write(segment.LogName(2), nil)
	s.mark(1, at(5))
	s.write("notes.txt", nil)
	recovered, err := Open(osDisk(), s.dir, "orders/0", testPolicy())
	if err != nil {
		t.Fatal(err)
	}
	r := recovered.Report
	if r.TruncatedBytes != 10 || r.TruncatedBelowMark != 1 || r.AbandonedRolls != 1 || r.IndexRebuilds != 1 ||
		len(r.SideCopies) != 1 || !slices.Equal(r.Foreign, []string{"notes.txt"}) || r.Duration <= 0 {
		t.Errorf("report: %+v", r)
	}
}

func TestLargeTailIsCopiedWholeWithHolesForZeros(t *testing.T) {
	s := newShard(t)
	tail := bytes.Repeat([]byte{0xee}, 3*bufferBytes+17)
	clear(tail[bufferBytes : 2*bufferBytes])
	s.put(0, append(segmentBytes(0, 1), tail...))
	s.mark(0, at(1))
	recovered, err := Open(osDisk(), s.dir, "orders/0", testPolicy())
	if err != nil {
		t.Fatal(err)
	}
	if got := s.read(recovered.Report.SideCopies[0]); !bytes.Equal(got, tail) {
		t.Error("the copy is not what was cut")
	}
}
