package broker

// entry is one record in memory. The payload is shared and never changed.
type entry struct {
	timestamp uint64
	payload   []byte
}

// ring holds the newest records of a shard, contiguous in offsets: at most limit
// of them and at most limitBytes of payload, but always the newest one. It grows
// up to its limit as records come, so that an idle shard costs nothing.
type ring struct {
	limit      int
	limitBytes int64

	slots  []entry // circular, a power of two long or nil
	head   int     // slot of the oldest
	count  int
	bytes  int64
	oldest uint64 // offset of the oldest, and of the next record when empty
}

// entryBytes is what an entry takes beside its payload.
const entryBytes = 32

// weight is the memory that the records take, in bytes.
func (r *ring) weight() int64 { return r.bytes + int64(r.count)*entryBytes }

// end is one past the newest offset held.
func (r *ring) end() uint64 { return r.oldest + uint64(r.count) }

// holds says that offset is in the ring.
func (r *ring) holds(offset uint64) bool { return offset >= r.oldest && offset < r.end() }

// reset empties the ring; the next record is next.
func (r *ring) reset(next uint64) {
	clear(r.slots)
	r.head, r.count, r.bytes, r.oldest = 0, 0, 0, next
}

// push adds the record with offset end().
func (r *ring) push(e entry) {
	for r.count > 0 && (r.count >= r.limit || r.bytes+int64(len(e.payload)) > r.limitBytes) {
		r.drop()
	}
	if r.count == len(r.slots) {
		r.grow()
	}
	r.slots[(r.head+r.count)&(len(r.slots)-1)] = e
	r.count++
	r.bytes += int64(len(e.payload))
}

// drop forgets the oldest record.
func (r *ring) drop() {
	slot := &r.slots[r.head]
	r.bytes -= int64(len(slot.payload))
	*slot = entry{}
	r.head = (r.head + 1) & (len(r.slots) - 1)
	r.count--
	r.oldest++
}

// cut forgets every record at next and after.
func (r *ring) cut(next uint64) {
	if next <= r.oldest {
		r.reset(next)
		return
	}
	for r.end() > next {
		r.count--
		slot := &r.slots[(r.head+r.count)&(len(r.slots)-1)]
		r.bytes -= int64(len(slot.payload))
		*slot = entry{}
	}
}

func (r *ring) grow() {
	slots := make([]entry, max(8, 2*len(r.slots)))
	for i := range r.count {
		slots[i] = r.slots[(r.head+i)&(len(r.slots)-1)]
	}
	r.slots, r.head = slots, 0
}

// at gives the record with an offset that the ring holds.
func (r *ring) at(offset uint64) entry {
	return r.slots[(r.head+int(offset-r.oldest))&(len(r.slots)-1)]
}

// slabBytes is how much memory the payloads of small records share.
const slabBytes = 64 << 10

// slab copies payloads into few allocations. An entry keeps at most one of them
// alive, however large the batch was that it came with.
type slab struct{ used []byte }

// copy takes one payload; left is the bytes still to come, with it.
func (s *slab) copy(b []byte, left int64) []byte {
	if len(b) > cap(s.used)-len(s.used) {
		s.used = make([]byte, 0, max(len(b), int(min(left, slabBytes))))
	}
	start := len(s.used)
	s.used = append(s.used, b...)
	return s.used[start:len(s.used):len(s.used)]
}
