package enumerate

import (
	"encoding/binary"
	"hash/maphash"

	"felix.local/felix/internal/simdisk"
)

// record is what was appended at an offset; its bytes follow from that.
type record struct {
	// incarnation counts the truncations before, so that no two records at one
	// offset are alike.
	incarnation uint32
	size        uint32
}

// payload is unlike that of any other record.
func (r record) payload(offset uint64) []byte {
	b := make([]byte, r.size)
	rand := simdisk.NewRand(offset<<32 ^ uint64(r.incarnation))
	for i := 0; i < len(b); i += 8 {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], rand.Next())
		copy(b[i:], word[:])
	}
	return b
}

// history is a log that may be found: it begins at one of the offsets from
// baseLow to baseHigh, holds everything below held and nothing from written on.
type history struct {
	baseLow, baseHigh, held, written uint64
	// records are those appended, by offset; never changed in place.
	records []record
}

// expectation is what may be found: one of these.
type expectation []history

// hashSeed is one for all expectations of a process, as is that of disk digests.
var hashSeed = maphash.MakeSeed()

// key is equal for expectations that allow the same.
func (e expectation) key() uint64 {
	var h maphash.Hash
	h.SetSeed(hashSeed)
	number := func(numbers ...uint64) {
		for _, n := range numbers {
			var b [8]byte
			binary.LittleEndian.PutUint64(b[:], n)
			h.Write(b[:])
		}
	}
	for _, x := range e {
		number(x.baseLow, x.baseHigh, x.held, x.written)
		for _, r := range x.records[min(x.baseLow, x.written):x.written] {
			number(uint64(r.incarnation)<<32 | uint64(r.size))
		}
	}
	return h.Sum64()
}

// model is what the workload did so far.
type model struct {
	// base is where the log begins, durably.
	base uint64
	// records are those appended, the ones under way included.
	records     []record
	incarnation uint32
	// acked is one past the last record acknowledged, promised one past the last
	// one that is durable by what an operation returned.
	acked, promised uint64
	// cut is the offset of the truncation under way.
	cut     uint64
	cutting bool
	// trimming: retention is under way.
	trimming bool
}

// expect gives what a crash now may leave. durable and base are the log's own
// bounds, read before the crash; onCommit says that what was acknowledged counts
// as durable.
func (m *model) expect(durable, base uint64, onCommit bool) expectation {
	held := max(durable, m.promised)
	if onCommit {
		held = max(held, m.acked)
	}
	written := uint64(len(m.records))
	h := history{baseLow: m.base, baseHigh: m.base, held: held, written: written, records: m.records[:written:written]}
	if m.trimming {
		h.baseHigh = max(base, m.base)
	}
	if !m.cutting {
		return expectation{h}
	}
	h.held = min(held, max(m.cut, m.base))
	e := expectation{h}
	if m.cut < m.base {
		// Emptied below where it began.
		e = append(e, history{baseLow: m.cut, baseHigh: m.cut, held: m.cut, written: m.cut, records: h.records[:m.cut]})
	}
	return e
}

// grow appends records and gives their payloads.
func (m *model) grow(sizes ...int) [][]byte {
	payloads := make([][]byte, len(sizes))
	for i, size := range sizes {
		r := record{m.incarnation, uint32(size)}
		payloads[i] = r.payload(uint64(len(m.records)))
		m.records = append(m.records, r)
	}
	return payloads
}

// cutOff ends the truncation under way: everything from its offset on is gone.
func (m *model) cutOff(offset uint64) {
	m.cutting = false
	m.records = m.records[:offset:offset] // histories keep what they hold
	m.base = min(m.base, offset)
	m.incarnation++
	m.acked, m.promised = offset, offset
}
