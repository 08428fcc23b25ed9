package engine_test

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// historyKind is what one operation of a history did.
type historyKind uint8

const (
	// opAppend: records went to first and after, when the outcome is known.
	opAppend historyKind = iota
	// opRead: a read from at gave records, all there are up to historyReadMax.
	opRead
	// opTrimmed: a read from at was told that the log begins at value.
	opTrimmed
	// opBase, opTail, opDurable: the log said value.
	opBase
	opTail
	opDurable
	// opTruncate: a truncation to at. opTruncated ends it: from its return on no
	// half of one is to be seen.
	opTruncate
	opTruncated
	// opTrim begins a retention pass that ends with the base at value, and
	// opTrimDone ends it. Passes that removed at most one segment are opTrimDone
	// alone.
	opTrim
	opTrimDone
	// opSeal: everything below value was sealed and nothing above existed.
	opSeal
	// opSync begins a sync: it covers what readers see at that moment. opSynced
	// ends it: from then on that is durable.
	opSync
	opSynced
	// opPoison: the log was poisoned, and value was its durable bound in the end.
	opPoison
	// opReopen: the log ended, in the way that ending says, and was opened with
	// records from value on.
	opReopen
)

// historyEnding is how a log came to be opened again.
type historyEnding uint8

const (
	// afterClose: it was closed, and Close returned nil.
	afterClose historyEnding = iota
	// afterDeath: the process ended and the page cache stayed.
	afterDeath
	// afterFailure: so it did, after a flush had failed: what the cache had not
	// given to the device may be gone as well.
	afterFailure
	// afterPowerLoss: what the device had not is gone, in any part.
	afterPowerLoss
)

// historyOutcome is what a caller knows of an operation that changes the log.
type historyOutcome uint8

const (
	// outcomeDone: it happened.
	outcomeDone historyOutcome = iota
	// outcomeNone: it did not happen and never will.
	outcomeNone
	// outcomeUnknown: it may have happened, or may still until the log is opened
	// again.
	outcomeUnknown
)

// historyOp is one operation with its result: the input of the model.
type historyOp struct {
	kind    historyKind
	outcome historyOutcome
	// epoch counts the openings of the log before it.
	epoch int
	// records are the numbers that tests give to records; no two appended ones
	// are alike.
	records []int
	// at is an argument, value a result, both offsets.
	at, value uint64
	// first is an append's first offset. placed says that it is known: an append
	// of unknown outcome happens there or nowhere.
	first  uint64
	placed bool
	// call tells apart calls that are made of two operations; 0 for others.
	call   int
	ending historyEnding
}

// historyReadMax is Config.MaxRecordsPerRead of the logs that are checked.
const historyReadMax = 6

// historyLowering is a truncation below the base: readers meet an empty log at the
// old base first, then one that begins where the truncation said.
type historyLowering uint8

const (
	notLowered historyLowering = iota
	// lowering: it goes on, and will be complete.
	lowering
	// maybeLowering: its outcome is unknown.
	maybeLowering
)

// historyState is the trivial log that a real one is to behave like: a base and
// records. The rest of it is what a crash may do to it.
//
// States are never changed: a step copies.
type historyState struct {
	epoch int
	// records begin at head. Readers see those in [base, tail). What lies outside
	// was taken by a trim or truncation of unknown outcome, or was not durable
	// when the log was poisoned, and may be back after a crash. Of a poisoned log
	// readers see at least what is below safe, and at most what is below tail.
	head, base, tail uint64
	records          []int
	// safe is one past the last offset that a power loss must leave, seen one
	// past the last that the death of a process must leave.
	safe, seen uint64
	poisoned   bool
	lowering   historyLowering
	lowered    uint64 // where the log is to begin
	loweredBy  int    // the call of that truncation
	// trims are the retention passes under way, syncs the syncs.
	trims []historyTrim
	syncs []historySync
}

// historySync is a sync that covers what lies below next.
type historySync struct {
	call int
	next uint64
}

// historyTrim is a retention pass that may move the base up to limit.
type historyTrim struct {
	call  int
	limit uint64
}

func (s *historyState) end() uint64 { return s.head + uint64(len(s.records)) }

// hidden: there is something past the tail that a crash may bring back.
func (s *historyState) hidden() bool { return s.end() > s.tail }

// mayBegin says whether a reader may find the log's base at b.
func (s *historyState) mayBegin(b uint64) bool {
	if b == s.base {
		return true
	}
	if b < s.base || b > s.tail {
		return false
	}
	return slices.ContainsFunc(s.trims, func(t historyTrim) bool { return b <= t.limit })
}

// mayEnd says whether a reader may find the log's tail at t.
func (s *historyState) mayEnd(t uint64) bool {
	return t == s.tail || s.poisoned && t >= s.safe && t < s.tail
}

// historyModel checks a log of one fsync mode; onCommit is the one under which
// whatever is acknowledged or read is durable.
type historyModel struct{ onCommit bool }

// promise notes that everything below an offset was acknowledged or read. What a
// poisoned log gives is durable in every mode.
func (m historyModel) promise(s *historyState, next uint64) {
	s.seen = max(s.seen, next)
	if m.onCommit || s.poisoned {
		s.safe = max(s.safe, next)
	}
}

// step is the model: the state after an operation, or nil when the log in this
// state cannot have given this result.
func (m historyModel) step(s *historyState, op *historyOp) *historyState {
	if op.outcome == outcomeNone {
		return s
	}
	if op.epoch != s.epoch {
		// What was under way when the log ended had its chance.
		if op.outcome == outcomeUnknown && op.epoch < s.epoch {
			return s
		}
		return nil
	}
	next := *s
	if !m.apply(&next, op) {
		if s.lowering == notLowered || op.kind == opReopen {
			return nil
		}
		next = *s
		next.lower()
		if !m.apply(&next, op) {
			return nil
		}
		if s.lowering == maybeLowering {
			// It was seen at its new base, and may still be back at the old one.
			next.base, next.tail = s.base, s.tail
		}
	}
	return &next
}

// lower completes a truncation below the base, as far as readers can tell.
func (s *historyState) lower() {
	s.base, s.tail = s.lowered, s.lowered
	s.safe, s.seen = min(s.safe, s.lowered), min(s.seen, s.lowered)
	if s.lowering == lowering {
		s.head, s.records = s.lowered, nil
		s.lowering = notLowered
	}
}

func (m historyModel) apply(s *historyState, op *historyOp) bool {
	switch op.kind {
	case opAppend:
		return m.append(s, op)
	case opRead:
		return m.read(s, op)
	case opTrimmed:
		if op.at >= op.value || !s.mayBegin(op.value) {
			return false
		}
		s.base = op.value
		return true
	case opBase:
		if !s.mayBegin(op.value) {
			return false
		}
		s.base = op.value
		return true
	case opTail:
		if !s.mayEnd(op.value) {
			return false
		}
		m.promise(s, op.value)
		return true
	case opDurable:
		if op.value < s.safe || op.value > s.tail || m.onCommit && !s.mayEnd(op.value) {
			return false
		}
		s.safe, s.seen = op.value, max(s.seen, op.value)
		return true
	case opTruncate:
		return s.truncate(op)
	case opTruncated:
		return s.lowering == notLowered || s.loweredBy != op.call
	case opTrim:
		if s.poisoned {
			return false
		}
		s.trims = append(slices.Clip(s.trims), historyTrim{op.call, op.value})
		return true
	case opTrimDone:
		return s.trimDone(op)
	case opSync:
		s.syncs = append(slices.Clip(s.syncs), historySync{op.call, s.tail})
		return !s.poisoned
	case opSynced:
		return s.synced(op)
	case opSeal:
		s.complete()
		if s.poisoned || op.value != s.tail {
			return false
		}
		s.safe, s.seen = s.tail, s.tail
		return true
	case opPoison:
		return s.poison(op)
	case opReopen:
		return s.reopen(op)
	default:
		panic(fmt.Sprintf("no operation %d", op.kind))
	}
}

// complete: what changes a log waits for a truncation under way, so that one is
// over, whether or not its caller was told.
func (s *historyState) complete() {
	if s.poisoned {
		return
	}
	if s.lowering != notLowered {
		s.lowering = lowering
		s.lower()
	}
	if s.hidden() {
		s.records = slices.Clip(s.records[:s.tail-s.head])
		s.safe, s.seen = s.tail, s.tail
	}
}

func (m historyModel) append(s *historyState, op *historyOp) bool {
	s.complete()
	if op.placed && op.first != s.end() {
		return false
	}
	done := op.outcome == outcomeDone
	if s.poisoned {
		// Readers do not get it any more, but it may be on the device.
		s.records = append(slices.Clip(s.records), op.records...)
		return !done
	}
	s.records = append(slices.Clip(s.records), op.records...)
	s.tail = s.end()
	if done {
		m.promise(s, s.tail)
	}
	return true
}

func (m historyModel) read(s *historyState, op *historyOp) bool {
	if op.at < s.base {
		return false
	}
	n := uint64(len(op.records))
	if n == 0 {
		return op.at >= s.tail || s.poisoned && op.at >= s.safe
	}
	next := op.at + n
	if n > historyReadMax || next > s.tail || n < historyReadMax && !s.mayEnd(next) {
		return false
	}
	m.promise(s, next)
	return slices.Equal(s.records[op.at-s.head:next-s.head], op.records)
}

func (s *historyState) truncate(op *historyOp) bool {
	if s.poisoned {
		return false
	}
	s.complete()
	if op.at >= s.tail {
		return true
	}
	done := op.outcome == outcomeDone
	s.tail = max(op.at, s.base)
	s.lowerSyncs(op.at)
	if op.at < s.base {
		s.lowering, s.lowered, s.loweredBy = maybeLowering, op.at, op.call
		if done {
			s.lowering = lowering
		}
	}
	if !done {
		s.safe, s.seen = min(s.safe, s.tail), min(s.seen, s.tail)
		return true
	}
	s.records = slices.Clip(s.records[:s.tail-s.head])
	s.safe, s.seen = s.tail, s.tail // what stays was flushed first
	return true
}

// lowerSyncs: what was truncated needs no sync any more.
func (s *historyState) lowerSyncs(next uint64) {
	s.syncs = slices.Clone(s.syncs)
	for i := range s.syncs {
		s.syncs[i].next = min(s.syncs[i].next, next)
	}
}

func (s *historyState) synced(op *historyOp) bool {
	begun := slices.IndexFunc(s.syncs, func(y historySync) bool { return y.call == op.call })
	if begun < 0 || s.poisoned {
		return false
	}
	s.safe = max(s.safe, s.syncs[begun].next)
	s.seen = max(s.seen, s.safe)
	s.syncs = slices.Delete(slices.Clone(s.syncs), begun, begun+1)
	return true
}

func (s *historyState) trimDone(op *historyOp) bool {
	begun := slices.IndexFunc(s.trims, func(t historyTrim) bool { return t.call == op.call })
	if op.call != 0 && begun < 0 || s.poisoned || op.value < s.base || op.value > s.tail {
		return false
	}
	if begun >= 0 {
		s.trims = slices.Delete(slices.Clone(s.trims), begun, begun+1)
	}
	s.records = s.records[op.value-s.head:]
	s.head, s.base = op.value, op.value
	return true
}

// poison takes from readers what is not durable. A flush that was under way may
// still raise the bound, up to where it ends.
func (s *historyState) poison(op *historyOp) bool {
	if s.poisoned || op.value < s.safe || op.value > s.tail {
		return false
	}
	s.poisoned = true
	s.tail, s.seen = op.value, s.safe
	return true
}

func (s *historyState) reopen(op *historyOp) bool {
	base, tail := op.value, op.value+uint64(len(op.records))
	lowered := s.lowering != notLowered && base == s.lowered && tail == s.lowered
	if !lowered && !s.mayLeave(op.ending, base, tail) {
		return false
	}
	if !lowered && !slices.Equal(s.records[base-s.head:tail-s.head], op.records) {
		return false
	}
	// Whatever is served after a recovery is on the device.
	*s = historyState{
		epoch: s.epoch + 1, head: base, base: base, tail: tail, records: slices.Clip(op.records),
		safe: tail, seen: tail,
	}
	return true
}

// mayLeave says whether an ending may leave the log with [base, tail).
func (s *historyState) mayLeave(ending historyEnding, base, tail uint64) bool {
	if ending == afterClose {
		return !s.poisoned && s.mayBegin(base) && tail == s.tail
	}
	low := s.safe
	if ending == afterDeath {
		low = s.seen
	}
	return base >= s.head && (base <= s.base || s.mayBegin(base)) && base <= tail && tail >= low && tail <= s.end()
}

func (s *historyState) equal(o *historyState) bool {
	return s.epoch == o.epoch && s.head == o.head && s.base == o.base && s.tail == o.tail &&
		s.safe == o.safe && s.seen == o.seen && s.poisoned == o.poisoned &&
		s.lowering == o.lowering && s.lowered == o.lowered && s.loweredBy == o.loweredBy &&
		slices.Equal(s.trims, o.trims) && slices.Equal(s.syncs, o.syncs) && slices.Equal(s.records, o.records)
}

func (s *historyState) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "[%d, %d) of %d%v", s.base, s.tail, s.head, s.records)
	fmt.Fprintf(&b, ", safe %d, seen %d", s.safe, s.seen)
	if s.poisoned {
		b.WriteString(", poisoned")
	}
	if s.lowering != notLowered {
		fmt.Fprintf(&b, ", will begin at %d", s.lowered)
	}
	if len(s.trims) > 0 {
		fmt.Fprintf(&b, ", trims %v", s.trims)
	}
	return b.String()
}

// checker gives the model in porcupine's terms. The log it begins with is new.
func (m historyModel) checker() porcupine.Model {
	seed := maphash.MakeSeed()
	return porcupine.Model{
		Init: func() any { return &historyState{} },
		Step: func(state, input, _ any) (bool, any) {
			next := m.step(state.(*historyState), input.(*historyOp))
			return next != nil, next
		},
		Equal: func(a, b any) bool { return a.(*historyState).equal(b.(*historyState)) },
		Hash: func(state any) uint64 {
			s := state.(*historyState)
			h := maphash.Comparable(seed, [5]uint64{s.head, s.base, s.tail, s.safe, s.seen})
			return h ^ maphash.Comparable(seed, [3]int{s.epoch, len(s.records), len(s.trims)})
		},
		DescribeOperation: func(input, _ any) string { return input.(*historyOp).String() },
		DescribeState:     func(state any) string { return state.(*historyState).String() },
	}
}

func (op *historyOp) String() string {
	text := op.describe()
	switch op.outcome {
	case outcomeNone:
		return text + ": failed"
	case outcomeUnknown:
		return text + ": outcome unknown"
	default:
		return text
	}
}

func (op *historyOp) describe() string {
	switch op.kind {
	case opAppend:
		if op.placed {
			return fmt.Sprintf("append %v at %d", op.records, op.first)
		}
		return fmt.Sprintf("append %v", op.records)
	case opRead:
		return fmt.Sprintf("read from %d: %v", op.at, op.records)
	case opTrimmed:
		return fmt.Sprintf("read from %d: begins at %d", op.at, op.value)
	case opBase:
		return fmt.Sprintf("base %d", op.value)
	case opTail:
		return fmt.Sprintf("tail %d", op.value)
	case opDurable:
		return fmt.Sprintf("durable %d", op.value)
	case opTruncate:
		return fmt.Sprintf("truncate to %d", op.at)
	case opTruncated:
		return "truncation returned"
	case opTrim:
		return fmt.Sprintf("retention begins, base up to %d", op.value)
	case opTrimDone:
		return fmt.Sprintf("retention, base %d", op.value)
	case opSeal:
		return fmt.Sprintf("seal at %d", op.value)
	case opSync:
		return "sync begins"
	case opSynced:
		return "sync"
	case opPoison:
		return fmt.Sprintf("poisoned, durable %d", op.value)
	case opReopen:
		ending := [...]string{"closed", "process died", "process died after a failed flush", "power lost"}[op.ending]
		return fmt.Sprintf("%s, opened with %d%v", ending, op.value, op.records)
	default:
		return fmt.Sprintf("operation %d", op.kind)
	}
}
