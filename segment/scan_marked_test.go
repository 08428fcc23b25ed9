package segment

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// Records with a mark of a producer, all of them and no others, are what MarkedOnly
// gives, however they lie in the buffer; the result is the same as without.
func TestMarkedRecordsAloneAreGivenWhenAskedFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFile(t)
		if rapid.Bool().Draw(t, "a record larger than the buffer") {
			f.add(20, Mark{Kind: BatchContinue}, bytes.Repeat([]byte{7}, 2*minBufferBytes))
			f.add(21, Mark{}, bytes.Repeat([]byte{8}, 2*minBufferBytes))
		}
		var want, got []Record
		for _, r := range f.records {
			if r.Mark.Kind == BatchOpen || r.Mark.Kind == BatchContinue {
				want = append(want, r)
			}
		}
		o := ScanOptions{Spacing: 64, Buffer: make([]byte, minBufferBytes)}
		all, err := Scan(f.reader(), f.size(), o)
		if err != nil {
			t.Fatal(err)
		}
		o.MarkedOnly = true
		o.Each = func(_ int64, r Record) error {
			r.Payload = bytes.Clone(r.Payload)
			got = append(got, r)
			return nil
		}
		marked, err := Scan(f.reader(), f.size(), o)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Fatalf("%d records, want %d", len(got), len(want))
		}
		for i := range want {
			if got[i].Offset != want[i].Offset || got[i].Mark != want[i].Mark || !bytes.Equal(got[i].Payload, want[i].Payload) {
				t.Fatalf("record %d is %+v, want %+v", i, got[i], want[i])
			}
		}
		if marked.ValidEnd != all.ValidEnd || marked.Records != all.Records || marked.Since != all.Since || len(marked.Entries) != len(all.Entries) {
			t.Fatalf("%+v, want %+v", marked, all)
		}
	})
}
