package engine_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/anishathalye/porcupine"
)

// historyRecorder writes a history down while clients make it. Its moments are
// those of one counter, so that no two are the same.
type historyRecorder struct {
	mu sync.Mutex
	// now is the last moment given out.
	now int64
	ops []porcupine.Operation
	// open are the operations that end with the epoch: nobody was told before
	// what they did.
	open []int
	// epoch counts openings; over says that the log of this one has ended.
	epoch int
	over  bool
	// poisonedAt is when somebody was first told that the log is poisoned, 0
	// before.
	poisonedAt int64
	// opened is when this epoch began.
	opened int64
	// payloads are the records appended, by number.
	payloads []string
	// lanes counts those of the picture that an operation has to itself, since it
	// overlaps what the same client did next.
	lanes int
}

// historyLane is where the picture shows what the log itself did, next to its
// clients.
const historyLane = historyClients

func (r *historyRecorder) tickLocked() int64 {
	r.now++
	return r.now
}

// begin gives the moment of a call; not ok says that the log has ended.
func (r *historyRecorder) begin() (call int64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tickLocked(), !r.over
}

// end writes down what a call returned, as result tells it. What returned after
// the log had ended was told to nobody: a change may have happened, and a look at
// the log is forgotten.
func (r *historyRecorder) end(client int, call int64, err error, result func(lost bool) []*historyOp) {
	r.mu.Lock()
	defer r.mu.Unlock()
	moment := r.tickLocked()
	if !r.over && r.poisonedAt == 0 && isPoisoned(err) {
		r.poisonedAt = moment
	}
	for _, op := range result(r.over) {
		if op.kind == opAppend && op.outcome == outcomeUnknown && r.poisonedAt != 0 && r.poisonedAt < call {
			op.outcome = outcomeNone // a poisoned log accepts no more
		}
		r.addLocked(client, call, moment, op)
	}
}

func (r *historyRecorder) addLocked(client int, call, moment int64, op *historyOp) {
	op.epoch = r.epoch
	if op.outcome == outcomeUnknown {
		r.lanes++
		client = historyLane + r.lanes
		r.open = append(r.open, len(r.ops))
	}
	if op.kind == opTruncated {
		call = moment
	}
	r.ops = append(r.ops, porcupine.Operation{ClientId: client, Input: op, Call: call, Return: moment})
}

// endEpoch writes down how the log ended, with what it was opened again, and lets
// everything that was under way end with it.
func (r *historyRecorder) endEpoch(at int64, poison, reopen *historyOp) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if poison != nil {
		moment := r.poisonedAt
		if moment == 0 {
			moment, poison.outcome = at, outcomeUnknown
		}
		r.addLocked(historyLane, r.opened, moment, poison)
	}
	moment := r.tickLocked()
	r.addLocked(historyLane, at, moment, reopen)
	for _, i := range r.open {
		r.ops[i].Return = moment
	}
	r.open = r.open[:0]
	r.epoch++
	r.over, r.poisonedAt, r.opened = false, 0, moment
}

// name gives records numbers.
func (r *historyRecorder) name(payload func(number int) string, n int) []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = len(r.payloads)
		r.payloads = append(r.payloads, payload(numbers[i]))
	}
	return numbers
}

// text lists the operations by the moment of their return.
func (r *historyRecorder) text() string {
	ops := slices.Clone(r.ops)
	slices.SortStableFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	var b strings.Builder
	for _, o := range ops {
		fmt.Fprintf(&b, "%5d to %5d  client %2d  %v\n", o.Call, o.Return, o.ClientId, o.Input)
	}
	return b.String()
}
