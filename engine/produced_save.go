package engine

import (
	"sync"

	"felix.local/felix/producer"
)

// producersAsOf is what is known of producers as of an offset; without a view it is
// none.
type producersAsOf struct {
	offset uint64
	view   *producer.View
}

// producersSaving is a log's snapshot on its way to the disk. Log.mu protects it.
//
// No append waits for it: it is derived, several megabytes at the bounds, and
// acknowledged records do not need it. At most one waits, which a newer one replaces,
// and one is being written.
type producersSaving struct {
	next producersAsOf
	// asked: the store was asked for a turn. writing: the file is being replaced.
	asked, writing bool
}

// takeProducers gives what a roll has to save; handles of its appends may outlive it.
func (b *batch) takeProducers() *producer.View {
	view := b.producers
	b.producers = nil
	return view
}

// saveProducers has what a roll staged saved, once the retired segment is sealed: a
// snapshot never tells of records that a power loss can take.
func (l *Log) saveProducers(asOf uint64, view *producer.View) {
	if view == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.produced.saving.next = producersAsOf{offset: asOf, view: view}
	l.askToSaveLocked()
}

// maySaveLocked says whether there is something to write now. Exclusive work has the
// file to itself, and a poison may be that of one that was cutting the log.
func (l *Log) maySaveLocked() bool {
	return l.mu.produced.saving.next.view != nil && l.mu.gate == nil && l.mu.poison == nil && !l.mu.closed
}

// askToSaveLocked asks for a turn if one is needed. Exclusive work asks when it ends.
func (l *Log) askToSaveLocked() {
	s := &l.mu.produced.saving
	if s.asked || s.writing || !l.maySaveLocked() {
		return
	}
	s.asked = true
	l.store.producerSavers.ask(l)
}

// saveInTurn writes what waits, if it still may.
func (l *Log) saveInTurn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.mu.produced.saving
	s.asked = false
	if !l.maySaveLocked() {
		return
	}
	next := s.next
	s.next, s.writing = producersAsOf{}, true
	l.mu.Unlock()
	l.writeProducers(next)
	l.mu.Lock()
	s.writing = false
	l.askToSaveLocked()
	l.notifyLocked()
}

// saveProducersNow writes what waits, for a caller that has the log to itself and is
// about to close it.
func (l *Log) saveProducersNow() {
	l.mu.Lock()
	next := l.mu.produced.saving.next
	l.mu.produced.saving.next = producersAsOf{}
	l.mu.Unlock()
	if next.view != nil {
		l.writeProducers(next)
	}
}

// producerSaversMax is how many logs of a store write their snapshots at a time: each
// has up to producer.SnapshotBytesMax encoded meanwhile. When all of them hang, those
// of other logs are not written, and nothing waits for that.
const producerSaversMax = 4

// producerSavers gives logs their turn to write snapshots, in the order they ask. A
// turn takes a goroutine, which goes on with the next log and ends when none waits.
type producerSavers struct {
	mu struct {
		sync.Mutex
		running int
		waiting []*Log
	}
}

// ask is called with the log's lock held.
func (s *producerSavers) ask(l *Log) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.running == producerSaversMax {
		s.mu.waiting = append(s.mu.waiting, l)
		return
	}
	s.mu.running++
	go s.run(l)
}

func (s *producerSavers) run(l *Log) {
	for l != nil {
		l.saveInTurn()
		l = s.next()
	}
}

// next gives the log whose turn it is; without one the goroutine ends.
func (s *producerSavers) next() *Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.waiting) == 0 {
		s.mu.running--
		s.mu.waiting = nil
		return nil
	}
	l := s.mu.waiting[0]
	s.mu.waiting[0] = nil
	s.mu.waiting = s.mu.waiting[1:]
	return l
}
