package segment

import (
	"errors"
	"fmt"
	"testing"
)

func TestEveryCorruptionSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		corruption Corruption
		text       string
	}{
		{Corruption{Kind: SegmentMagic, Found: 0x464c5831}, "not a segment file: magic 0x464c5831"},
		{Corruption{Kind: SegmentVersion, Found: 6}, "segment version 6 is not supported, 2 to 4 are"},
		{Corruption{Kind: SegmentFlags, Found: 1}, "unknown segment flags 0x0001"},
		{Corruption{Kind: SegmentHeaderChecksum, Expected: 1, Found: 0xadeb65e9}, "segment header checksum mismatch: stored 0x00000001, computed 0xadeb65e9"},
		{Corruption{Kind: IndexMagic, Found: 0}, "not an index file: magic 0x00000000"},
		{Corruption{Kind: IndexVersion, Found: 5}, "index version 5 is not supported, 2 to 4 are"},
		{Corruption{Kind: Truncated, Expected: 30, Found: 29}, "truncated: 30 bytes needed, 29 available"},
		{Corruption{Kind: RecordChecksum, Expected: 2, Found: 3}, "record checksum mismatch: stored 0x00000002, computed 0x00000003"},
		{Corruption{Kind: RecordHeaderChecksum, Expected: 0, Found: 0x0fd59b8d}, "record header checksum mismatch: stored 0x00000000, computed 0x0fd59b8d"},
		{Corruption{Kind: RecordTooLarge, Expected: MaxPayloadBytes, Found: 0x08000005}, "record too large: payload of 134217733 bytes, the limit is 67108864"},
		{Corruption{Kind: RecordFlags, Found: 0xc0000002}, "record carries more than one kind: length word 0xc0000002"},
		{Corruption{Kind: OffsetOutOfOrder, Expected: 4, Found: 7}, "offset out of order: expected 4, found 7"},
		{Corruption{Kind: OffsetOutOfOrder, Expected: 1<<64 - 1, Found: 1<<64 - 1}, "offset out of order: found 18446744073709551615, which nothing could follow"},
		{Corruption{Kind: 99}, "corruption kind 99"},
	} {
		t.Run(c.corruption.Kind.String(), func(t *testing.T) {
			mustEqual(t, c.text, c.corruption.Error())
		})
	}
	if len(kindNames) != int(OffsetOutOfOrder)+1 {
		t.Fatal("a kind has no name")
	}
}

func TestTheKnownPartsOfASiteAreNamedInOrder(t *testing.T) {
	for want, site := range map[string]Site{
		"":                                      {},
		"shard a/b/c/0":                         {Shard: "a/b/c/0"},
		"segment 0":                             {HasSegment: true},
		"position 0":                            {HasPosition: true},
		"shard s, segment 3, position 92":       {Shard: "s", Segment: 3, HasSegment: true, Position: 92, HasPosition: true},
		"segment 18446744073709551615":          {Segment: 1<<64 - 1, HasSegment: true},
		"shard s, position 9223372036854775807": {Shard: "s", Position: 1<<63 - 1, HasPosition: true},
	} {
		mustEqual(t, want, site.String())
		text := "truncated: 2 bytes needed, 1 available"
		if want != "" {
			text += " (" + want + ")"
		}
		mustEqual(t, text, (&Corruption{Kind: Truncated, Expected: 2, Found: 1, Site: site}).Error())
	}
}

func TestASiteIsFilledInOnlyWhereItIsUnknown(t *testing.T) {
	inner := &Corruption{Kind: Truncated, Site: Site{Position: 92, HasPosition: true}}
	outer := inner.At("", 3, 0).At("s", 4, 1)
	mustEqual(t, Site{Shard: "s", Segment: 3, HasSegment: true, Position: 92, HasPosition: true}, outer.Site)
	mustEqual(t, Site{Position: 92, HasPosition: true}, inner.Site)
	mustEqual(t, Site{HasSegment: true}, (&Corruption{}).At("", 0, -1).Site)
}

func TestACorruptionIsFoundInAWrappedError(t *testing.T) {
	err := fmt.Errorf("open log: %w", &Corruption{Kind: RecordFlags})
	var c *Corruption
	if !errors.As(err, &c) || c.Kind != RecordFlags {
		t.Fatal(err)
	}
}
