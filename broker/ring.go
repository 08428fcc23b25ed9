package broker

// entry is one record in memory. The payload is shared and never changed.
type entry struct {
	timestamp uint64
	payload   []byte
	// keeps is the memory that goes once this entry does and all before it have: the
	// slab of payloads that it is the last of.
	keeps int64
}

// ring holds the newest records of a shard, contiguous in offsets: at most limit
// of them, in at most limitBytes of payloads' memory, but always the newest one. It
// grows up to its limit as records come, and an empty one holds no memory.
type ring struct {
	limit      int
	limitBytes int64

	slots  []entry // circular, a power of two long or nil
	head   int     // slot of the oldest
	count  int
	bytes  int64  // what all entries keep
	oldest uint64 // offset of the oldest, and of the next record when empty
}

// entryBytes is what a slot takes.
const entryBytes = 40

// weight is the memory that the ring takes, in bytes.
func (r *ring) weight() int64 { return r.bytes + int64(len(r.slots))*entryBytes }

// weightOf is the most that the ring takes once these entries are pushed, beside what it
// takes now.
func (r *ring) weightOf(entries []entry) int64 {
	weight, count := int64(0), 0
	for i := len(entries) - 1; i >= 0 && count < r.limit; i-- {
		if count > 0 && weight+entries[i].keeps > r.limitBytes {
			break
		}
		weight += entries[i].keeps
		count++
	}
	return weight + int64(max(8, 2*(r.count+count)))*entryBytes
}

// end is one past the newest offset held.
func (r *ring) end() uint64 { return r.oldest + uint64(r.count) }

// holds says that offset is in the ring.
func (r *ring) holds(offset uint64) bool { return offset >= r.oldest && offset < r.end() }

// reset empties the ring; the next record is next.
func (r *ring) reset(next uint64) {
	r.slots, r.head, r.count, r.bytes, r.oldest = nil, 0, 0, 0, next
}

// push adds the record with offset end().
func (r *ring) push(e entry) {
	for r.count > 0 && (r.count >= r.limit || r.bytes+e.keeps > r.limitBytes) {
		r.drop()
	}
	if r.count == len(r.slots) {
		r.grow()
	}
	r.slots[(r.head+r.count)&(len(r.slots)-1)] = e
	r.count++
	r.bytes += e.keeps
}

// drop forgets the oldest record.
func (r *ring) drop() {
	if r.count == 1 {
		r.reset(r.oldest + 1)
		return
	}
	slot := &r.slots[r.head]
	r.bytes -= slot.keeps
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
		r.bytes -= slot.keeps
		*slot = entry{}
	}
	// A slab that is cut through is kept by what is its last entry now.
	if last := &r.slots[(r.head+r.count-1)&(len(r.slots)-1)]; last.keeps == 0 && len(last.payload) > 0 {
		last.keeps = slabBytes
		r.bytes += last.keeps
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

// slab makes entries whose payloads share few allocations. An entry keeps at most one
// of them alive, however large the batch was that it came with.
type slab struct{ used []byte }

// add copies a payload into a new entry of the list; left is the bytes still to come,
// with it.
func (s *slab) add(to []entry, timestamp uint64, b []byte, left int64) []entry {
	if len(b) > cap(s.used)-len(s.used) {
		s.used = make([]byte, 0, max(len(b), int(min(left, slabBytes))))
	} else if len(to) > 0 {
		to[len(to)-1].keeps = 0 // it is not the last of its slab
	}
	start := len(s.used)
	s.used = append(s.used, b...)
	return append(to, entry{timestamp, s.used[start:len(s.used):len(s.used)], int64(cap(s.used))})
}
