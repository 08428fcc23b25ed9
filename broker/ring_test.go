package broker

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// sliceRing is the ring as anybody would write it who had memory and time.
type sliceRing struct {
	limit      int
	limitBytes int64
	oldest     uint64
	entries    []entry
}

func (m *sliceRing) end() uint64 { return m.oldest + uint64(len(m.entries)) }

func (m *sliceRing) bytes() (n int64) {
	for _, e := range m.entries {
		n += int64(len(e.payload))
	}
	return n
}

func (m *sliceRing) drop(n int) {
	m.entries = append([]entry(nil), m.entries[n:]...)
	m.oldest += uint64(n)
}

func (m *sliceRing) push(e entry) {
	m.entries = append(m.entries, e)
	for len(m.entries) > 1 && (len(m.entries) > m.limit || m.bytes() > m.limitBytes) {
		m.drop(1)
	}
}

func (m *sliceRing) reset(next uint64) { m.oldest, m.entries = next, nil }

func (m *sliceRing) cut(next uint64) {
	if next <= m.oldest {
		m.reset(next)
	} else if next < m.end() {
		m.entries = m.entries[:next-m.oldest]
	}
}

func TestTheRingHoldsWhatASliceWouldHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 20).Draw(t, "limit")
		limitBytes := rapid.Int64Range(0, 40).Draw(t, "limitBytes")
		r := &ring{limit: limit, limitBytes: limitBytes}
		m := &sliceRing{limit: limit, limitBytes: limitBytes}
		stamp := uint64(0)
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				stamp++
				size := rapid.IntRange(0, 50).Draw(t, "size")
				e := entry{stamp, bytes.Repeat([]byte{byte(stamp)}, size), int64(size)}
				r.push(e)
				m.push(e)
			},
			"drop": func(t *rapid.T) {
				if len(m.entries) == 0 {
					t.Skip("empty")
				}
				r.drop()
				m.drop(1)
			},
			"cut": func(t *rapid.T) {
				low := m.oldest - min(m.oldest, 3)
				next := rapid.Uint64Range(low, m.end()).Draw(t, "next")
				r.cut(next)
				m.cut(next)
			},
			"reset": func(t *rapid.T) {
				next := rapid.Uint64Range(0, 1000).Draw(t, "next")
				r.reset(next)
				m.reset(next)
			},
			"": func(t *rapid.T) { sameRing(t, r, m) },
		})
	})
}

func sameRing(t *rapid.T, r *ring, m *sliceRing) {
	if r.oldest != m.oldest || r.end() != m.end() || r.bytes != m.bytes() {
		t.Fatalf("the ring holds [%d, %d) and %d bytes, the slice [%d, %d) and %d", r.oldest, r.end(), r.bytes, m.oldest, m.end(), m.bytes())
	}
	for i, want := range m.entries {
		offset := m.oldest + uint64(i)
		if !r.holds(offset) {
			t.Fatalf("%d is not held", offset)
		}
		if got := r.at(offset); got.timestamp != want.timestamp || !bytes.Equal(got.payload, want.payload) {
			t.Fatalf("%d is record %d, want %d", offset, got.timestamp, want.timestamp)
		}
	}
	if r.holds(m.end()) || m.oldest > 0 && r.holds(m.oldest-1) {
		t.Fatal("it claims what lies beside it")
	}
	held := 0
	for _, slot := range r.slots {
		if slot.payload != nil {
			held++
		}
	}
	if held != r.count {
		t.Fatalf("%d slots keep a payload alive for %d records", held, r.count)
	}
	if len(r.slots) > 2*max(8, m.limit) {
		t.Fatalf("%d slots for at most %d records", len(r.slots), m.limit)
	}
}

func TestAnIdleRingTakesNoMemory(t *testing.T) {
	r := ring{limit: 1 << 20, limitBytes: 1 << 30}
	r.reset(77)
	if r.slots != nil {
		t.Errorf("%d slots before the first record", len(r.slots))
	}
}
