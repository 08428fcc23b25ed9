package engine

import (
	"felix.local/felix/device"
	"felix.local/felix/segment"
)

// reserveFirstMax bounds a segment's first reservation. Reserving whole segments
// from the start would take 256 MiB per shard, idle ones included.
const reserveFirstMax = 1 << 20

// The second reservation takes the rest of the segment, up to reserveWholeMax,
// when that could be done for every segment now open for writing within a quarter
// of the room: the free space above the configured floor. Otherwise reservations
// double.
//
// Each reservation is an extent of the file, and a file in few extents is
// written faster: ext4 keeps up to four in the inode, and from the fifth on a
// dsync write that turns reserved blocks into written ones has one more block of
// metadata to write and wait for (docs/performance.md has the measurement).
const (
	reserveWholeDivisor = 4
	// An extent of ext4 is at most 128 MiB: a longer segment has many anyway.
	reserveWholeMax = 512 << 20
)

// reservation is how much of the active segment has blocks. The file length is
// never changed by it: valid bytes end where the file ends.
type reservation struct {
	// bytes is the position up to which blocks were asked for, backed that up to which
	// they are there.
	bytes, backed int64
	// op is the reservation in flight, nil when there is none, for target bytes.
	op     *device.Op
	target int64
	// doubling says that the whole segment was refused for want of space.
	doubling bool
}

// reserves says that blocks are reserved at all.
func (l *Log) reserves() bool { return l.cfg.Preallocate && !l.store.allocateOff.Load() }

// reservesFirst says that reserve will wait for the segment's first blocks.
func (l *Log) reservesFirst() bool { return l.mu.active.reserve.bytes == 0 && l.reserves() }

// reserve keeps reserved blocks ahead of end, the position where the next write
// ends. A segment's first reservation is waited for, so that a full disk answers
// before anything is written; later ones run beside the writes, and one that
// fails is counted: the writes themselves will tell.
func (l *Log) reserve(file device.File, end int64) error {
	if !l.reserves() {
		return nil
	}
	r := &l.mu.active.reserve // the commit loop's own
	l.reapReservation()
	if r.op != nil || end <= r.bytes/2 {
		return nil
	}
	initial := min(reserveFirstMax, l.cfg.SegmentBytes/16)
	if initial == 0 {
		return nil
	}
	first := r.bytes == 0
	target := max(initial, end)
	if !first {
		target = l.nextReservation(r, end)
	}
	if target <= r.bytes {
		return nil
	}
	// From what is there, not from what was asked for: a reservation that was refused
	// must not become a gap below the next one.
	from := max(r.backed, l.mu.active.size, segment.HeaderSize)
	op := &device.Op{Kind: device.Allocate, File: file, Pos: from, Len: target - from}
	if op.Len <= 0 {
		return nil
	}
	r.op, r.target = op, target
	l.store.queue.Submit(op)
	if !first {
		return nil
	}
	err := op.Wait()
	l.store.keepIfUnknown(op)
	r.op = nil
	switch device.ClassOf(err) {
	case device.ClassNone:
		r.bytes, r.backed = target, target
	case device.ClassFull:
		l.store.counters.full.Add(1)
		return &FullError{Label: l.label, Cause: err}
	case device.ClassOutcomeUnknown:
		return l.poisonWith(err)
	default:
		l.reservationFailed(err, end)
	}
	return nil
}

// nextReservation is the position up to which a segment that is about to be
// written up to end gets blocks, after its first reservation.
func (l *Log) nextReservation(r *reservation, end int64) int64 {
	whole := max(l.cfg.SegmentBytes, end)
	share := l.store.space.room() / reserveWholeDivisor / int64(max(1, l.store.writers.open()))
	if !r.doubling && l.cfg.SegmentBytes <= min(share, reserveWholeMax) {
		return whole
	}
	return min(max(2*r.bytes, 2*end), whole)
}

// reapReservation takes note of a later reservation that has completed.
func (l *Log) reapReservation() {
	r := &l.mu.active.reserve
	if r.op == nil {
		return
	}
	select {
	case <-r.op.Done():
	default:
		return
	}
	l.reservationDone()
}

// awaitReservation waits for a reservation in flight, before its file is cut or
// closed.
func (l *Log) awaitReservation() {
	r := &l.mu.active.reserve
	if r.op == nil {
		return
	}
	<-r.op.Done()
	l.reservationDone()
}

func (l *Log) reservationDone() {
	r := &l.mu.active.reserve
	err := r.op.Err
	l.store.keepIfUnknown(r.op)
	r.op = nil
	if err == nil {
		r.bytes, r.backed = r.target, r.target
		return
	}
	l.reservationFailed(err, r.target)
}

// reservationFailed counts a failure and remembers not to ask for the same
// again with the next write. Where there was no space for the whole segment, as
// under a quota, a smaller reservation may succeed; what the large one got before
// it failed is given back for it, and to others.
func (l *Log) reservationFailed(err error, asked int64) {
	if device.ClassOf(err) == device.ClassOutcomeUnknown {
		_ = l.poisonWith(err)
		return
	}
	if device.ClassOf(err) == device.ClassUnsupported {
		l.store.allocateOff.Store(true)
		return
	}
	l.store.counters.reserveFailures.Add(1)
	w := &l.mu.active
	if device.ClassOf(err) == device.ClassFull && !w.reserve.doubling && asked > 2*w.reserve.bytes {
		w.reserve.doubling = true
		l.giveBackBlocks()
		w.reserve.bytes = max(w.reserve.bytes, w.size) // not the first one again
		return
	}
	w.reserve.bytes = max(w.reserve.bytes, asked)
}
