package engine_test

import (
	"errors"
	"slices"
	"strings"
	"syscall"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/recovery"
	"felix.local/felix/sidecar"
)

// outcome is what one failed operation may mean for the log; more than one where
// it depends on which of two goroutines came first.
type outcome uint8

const (
	// unnoticed: no call returns an error; at most a counter moves.
	unnoticed outcome = 1 << iota
	// fails: one call returns a typed error, nothing it asked for happened, and
	// everything after it works.
	fails
	// poisons: the call that needed it, and every one after it, returns a
	// *PoisonedError.
	poisons
)

func (o outcome) String() string {
	var names []string
	for i, name := range []string{"unnoticed", "fails", "poisons"} {
		if o&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, " or ")
}

// role is what the file of a failed operation is for.
type role string

const (
	aSegment  role = "segment"
	itsHeader role = "segment header"
	anIndex   role = "index"
	theMark   role = "mark"
	producers role = "producers"
	keysIndex role = "index of keys"
	manifest  role = "manifest"
	directory role = "directory"
	theRoot   role = "root"
	identity  role = "file of the root"
)

// verdictRow is one cell of the table of what a failure means. The first row that
// matches counts.
type verdictRow struct {
	kinds faultdisk.Kinds
	role  role     // "" is any
	steps []string // of the workload; none is any
	full  bool     // only for want of space
	// background narrows the row to logs that roll in the background.
	background bool
	// reserving narrows Allocate: "prepared" for a segment without a header,
	// "first" for a segment's first reservation.
	reserving string
	want      outcome
}

const anyOp = faultdisk.All

// failureTable says what each failure means for the log.
var failureTable = []verdictRow{
	// A mark that is written now and then, by the timer.
	{kinds: faultdisk.Write, role: theMark, want: unnoticed},

	// The index is rebuilt when the log is opened. A flush of it that fails says
	// that the device does.
	{kinds: faultdisk.Flush, role: anIndex, steps: []string{"append", "sync", "seal", "truncate"}, want: poisons},
	{kinds: faultdisk.Flush, role: anIndex, background: true, steps: []string{"read", "retention", "close"}, want: poisons},
	{kinds: faultdisk.Open, role: anIndex, steps: []string{"open"}, want: unnoticed | fails},
	// Retention removes a segment's index first, and nothing when that fails.
	{kinds: faultdisk.Remove, role: anIndex, steps: []string{"retention"}, want: fails},
	{kinds: anyOp, role: anIndex, want: unnoticed},

	// A snapshot of producers saves the next open some reading. One that tells of
	// records that were cut must go.
	{kinds: faultdisk.Remove, role: producers, background: true, steps: []string{"truncate"}, want: poisons | unnoticed},
	{kinds: faultdisk.Remove, role: producers, steps: []string{"truncate"}, want: poisons},
	{kinds: anyOp, role: producers, want: unnoticed},
	// So must an index of a cache's keys; one that cannot be read is removed.
	{kinds: faultdisk.Remove, role: keysIndex, background: true, steps: []string{"truncate"}, want: poisons | unnoticed},
	{kinds: faultdisk.Remove, role: keysIndex, steps: []string{"truncate"}, want: poisons},
	{kinds: anyOp, role: keysIndex, want: unnoticed},
	// What may name copies of what is to be cut has to be read, and nothing was cut yet.
	{kinds: faultdisk.Open, role: manifest, background: true, steps: []string{"truncate"}, want: fails | unnoticed},
	{kinds: faultdisk.Open, role: manifest, steps: []string{"truncate"}, want: fails},

	// A store or log that does not open did nothing.
	{kinds: anyOp, steps: []string{"open"}, want: fails},

	// The mark: a stale one only widens what may be cut. One that was to move
	// back says that more is there than is.
	{kinds: anyOp, role: theMark, background: true, steps: []string{"truncate"}, want: poisons | unnoticed},
	{kinds: anyOp, role: theMark, steps: []string{"truncate"}, want: poisons},
	{kinds: anyOp, role: theMark, background: true, steps: []string{"close"}, want: fails | unnoticed},
	{kinds: anyOp, role: theMark, steps: []string{"close"}, want: fails},
	{kinds: anyOp, role: theMark, want: unnoticed},

	// The last word of a run: every log is closed.
	{kinds: anyOp, role: identity, steps: []string{"close"}, want: fails},
	{kinds: anyOp, role: theRoot, steps: []string{"close"}, want: fails},

	// Every flush, of a file or a directory.
	{kinds: faultdisk.Flushes, want: poisons},

	// Creating the next segment: made again by the next append.
	{kinds: faultdisk.WriteDsync | faultdisk.Write, role: itsHeader, steps: []string{"append", "seal"}, want: fails},
	{kinds: faultdisk.Create, role: aSegment, background: true, want: unnoticed | fails},
	{kinds: faultdisk.Create, role: aSegment, steps: []string{"append", "seal"}, want: fails},
	{kinds: faultdisk.OpenDir, background: true, steps: []string{"truncate"}, want: unnoticed | fails | poisons},
	{kinds: faultdisk.OpenDir, background: true, want: unnoticed | fails},
	{kinds: faultdisk.OpenDir, steps: []string{"append", "seal"}, want: fails},

	// Records.
	{kinds: faultdisk.Write, role: aSegment, want: fails},
	{kinds: faultdisk.WriteDsync, role: aSegment, full: true, want: fails},
	{kinds: faultdisk.WriteDsync, role: aSegment, want: poisons},

	// Reservations.
	{kinds: faultdisk.Allocate, reserving: "prepared", want: unnoticed},
	{kinds: faultdisk.Allocate, reserving: "first", full: true, want: fails},
	{kinds: faultdisk.Allocate, want: unnoticed},

	// Opening a segment changes nothing.
	{kinds: faultdisk.Open, role: aSegment, want: fails},

	// A step of a seal or a truncation; closing only gives reserved blocks back.
	{kinds: faultdisk.Truncate, role: aSegment, background: true, steps: []string{"close"}, want: unnoticed | poisons},
	{kinds: faultdisk.Truncate, role: aSegment, steps: []string{"close"}, want: unnoticed},
	{kinds: faultdisk.Truncate, role: aSegment, want: poisons},

	// Removing: retention comes back for it; a prepared segment that stays is
	// cleared away later; a truncation cannot stop half way.
	{kinds: faultdisk.Remove, role: aSegment, steps: []string{"retention"}, want: fails},
	{kinds: faultdisk.Remove, role: aSegment, background: true, steps: []string{"truncate"}, want: unnoticed | poisons},
	{kinds: faultdisk.Remove, role: aSegment, steps: []string{"truncate"}, want: poisons},
	{kinds: faultdisk.Remove, role: aSegment, want: unnoticed},
	{kinds: faultdisk.OpenDir, steps: []string{"retention"}, want: fails},
	{kinds: faultdisk.OpenDir, steps: []string{"truncate"}, want: poisons},
	{kinds: faultdisk.OpenDir, steps: []string{"close"}, want: fails},
}

// hit is the operation that the fault hit.
type hit struct {
	event     faultdisk.Event
	role      role
	step      string
	reserving string
	full      bool
}

// hitOf finds it in the record.
func hitOf(log []faultdisk.Event, errno syscall.Errno, step string) (hit, bool) {
	at := slices.IndexFunc(log, func(e faultdisk.Event) bool { return errors.Is(e.Err, errno) })
	if at < 0 {
		return hit{}, false
	}
	e := log[at]
	h := hit{event: e, step: step, role: directory, full: errno == syscall.ENOSPC || errno == syscall.EDQUOT}
	switch {
	case strings.HasSuffix(e.Name, ".log"):
		h.role = aSegment
		if e.Kind&faultdisk.Writes != 0 && e.Pos == 0 {
			h.role = itsHeader
		}
	case strings.HasSuffix(e.Name, ".index"):
		h.role = anIndex
	case e.Name == recovery.MarkName:
		h.role = theMark
	case strings.HasPrefix(e.Name, engine.ProducersName):
		h.role = producers
	case e.Name == sidecar.KeysIndexName:
		h.role = keysIndex
	case e.Name == sidecar.OffloadName:
		h.role = manifest
	case strings.HasPrefix(e.Name, sidecar.RunStateName), strings.HasPrefix(e.Name, sidecar.StorageIDName):
		h.role = identity
	case e.Kind&(faultdisk.FlushDir|faultdisk.OpenDir) != 0 && e.Name != testKey(0).DirName():
		h.role = theRoot
	}
	if e.Kind == faultdisk.Allocate {
		h.reserving = reservationKind(log[:at], e)
	}
	return h, true
}

// reservationKind looks back at what was done to the file since it was made or
// opened for appending.
func reservationKind(before []faultdisk.Event, e faultdisk.Event) string {
	written := false
	for _, b := range slices.Backward(before) {
		if b.Path != e.Path {
			continue
		}
		switch b.Kind {
		case faultdisk.Allocate:
			return "later"
		case faultdisk.Open, faultdisk.Truncate:
			return "first"
		case faultdisk.Create:
			if !written {
				return "prepared"
			}
			return "first"
		case faultdisk.Write, faultdisk.WriteDsync:
			written = true
		}
	}
	return "first"
}

func (h hit) expected(background bool) (outcome, bool) {
	for _, row := range failureTable {
		if row.kinds&h.event.Kind != 0 && (row.role == "" || row.role == h.role) &&
			(len(row.steps) == 0 || slices.Contains(row.steps, h.step)) &&
			(!row.full || h.full) && (!row.background || background) &&
			(row.reserving == "" || row.reserving == h.reserving) {
			return row.want, true
		}
	}
	return 0, false
}

// judge works out what the failure meant, and complains about errors of the
// wrong type.
func (r *faultRun) judge(errno syscall.Errno) outcome {
	poisoned := false
	for i, e := range r.errs {
		r.step = e.step
		var (
			onDevice *device.Error
			poison   *engine.PoisonedError
			full     *engine.FullError
			other    *engine.LogError
		)
		switch {
		case !errors.As(e.err, &onDevice) || !errors.Is(e.err, errno) || onDevice.Path == "":
			r.problem("the error does not name the operation that failed: %v", e.err)
		case errors.As(e.err, &poison):
			poisoned = true
		case poisoned:
			r.problem("an error that is no poison after one that was: %v", e.err)
		case i > 0:
			r.problem("a second error: %v", e.err)
		case device.ClassOf(e.err) == device.ClassFull && !errors.As(e.err, &full) && !errors.Is(e.err, engine.ErrFull):
			r.problem("a full disk gave %T: %v", e.err, e.err)
		case device.ClassOf(e.err) != device.ClassFull && !errors.As(e.err, &other):
			r.problem("got %T: %v", e.err, e.err)
		}
	}
	switch {
	case poisoned:
		return poisons
	case len(r.errs) > 0:
		return fails
	default:
		return unnoticed
	}
}
