package producer

import (
	"encoding/binary"
	"hash/crc32"
	"hash/crc64"
	"sort"

	"felix.local/felix/segment"
)

// model is the slow reference: it keeps every record and derives everything from
// all of them, each time, by the rules as they are written down.
type model struct {
	digests                  bool
	producersMax, batchesMax int

	base, tail uint64
	records    []modelRecord
}

type modelRecord struct {
	offset  uint64
	mark    segment.Mark
	payload []byte
}

type modelBatch struct {
	first  uint64
	len    uint32
	digest Digest
}

type modelOpen struct {
	producer, sequence, first uint64
	len, held                 uint32
	digest                    Digest
}

// modelState is what the records say.
type modelState struct {
	last    map[uint64]uint64
	batches map[uint64][]modelBatch
	open    *modelOpen
}

func (m *model) observe(mark segment.Mark, payload []byte) uint64 {
	offset := m.tail
	m.records = append(m.records, modelRecord{offset, mark, payload})
	m.tail++
	return offset
}

func (m *model) prune(base uint64) { m.base = max(m.base, base) }

// cut takes back everything from tail on.
func (m *model) cut(tail uint64) {
	n := sort.Search(len(m.records), func(i int) bool { return m.records[i].offset >= tail })
	m.records, m.tail = m.records[:n], tail
}

// state goes over all records that are not pruned.
func (m *model) state() *modelState {
	s := &modelState{last: map[uint64]uint64{}, batches: map[uint64][]modelBatch{}}
	for _, r := range m.records {
		if r.offset < m.base {
			continue
		}
		switch r.mark.Kind {
		case segment.BatchOpen:
			s.open = &modelOpen{producer: r.mark.Producer, sequence: r.mark.Sequence, first: r.offset, len: r.mark.Len, held: 1}
			s.open.digest.Known = m.digests
			s.open.digest = modelDigest(s.open.digest, r.payload)
			if s.open.len <= 1 {
				m.complete(s)
			}
		case segment.BatchContinue:
			if s.open == nil || s.open.first+uint64(s.open.held) != r.offset {
				s.open = nil
				break
			}
			s.open.held++
			s.open.digest = modelDigest(s.open.digest, r.payload)
			if s.open.held >= s.open.len {
				m.complete(s)
			}
		default:
			s.open = nil
		}
	}
	if s.open != nil && s.open.first+uint64(s.open.held) < m.tail {
		s.open = nil
	}
	return s
}

func (m *model) complete(s *modelState) {
	o := s.open
	s.open = nil
	if last, known := s.last[o.producer]; !known || o.sequence != last+1 {
		s.batches[o.producer] = nil
	}
	s.last[o.producer] = o.sequence
	kept := append(s.batches[o.producer], modelBatch{o.first, o.held, o.digest})
	if len(kept) > m.batchesMax {
		kept = kept[1:]
	}
	s.batches[o.producer] = kept
	if len(s.batches) <= m.producersMax {
		return
	}
	var lowest, lowestEnd uint64
	first := true
	for id, batches := range s.batches {
		newest := batches[len(batches)-1]
		if end := newest.first + uint64(newest.len); first || end < lowestEnd {
			lowest, lowestEnd, first = id, end, false
		}
	}
	delete(s.batches, lowest)
	delete(s.last, lowest)
}

// modelDigest is written out byte by byte, with the polynomial of the format.
func modelDigest(d Digest, payload []byte) Digest {
	if !d.Known {
		return d
	}
	table := crc64.MakeTable(0xC96C5795D7870F42)
	r := crc64.Checksum(append(binary.BigEndian.AppendUint64(nil, uint64(len(payload))), payload...), table)
	both := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, d.Value), r)
	return Digest{Value: crc64.Checksum(both, table), Known: true}
}

// classify follows the table, top to bottom.
func (s *modelState) classify(producer, sequence uint64) Class {
	if o := s.open; o != nil && o.producer == producer && o.sequence == sequence {
		return Class{
			Verdict: Partial, First: o.first, Last: o.first + uint64(o.held) - 1,
			Held: o.held, Len: o.len, Digest: o.digest,
		}
	}
	last, known := s.last[producer]
	if !known {
		return Class{Verdict: Unknown}
	}
	if sequence == last+1 {
		return Class{Verdict: Next, Expected: last + 1}
	}
	if sequence > last {
		return Class{Verdict: Gap, Expected: last + 1}
	}
	batches := s.batches[producer]
	oldest := last - uint64(len(batches)) + 1
	if sequence < oldest {
		return Class{Verdict: Expired, Expected: last + 1}
	}
	b := batches[sequence-oldest]
	return Class{
		Verdict: Held, First: b.first, Last: b.first + uint64(b.len) - 1,
		Held: b.len, Len: b.len, Digest: b.digest,
	}
}

// snapshot writes the layout down once more.
func (s *modelState) snapshot(asOf uint64, version uint16) []byte {
	u16, u32, u64 := binary.BigEndian.AppendUint16, binary.BigEndian.AppendUint32, binary.BigEndian.AppendUint64
	digest := func(b []byte, d Digest) []byte {
		switch {
		case version == 1:
			return b
		case d.Known:
			return u64(append(b, 1), d.Value)
		default:
			return u64(append(b, 0), 0)
		}
	}
	body := []byte{0}
	if o := s.open; o != nil {
		body = u32(u64(u32(u64(u64([]byte{1}, o.producer), o.sequence), o.len), o.first), o.held)
		body = digest(body, o.digest)
	}
	for _, id := range s.producers() {
		batches := s.batches[id]
		body = u16(u64(u64(body, id), s.last[id]), uint16(len(batches)))
		for _, b := range batches {
			body = digest(u32(u64(body, b.first), b.len), b.digest)
		}
	}
	header := u16(u16([]byte("FLPS"), version), 0)
	header = u32(u32(u64(header, asOf), uint32(len(s.batches))), crc32.ChecksumIEEE(body))
	return append(header, body...)
}

func (s *modelState) producers() []uint64 {
	ids := make([]uint64, 0, len(s.batches))
	for id := range s.batches {
		ids = append(ids, id)
	}
	sort.Slice(ids, func(i, j int) bool { return ids[i] < ids[j] })
	return ids
}
