package engine_test

import (
	"testing"
	"unsafe"

	"felix.local/felix/engine"
)

// A reader with one page of its own reads a whole log through it: every payload lies
// there, and is right.
func TestALogIsReadThroughOnePage(t *testing.T) {
	r := newRig(t, func(c *engine.Config) { c.SegmentBytes = 64 << 10 })
	const n, size = 200, 1000
	for range n {
		r.appendSizes(size)
	}
	page := make([]byte, 32<<10)
	low := uintptr(unsafe.Pointer(&page[0]))
	high := low + uintptr(len(page))
	for next := uint64(0); next < n; {
		records, after, err := r.log.ReadInto(r.ctx, next, 16<<10, 100, page)
		if err != nil || len(records) == 0 {
			t.Fatalf("at %d: %d records, %v", next, len(records), err)
		}
		for i, record := range records {
			if string(record.Payload) != string(payload(next+uint64(i), size)) {
				t.Fatalf("record %d reads back as %.30q", record.Offset, record.Payload)
			}
			if at := uintptr(unsafe.Pointer(&record.Payload[0])); at < low || at >= high {
				t.Fatalf("record %d lies outside the page", record.Offset)
			}
		}
		next = after
	}
}
