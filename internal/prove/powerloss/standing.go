package powerloss

import (
	"errors"
	"fmt"
	"slices"

	"felix.local/felix/engine"
	"felix.local/felix/sidecar"
)

// standing is what a replica was told beside its records. workload.mu guards it. Of
// what is being changed, the value to come is noted before the call that changes it.
type standing struct {
	promise     sidecar.Promise
	nextPromise *sidecar.Promise
	hold        bool
	nextHold    *bool
	// wrote are the generations that wrote the records, by offset; 0 for none. newest
	// is that of the records to come, 0 until one was begun.
	wrote  []uint64
	newest uint64
	// follows: a shipment was applied, and no generation was begun since.
	follows bool
	// commitMin and commitMax bound the commit offset: what the file is known to
	// say, and what was advanced to.
	commitMin, commitMax uint64
	// resetting: the log is emptied, and the commit offset stays.
	resetting bool
}

// standingExpectation is what an image may hold of it.
type standingExpectation struct {
	promises             []sidecar.Promise
	holds                []bool
	wrote                []uint64
	commitMin, commitMax uint64
	resetting            bool
	// anew is where a reset has the log begin, when that is elsewhere.
	anew *uint64
	// deleting: an empty log may have the name, which was told nothing.
	deleting bool
}

// expect gives what must survive a power loss now.
func (s *standing) expect() *standingExpectation {
	if s == nil {
		return nil
	}
	return &standingExpectation{promises: []sidecar.Promise{s.promise}, holds: []bool{s.hold}, commitMin: s.commitMin}
}

// complete adds what may be there, read after the crash.
func (s *standing) complete(e *standingExpectation) {
	if s == nil {
		return
	}
	e.promises, e.holds = append(e.promises, s.promise), append(e.holds, s.hold)
	if s.nextPromise != nil {
		e.promises = append(e.promises, *s.nextPromise)
	}
	if s.nextHold != nil {
		e.holds = append(e.holds, *s.nextHold)
	}
	e.wrote, e.resetting = s.wrote, s.resetting
	e.commitMin, e.commitMax = min(e.commitMin, s.commitMin), s.commitMax
}

// writing is the generation of the records to come.
func (s *standing) writing() uint64 {
	if s == nil {
		return 0
	}
	return s.newest
}

// writes notes which generation writes the next n records.
func (s *standing) writes(generation uint64, n int) {
	if s == nil {
		return
	}
	s.newest = generation
	for range n {
		s.wrote = append(s.wrote, generation)
	}
}

// begins is where the records of a generation begin, or would.
func (s *standing) begins(generation uint64) uint64 {
	if at := slices.Index(s.wrote, generation); at >= 0 {
		return uint64(at)
	}
	return uint64(len(s.wrote))
}

// cut notes that the records from offset on are gone, and their generations with
// them.
func (s *standing) cut(offset uint64) {
	if s == nil {
		return
	}
	s.wrote = slices.Clip(s.wrote[:offset])
	if s.newest = 0; offset > 0 {
		s.newest = s.wrote[offset-1]
	}
}

// closed notes that a life ended well: the file says the commit offset.
func (s *standing) closed() {
	if s != nil {
		s.commitMin = s.commitMax
	}
}

// copied gives an expectation that can be made stricter by itself.
func (e *standingExpectation) copied() *standingExpectation {
	if e == nil {
		return nil
	}
	c := *e
	return &c
}

// check holds the log of an image against it.
func (e *standingExpectation) check(l *engine.Log, found span, mode engine.FsyncMode) error {
	if e == nil {
		return nil
	}
	var problems []error
	promise := promiseOf(l)
	if e.deleting && found == (span{}) && promise == (sidecar.Promise{}) && !l.RetentionHeld() && len(l.Generations()) == 0 {
		return nil
	}
	if !slices.Contains(e.promises, promise) {
		problems = append(problems, fmt.Errorf("the log holds itself to %+v, and was to hold itself to one of %+v", promise, e.promises))
	}
	for offset := found.base; offset < min(found.tail, uint64(len(e.wrote))); offset++ {
		generation, _ := l.GenerationAt(offset)
		if generation != e.wrote[offset] {
			problems = append(problems, fmt.Errorf("record %d is said to be of generation %d, and is of %d", offset, generation, e.wrote[offset]))
			break
		}
		if generation > promise.Generation {
			problems = append(problems, fmt.Errorf("record %d of generation %d is there, and only %d is accepted", offset, generation, promise.Generation))
			break
		}
	}
	for _, g := range l.Generations() {
		if g.Start > found.tail {
			problems = append(problems, fmt.Errorf("generation %d begins at %d, and the log ends at %d", g.Generation, g.Start, found.tail))
		}
	}
	commit := l.CommitOffset()
	if commit < e.commitMin || commit > e.commitMax {
		problems = append(problems, fmt.Errorf("the commit offset is %d, and was from %d to %d", commit, e.commitMin, e.commitMax))
	}
	if e.anew != nil && found == (span{*e.anew, *e.anew}) && len(l.Generations()) > 0 {
		problems = append(problems, fmt.Errorf("the log was emptied, and has generations: %+v", l.Generations()))
	}
	if commit > found.tail && mode == engine.FsyncOnCommit && !e.resetting {
		problems = append(problems, fmt.Errorf("the commit offset is %d, and the log ends at %d", commit, found.tail))
	}
	if !slices.Contains(e.holds, l.RetentionHeld()) {
		problems = append(problems, fmt.Errorf("retention is held: %v", l.RetentionHeld()))
	}
	return errors.Join(problems...)
}

// begins notes that a reset has the log begin elsewhere: no generation is known there.
func (e *standingExpectation) begins(held, anew uint64) {
	if e != nil && anew != held {
		e.anew = &anew
	}
}

// deletes notes that the log is being deleted.
func (e *standingExpectation) deletes() {
	if e != nil {
		e.deleting = true
	}
}

// served is what an image has to hold once it was open: what was found then.
func (e *standingExpectation) served(l *engine.Log) {
	if e == nil {
		return
	}
	e.promises, e.holds, e.anew, e.deleting = []sidecar.Promise{promiseOf(l)}, []bool{l.RetentionHeld()}, nil, false
	e.commitMin, e.commitMax = l.CommitOffset(), l.CommitOffset()
}

func promiseOf(l *engine.Log) sidecar.Promise {
	leader, givenUp := l.AcceptedLeader()
	return sidecar.Promise{Generation: l.AcceptedGeneration(), Leader: leader, GivenUp: givenUp}
}
