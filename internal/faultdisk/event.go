package faultdisk

import (
	"fmt"
	"path/filepath"
)

// Event is one operation in the record.
type Event struct {
	Kind Kinds
	// Path is the file's or directory's; Name is its last element. They are
	// those of the open, whatever was renamed since.
	Path, Name string
	// To is the target of a rename.
	To string
	// Pos and Len are bytes: of writes and reservations the range, of a
	// truncation the new length in Pos.
	Pos, Len int64
	// Start and End are moments on one clock that all operations share and on
	// which no two things happen at once. Start is the submission or
	// call. End is zero while the operation is under way.
	Start, End int
	// Err is the result, once ended.
	Err error
}

// Before reports whether e had ended when o started: the only order that a disk
// guarantees.
func (e Event) Before(o Event) bool { return e.End != 0 && e.End < o.Start }

// String gives kind, name and what range, for comparing records as text.
func (e Event) String() string {
	s := e.Kind.String() + " " + e.Name
	switch {
	case e.Kind == Rename:
		s += " " + filepath.Base(e.To)
	case e.Kind == Truncate, e.Kind == DropCache:
		s += fmt.Sprintf(" %d", e.Pos)
	case e.Kind&(Writes|Allocate|Read) != 0:
		s += fmt.Sprintf(" %d+%d", e.Pos, e.Len)
	}
	if e.Err != nil {
		s += " failed"
	}
	return s
}

func (d *Disk) recordLocked(e Event) *Event {
	d.mu.clock++
	e.Start = d.mu.clock
	e.Name = filepath.Base(e.Path)
	if e.Kind != Read { // too many, and no rule of order is about them
		d.mu.log = append(d.mu.log, &e)
	}
	return &e
}

// Log returns the operations of these kinds in the order they started, but
// reads, which are only counted.
func (d *Disk) Log(kinds Kinds) []Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	var log []Event
	for _, e := range d.mu.log {
		if e.Kind&kinds != 0 {
			log = append(log, *e)
		}
	}
	return log
}

// ClearLog forgets what was recorded. Counters go on.
func (d *Disk) ClearLog() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.log = nil
}
