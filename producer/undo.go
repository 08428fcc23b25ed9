package producer

import "slices"

// undoKind says which change an entry of the journal takes back.
type undoKind uint8

const (
	// undoAdded: the producer was not known before.
	undoAdded undoKind = iota
	// undoExtended: the producer's window got one batch more.
	undoExtended
	// undoForgotten: the producer was known.
	undoForgotten
)

// undo is what it takes to take one change back.
type undo struct {
	kind undoKind
	full bool // dropped had to leave the window
	w    *window
	// prev was before w in the order, and last its newest sequence.
	prev    *window
	last    uint64
	dropped batch
}

// journal keeps the changes since the oldest checkpoint. The open batch is not
// in it: it changes with every record, and a checkpoint has room for all of it.
type journal struct {
	// steps[done:] can still be taken back.
	steps []undo
	done  int
	// points are the checkpoints that are neither rolled back nor forgotten, in
	// the order they were taken.
	points []point
	taken  uint64
	// base is the highest that was pruned to since the oldest of them.
	base uint64
}

// point is the part of a state that its checkpoint copies.
type point struct {
	id   uint64
	step int // index in steps
	next uint64
	open openBatch
}

// Checkpoint is a state that can be returned to. Its zero value is none.
type Checkpoint struct{ id uint64 }

// Checkpoint remembers the state as it is. It has to be ended with Rollback or
// Forget, or by either of another one, as they say: until then a State keeps what
// it takes to return, which grows with every batch that completes.
func (s *State) Checkpoint() Checkpoint {
	j := &s.journal
	j.taken++
	j.points = append(j.points, point{id: j.taken, step: len(j.steps), next: s.next, open: s.open})
	return Checkpoint{id: j.taken}
}

// Rollback makes the state what it was at the checkpoint, less what was pruned
// since, and ends it and all that were taken after it. A checkpoint that was
// ended before is a bug of the caller and panics.
func (s *State) Rollback(cp Checkpoint) {
	j := &s.journal
	at := j.find(cp)
	if at < 0 {
		panic("producer: rollback to a checkpoint that was rolled back or forgotten")
	}
	p := j.points[at]
	for i := len(j.steps) - 1; i >= p.step; i-- {
		s.takeBack(&j.steps[i])
	}
	clear(j.steps[p.step:])
	j.steps = j.steps[:p.step]
	j.points = j.points[:at]
	s.open, s.next = p.open, p.next
	if base := j.base; base > 0 {
		s.Prune(base)
	}
	j.trim()
}

// Forget says that nobody will return to the checkpoint or one taken before it,
// and ends them. For one that was ended before it does nothing.
func (s *State) Forget(cp Checkpoint) {
	j := &s.journal
	if at := j.find(cp); at >= 0 {
		j.points = slices.Delete(j.points, 0, at+1)
		j.trim()
	}
}

// takeBack undoes one change; everything after it was undone. What was pruned
// meanwhile may be missing, or comes back here and is pruned again afterwards.
func (s *State) takeBack(u *undo) {
	if u.w.linked {
		s.unlink(u.w)
	}
	switch u.kind {
	case undoAdded:
	case undoExtended:
		u.w.unpush()
		if u.full {
			u.w.restore(u.dropped, s.maxBatches())
		}
		u.w.last = u.last
		s.link(u.prev, u.w)
	case undoForgotten:
		s.link(u.prev, u.w)
	}
}

func (j *journal) find(cp Checkpoint) int {
	return slices.IndexFunc(j.points, func(p point) bool { return p.id == cp.id })
}

// note keeps a change, if there is a checkpoint that it may have to be undone
// for.
func (j *journal) note(u undo) {
	if len(j.points) > 0 {
		j.steps = append(j.steps, u)
	}
}

func (j *journal) added(w *window) { j.note(undo{kind: undoAdded, w: w}) }

func (j *journal) pruned(base uint64) {
	if len(j.points) > 0 {
		j.base = max(j.base, base)
	}
}

// trim lets go of the changes before the oldest checkpoint, and moves the others
// down when that makes at least half of the room free, so that a log with appends
// always under way neither grows the journal nor copies it all the time.
func (j *journal) trim() {
	if len(j.points) == 0 {
		clear(j.steps)
		j.steps, j.done, j.base = j.steps[:0], 0, 0
		return
	}
	oldest := j.points[0].step
	clear(j.steps[j.done:oldest])
	j.done = oldest
	if j.done <= len(j.steps)/2 {
		return
	}
	kept := copy(j.steps, j.steps[j.done:])
	clear(j.steps[kept:])
	j.steps = j.steps[:kept]
	for i := range j.points {
		j.points[i].step -= j.done
	}
	j.done = 0
}
