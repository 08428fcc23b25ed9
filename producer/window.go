package producer

// batch is a batch that the log holds all of, at offsets [first, end).
type batch struct {
	first  uint64
	digest Digest
	len    uint32 // at least 1
}

// end is one past the offset of the last record.
func (b batch) end() uint64 { return b.first + uint64(b.len) }

// known is what is known of one producer: its newest batches, whose sequences are
// without a gap and end with last. They are in a ring that grows up to a bound, as
// most producers of a log with many of them are short-lived.
type known struct {
	id   uint64
	last uint64

	ring []batch
	head int // where the oldest stands
	n    int
	// viewed: a View reads what is in the ring, which therefore stays as it is.
	viewed bool
}

// window is a producer's place in a State.
type window struct {
	known
	// older and newer are its neighbours in the order; linked says that it is in
	// the order and in the map.
	older, newer *window
	linked       bool
}

// at gives batch i, counted from the oldest.
func (w *known) at(i int) *batch {
	i += w.head
	if i >= len(w.ring) {
		i -= len(w.ring)
	}
	return &w.ring[i]
}

func (w *known) newest() batch { return *w.at(w.n - 1) }

// push adds the newest batch and gives the one that had to leave for it, if
// bound batches were there.
func (w *known) push(b batch, bound int) (dropped batch, full bool) {
	if full = w.n == bound; full {
		dropped = w.dropOldest()
	}
	w.makeRoom(bound)
	w.n++
	*w.at(w.n - 1) = b
	return dropped, full
}

// unpush takes the newest batch out.
func (w *known) unpush() {
	if w.n > 0 {
		w.n--
	}
}

// restore puts a batch that was dropped back in front.
func (w *known) restore(b batch, bound int) {
	w.makeRoom(bound)
	if w.head == 0 {
		w.head = len(w.ring)
	}
	w.head--
	w.n++
	*w.at(0) = b
}

func (w *known) dropOldest() batch {
	oldest := *w.at(0)
	w.head++
	if w.head == len(w.ring) {
		w.head = 0
	}
	w.n--
	return oldest
}

// makeRoom makes sure that one more batch can be written into the ring: a full one
// grows, to no more than bound, and one that a View reads is left to it.
func (w *known) makeRoom(bound int) {
	size := len(w.ring)
	switch {
	case w.n == size:
		size = max(1, min(bound, 2*size))
	case !w.viewed:
		return
	}
	ring := make([]batch, size)
	for i := range w.n {
		ring[i] = *w.at(i)
	}
	w.ring, w.head, w.viewed = ring, 0, false
}

// prune drops the batches that begin below base.
func (w *known) prune(base uint64) {
	for w.n > 0 && w.at(0).first < base {
		w.dropOldest()
	}
}
