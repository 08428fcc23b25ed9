package recovery

import (
	"fmt"
	"testing"

	"felix.local/felix/segment"
)

// markedSegment holds batches of two records, the first of them opened, from base
// on, and a plain record behind each.
func markedSegment(base uint64, batches int) []byte {
	b := segment.Header{Version: 3, BaseOffset: base, CreatedAtMicros: 5}.AppendTo(nil)
	offset := base
	for i := range batches {
		for _, mark := range []segment.Mark{
			{Kind: segment.BatchOpen, Producer: 7, Sequence: base + uint64(i), Len: 2},
			{Kind: segment.BatchContinue},
			{},
		} {
			record := make([]byte, segment.EncodedSize(mark, 3))
			segment.EncodeRecord(record, offset, 9, mark, []byte("abc"))
			b = append(b, record...)
			offset++
		}
	}
	return b
}

// What is given of the marks of the segment that becomes the active one is what the
// log holds after recovery, whatever was cut, and it is given without a read more.
func TestTheMarksOfTheActiveSegmentAreGiven(t *testing.T) {
	for _, cut := range []int{0, 1, 40, 80, 120} {
		s := newShard(t)
		first := markedSegment(0, 3)
		s.put(0, first)
		second := markedSegment(9, 4)
		s.put(1, second[:len(second)-cut])
		given := make(map[uint64][]string)
		p := testPolicy()
		p.Marked = func(id, base uint64) func(segment.Record) {
			given[id] = []string{fmt.Sprint(base)}
			return func(r segment.Record) {
				given[id] = append(given[id], fmt.Sprintf("%d %v %s", r.Offset, r.Mark.Kind, r.Payload))
			}
		}
		recovered, err := Open(osDisk(), s.dir, "label", p)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"9"}
		for offset := uint64(9); offset < recovered.Active.NextOffset; offset++ {
			switch offset % 3 {
			case 0:
				want = append(want, fmt.Sprintf("%d %v abc", offset, segment.BatchOpen))
			case 1:
				want = append(want, fmt.Sprintf("%d %v abc", offset, segment.BatchContinue))
			}
		}
		if recovered.Active.ID != 1 || fmt.Sprint(given[1]) != fmt.Sprint(want) {
			t.Errorf("cut %d: given %v, want %v", cut, given[1], want)
		}
		if cut >= 40 && len(want) == 9 {
			t.Errorf("cut %d: nothing is missing", cut)
		}
	}
}
