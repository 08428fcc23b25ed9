package segment

import "testing"

func TestNamesAreTwentyDigits(t *testing.T) {
	mustEqual(t, "00000000000000000000.log", LogName(0))
	mustEqual(t, "00000000000000000007.index", IndexName(7))
	mustEqual(t, "18446744073709551615.log", LogName(1<<64-1))
	for _, id := range []uint64{0, 7, 1<<64 - 1} {
		if got, ok := ParseLogName(LogName(id)); !ok || got != id {
			t.Fatal(id, got, ok)
		}
		if got, ok := ParseIndexName(IndexName(id)); !ok || got != id {
			t.Fatal(id, got, ok)
		}
	}
}

func TestOtherNamesAreNotOurs(t *testing.T) {
	for _, name := range []string{
		"", ".log", "1.log", "0000000000000000000.log", "000000000000000000000.log",
		"00000000000000000000.LOG", "00000000000000000000.log.gz", "00000000000000000000.index",
		"00000000000000000000", "+0000000000000000000.log", "-0000000000000000000.log",
		"0000000000000000000x.log", "0000000000_000000000.log", "18446744073709551616.log",
		"99999999999999999999.log", "００００００.log", "00000000000000000000.log.torn-1",
		" 0000000000000000000.log", "lost+found", ".nfs0000000000000001",
	} {
		if id, ok := ParseLogName(name); ok {
			t.Fatalf("%q is taken for segment %d", name, id)
		}
	}
}

func TestTheLastOffsetOfAnEmptySegmentIsItsBase(t *testing.T) {
	for _, c := range []struct {
		d     Descriptor
		last  uint64
		empty bool
	}{
		{Descriptor{}, 0, true},
		{Descriptor{BaseOffset: 5, NextOffset: 5}, 5, true},
		{Descriptor{BaseOffset: 5, NextOffset: 6}, 5, false},
		{Descriptor{BaseOffset: 5, NextOffset: 9}, 8, false},
	} {
		if c.d.LastOffset() != c.last || c.d.Empty() != c.empty {
			t.Fatalf("%+v: %d, %v", c.d, c.d.LastOffset(), c.d.Empty())
		}
	}
}
