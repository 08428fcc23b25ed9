package producer

import (
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"
)

// SnapshotHeader is what a snapshot says of itself.
type SnapshotHeader struct {
	Version uint16
	// AsOf: the state covers every record below this offset.
	AsOf      uint64
	Producers uint32
	sum       uint32
}

// DecodeSnapshotHeader reads the header that b starts with. The error is a
// *SnapshotError. The checksum does not cover the header and is not looked at.
func DecodeSnapshotHeader(b []byte) (SnapshotHeader, error) {
	if len(b) < headerSize {
		return SnapshotHeader{}, &SnapshotError{Fault: FaultTruncated, Expected: headerSize, Found: uint64(len(b))}
	}
	if magic := binary.BigEndian.Uint32(b); magic != snapshotMagic {
		return SnapshotHeader{}, &SnapshotError{Fault: FaultMagic, Expected: snapshotMagic, Found: uint64(magic)}
	}
	h := SnapshotHeader{
		Version:   binary.BigEndian.Uint16(b[atVersion:]),
		AsOf:      binary.BigEndian.Uint64(b[atAsOf:]),
		Producers: binary.BigEndian.Uint32(b[atCount:]),
		sum:       binary.BigEndian.Uint32(b[atSum:]),
	}
	if h.Version != SnapshotV1 && h.Version != SnapshotV2 {
		return SnapshotHeader{}, &SnapshotError{
			Fault: FaultVersion, Expected: uint64(SnapshotV2), Found: uint64(h.Version), Position: atVersion,
		}
	}
	return h, nil
}

// Decode reads a snapshot, of which every byte has to be accounted for, and gives
// the state and the offset it covers everything below. The error is a
// *SnapshotError.
//
// Whether the state fits the log is for Usable to say. If so, Prune it to the
// log's base, observe the records from asOf on, and Settle it at the tail.
//
// The checksum does not cover as_of, and a damaged one is seen only if it is
// below the end of a batch, or if a batch is open. A caller who knows which
// offsets segments begin at should take no other for as_of.
func Decode(b []byte, o Options) (s *State, asOf uint64, err error) {
	return decodeInto(New(o), b)
}

func decodeInto(s *State, b []byte) (*State, uint64, error) {
	h, err := DecodeSnapshotHeader(b)
	if err != nil {
		return nil, 0, err
	}
	if sum := crc32.ChecksumIEEE(b[headerSize:]); sum != h.sum {
		return nil, 0, &SnapshotError{Fault: FaultChecksum, Expected: uint64(h.sum), Found: uint64(sum), Position: atSum}
	}
	d := decoder{b: b, at: headerSize, digests: h.Version == SnapshotV2, asOf: h.AsOf}
	s.next = h.AsOf
	s.open = d.open()
	for _, w := range d.windows(int64(h.Producers), s) {
		s.link(s.order.newest, w)
	}
	if d.err == nil && d.at != len(b) {
		d.refuse("bytes behind the last producer", uint64(d.at), uint64(len(b)))
	}
	if d.err != nil {
		return nil, 0, d.err
	}
	return s, h.AsOf, nil
}

// decoder walks the body. After the first error everything it gives is zero.
type decoder struct {
	b       []byte
	at      int
	digests bool
	asOf    uint64
	err     error
}

func (d *decoder) refuse(what string, expected, found uint64) {
	if d.err == nil {
		d.err = &SnapshotError{Fault: FaultContent, What: what, Expected: expected, Found: found, Position: d.at}
	}
}

// need says whether n more bytes are there.
func (d *decoder) need(n int) bool {
	if left := len(d.b) - d.at; d.err == nil && n > left {
		d.err = &SnapshotError{Fault: FaultTruncated, Expected: uint64(n), Found: uint64(left), Position: d.at}
	}
	return d.err == nil
}

func (d *decoder) u8() (v uint8) {
	if d.need(1) {
		v = d.b[d.at]
		d.at++
	}
	return v
}

func (d *decoder) u16() (v uint16) {
	if d.need(2) {
		v = binary.BigEndian.Uint16(d.b[d.at:])
		d.at += 2
	}
	return v
}

func (d *decoder) u32() (v uint32) {
	if d.need(4) {
		v = binary.BigEndian.Uint32(d.b[d.at:])
		d.at += 4
	}
	return v
}

func (d *decoder) u64() (v uint64) {
	if d.need(8) {
		v = binary.BigEndian.Uint64(d.b[d.at:])
		d.at += 8
	}
	return v
}

func (d *decoder) digest() Digest {
	if !d.digests {
		return Digest{}
	}
	known, value := d.u8(), d.u64()
	switch {
	case known > 1:
		d.refuse("digest flag", 1, uint64(known))
	case known == 0 && value != 0:
		d.refuse("value of a digest that is not known", 0, value)
	}
	return Digest{Value: value, Known: known == 1}
}

// open reads the open batch. It has to end where the snapshot does: if not, a
// record below as_of would have continued or abandoned it.
func (d *decoder) open() openBatch {
	switch flag := d.u8(); {
	case flag > 1:
		d.refuse("open flag", 1, uint64(flag))
		return openBatch{}
	case flag == 0:
		return openBatch{}
	}
	o := openBatch{waiting: true, producer: d.u64(), sequence: d.u64(), len: d.u32(), first: d.u64(), held: d.u32()}
	o.digest = d.digest()
	switch {
	case d.err != nil:
	case o.held == 0 || o.held >= o.len:
		d.refuse("records held of an open batch", uint64(o.len), uint64(o.held))
	case o.first > math.MaxUint64-uint64(o.held) || o.end() != d.asOf:
		d.refuse("end of the open batch", d.asOf, o.end())
	}
	return o
}

// windows reads the producers and gives them by where their newest batch ends.
func (d *decoder) windows(count int64, s *State) []*window {
	if bound := int64(s.maxProducers()); count > bound {
		d.refuse("producers", uint64(bound), uint64(count))
	}
	if d.err != nil || !d.need(int(count)*producerSize) {
		return nil
	}
	windows := make([]*window, 0, count)
	seen := make(map[uint64]struct{}, count)
	limit := d.asOf // where batches have to end
	if s.open.waiting {
		limit = s.open.first
	}
	for range count {
		w := d.window(limit, s.maxBatches())
		if d.err != nil {
			return nil
		}
		if _, twice := seen[w.id]; twice {
			d.refuse("producer listed again", 0, w.id)
			return nil
		}
		seen[w.id] = struct{}{}
		windows = append(windows, w)
	}
	slices.SortFunc(windows, func(a, b *window) int { return cmp.Compare(a.newest().end(), b.newest().end()) })
	return windows
}

// window reads one producer, all of whose batches have to end by limit.
func (d *decoder) window(limit uint64, bound int) *window {
	w := &window{known: known{id: d.u64(), last: d.u64()}}
	n := int(d.u16())
	switch {
	case d.err != nil:
		return nil
	case n == 0:
		d.refuse("batches of a producer, at least", 1, 0)
	case n > bound:
		d.refuse("batches of a producer", uint64(bound), uint64(n))
	case uint64(n-1) > w.last:
		d.refuse("batches before the producer's sequence 0", w.last+1, uint64(n))
	}
	size := batchSize
	if d.digests {
		size += digestSize
	}
	if !d.need(n * size) {
		return nil
	}
	w.ring = make([]batch, n)
	w.n = n
	from := uint64(0)
	for i := range w.ring {
		b := d.batch(from, limit)
		w.ring[i] = b
		from = b.end()
	}
	return w
}

// batch reads one batch of records in [from, limit).
func (d *decoder) batch(from, limit uint64) batch {
	b := batch{first: d.u64(), len: max(1, d.u32())}
	b.digest = d.digest()
	switch {
	case d.err != nil:
	case b.first < from:
		d.refuse("batch that begins inside the one before it", from, b.first)
	case b.first > limit || uint64(b.len) > limit-b.first:
		d.refuse("batch that ends past what the snapshot covers", limit, b.first+uint64(b.len))
	}
	return b
}
