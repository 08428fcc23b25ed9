package engine_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"

	"felix.local/felix/engine"
)

// The operations of histories written by hand.

func appended(first uint64, records ...int) historyOp {
	return historyOp{kind: opAppend, records: records, first: first, placed: true}
}

// appending has an unknown outcome; appendingAt says where it happens if it does.
func appending(records ...int) historyOp {
	return historyOp{kind: opAppend, records: records, outcome: outcomeUnknown}
}

func appendingAt(first uint64, records ...int) historyOp {
	return historyOp{kind: opAppend, records: records, first: first, placed: true, outcome: outcomeUnknown}
}

func appendFailed(records ...int) historyOp {
	return historyOp{kind: opAppend, records: records, outcome: outcomeNone}
}

func readFrom(at uint64, records ...int) historyOp {
	return historyOp{kind: opRead, at: at, records: records}
}

func readTrimmed(at, base uint64) historyOp { return historyOp{kind: opTrimmed, at: at, value: base} }

func said(kind historyKind, value uint64) historyOp { return historyOp{kind: kind, value: value} }

func truncatedTo(at uint64) historyOp { return historyOp{kind: opTruncate, at: at} }

func truncatingTo(at uint64) historyOp {
	return historyOp{kind: opTruncate, at: at, outcome: outcomeUnknown}
}

func trimmedTo(base uint64) historyOp { return historyOp{kind: opTrimDone, value: base} }

func trimming() historyOp {
	return historyOp{kind: opTrim, call: 1, value: math.MaxUint64, outcome: outcomeUnknown}
}

func reopened(ending historyEnding, base uint64, records ...int) historyOp {
	return historyOp{kind: opReopen, ending: ending, value: base, records: records}
}

// oneAfterTheOther makes a history in which each operation began when the one
// before it had returned. One of unknown outcome goes on until the log is opened
// again.
func oneAfterTheOther(ops []historyOp) []porcupine.Operation {
	var (
		history []porcupine.Operation
		open    []int
		epoch   int
	)
	for i := range ops {
		op, moment := ops[i], int64(2*i)
		op.epoch = epoch
		if op.outcome == outcomeUnknown {
			open = append(open, i)
		}
		history = append(history, porcupine.Operation{Input: &op, Call: moment, Return: moment + 1})
		if op.kind == opReopen {
			epoch++
			for _, k := range open {
				history[k].Return = moment + 1
			}
			open = nil
		}
	}
	for _, k := range open {
		history[k].Return = int64(2 * len(ops))
	}
	return history
}

// atOnce makes operations overlap: from the call of the first to the return of
// the last.
func atOnce(history []porcupine.Operation, indexes ...int) []porcupine.Operation {
	first, last := history[indexes[0]], history[indexes[len(indexes)-1]]
	for _, i := range indexes {
		history[i].Call, history[i].Return = first.Call, last.Return
	}
	return history
}

const (
	underOnCommit = true
	underNone     = false
)

// What the checker says of histories written by hand: each bad one differs from a
// good one in what is named.
func TestTheCheckerOfHistoriesAcceptsTheGoodAndRejectsTheBad(t *testing.T) {
	for _, c := range []struct {
		name     string
		onCommit bool
		good     bool
		ops      []historyOp
	}{
		{"an acknowledged append is there after a power loss", underOnCommit, true, []historyOp{
			appended(0, 1), reopened(afterPowerLoss, 0, 1), readFrom(0, 1),
		}},
		{"an acknowledged append is lost by a power loss", underOnCommit, false, []historyOp{
			appended(0, 1), reopened(afterPowerLoss, 0),
		}},
		{"an acknowledged append is lost without any crash", underOnCommit, false, []historyOp{
			appended(0, 1), readFrom(0),
		}},
		{"the last of an acknowledged batch is lost", underOnCommit, false, []historyOp{
			appended(0, 1, 2), reopened(afterPowerLoss, 0, 1),
		}},
		{"a read goes backwards", underOnCommit, false, []historyOp{
			appended(0, 1), appending(2), readFrom(0, 1, 2), readFrom(0, 1),
		}},
		{"the tail goes backwards", underNone, false, []historyOp{
			appending(1), said(opTail, 1), said(opTail, 0),
		}},
		{"two appends at one offset", underOnCommit, false, []historyOp{
			appended(0, 1), appended(0, 2),
		}},
		{"two appends at one offset, one of them read", underOnCommit, false, []historyOp{
			appended(0, 1), readFrom(0, 1), appended(0, 2), reopened(afterPowerLoss, 0, 2),
		}},
		{"an append leaves a gap", underOnCommit, false, []historyOp{
			appended(0, 1), appended(2, 2),
		}},
		{"an append stands before one that returned earlier", underOnCommit, false, []historyOp{
			appended(1, 1), appended(0, 2),
		}},
		{"a read returns less than there is", underOnCommit, false, []historyOp{
			appended(0, 1, 2), readFrom(0, 1),
		}},
		{"a read returns another record", underOnCommit, false, []historyOp{
			appended(0, 1), readFrom(0, 2),
		}},
		{"records change places", underNone, false, []historyOp{
			appended(0, 1, 2), readFrom(0, 2, 1),
		}},

		{"a failed append leaves nothing", underOnCommit, true, []historyOp{
			appendFailed(1), appended(0, 2), reopened(afterPowerLoss, 0, 2),
		}},
		{"a failed append is read", underOnCommit, false, []historyOp{
			appendFailed(1), readFrom(0, 1),
		}},
		{"a failed append is back after a crash", underOnCommit, false, []historyOp{
			appended(0, 1), appendFailed(2), reopened(afterPowerLoss, 0, 1, 2),
		}},

		{"an append of unknown outcome happened", underOnCommit, true, []historyOp{
			appending(1), readFrom(0), reopened(afterPowerLoss, 0, 1),
		}},
		{"an append of unknown outcome did not happen", underOnCommit, true, []historyOp{
			appending(1), reopened(afterPowerLoss, 0), appended(0, 2),
		}},
		{"an append of unknown outcome happened in part, which only a crash can do", underOnCommit, true, []historyOp{
			appending(1, 2, 3), reopened(afterPowerLoss, 0, 1, 2),
		}},
		{"half an append is read", underOnCommit, false, []historyOp{
			appending(1, 2, 3), readFrom(0, 1, 2),
		}},
		{"a record of unknown outcome was read and is gone after a power loss", underOnCommit, false, []historyOp{
			appending(1), readFrom(0, 1), reopened(afterPowerLoss, 0),
		}},
		{"a record of unknown outcome was counted and is gone after a power loss", underOnCommit, false, []historyOp{
			appending(1), said(opTail, 1), reopened(afterPowerLoss, 0),
		}},
		{"an append of unknown outcome happens after the log was opened again", underOnCommit, false, []historyOp{
			appending(1), reopened(afterPowerLoss, 0), readFrom(0, 1),
		}},
		{"an append of unknown outcome happens twice", underOnCommit, false, []historyOp{
			appending(1), readFrom(0, 1), appended(1, 2), readFrom(0, 1, 2, 1),
		}},
		{"an append whose context ended happens where it was said", underOnCommit, true, []historyOp{
			appendingAt(0, 1), appended(1, 2), readFrom(0, 1, 2),
		}},
		{"an append whose context ended happens elsewhere", underOnCommit, false, []historyOp{
			appendingAt(0, 1), appended(0, 2), readFrom(0, 2, 1),
		}},

		{"a truncation holds", underOnCommit, true, []historyOp{
			appended(0, 1, 2), truncatedTo(1), appended(1, 3), reopened(afterPowerLoss, 0, 1, 3),
		}},
		{"a record is back after a truncation and an append", underOnCommit, false, []historyOp{
			appended(0, 1, 2), truncatedTo(1), appended(1, 3), reopened(afterPowerLoss, 0, 1, 2),
		}},
		{"a record is back behind the append that took its place", underOnCommit, false, []historyOp{
			appended(0, 1, 2, 3), truncatedTo(1), appended(1, 4), readFrom(0, 1, 4, 3),
		}},
		{"a truncated record is back after a power loss", underOnCommit, false, []historyOp{
			appended(0, 1, 2), truncatedTo(1), reopened(afterPowerLoss, 0, 1, 2),
		}},
		{"a truncation takes too much", underOnCommit, false, []historyOp{
			appended(0, 1, 2), truncatedTo(1), readFrom(0),
		}},
		{"a truncation past the tail takes something", underOnCommit, false, []historyOp{
			appended(0, 1), truncatedTo(2), said(opTail, 0),
		}},
		{"a truncation of unknown outcome is undone by a crash", underOnCommit, true, []historyOp{
			appended(0, 1, 2, 3), truncatingTo(1), readFrom(0, 1), reopened(afterPowerLoss, 0, 1, 2, 3),
		}},
		{"a truncation of unknown outcome is undone in part", underOnCommit, true, []historyOp{
			appended(0, 1, 2, 3), truncatingTo(1), readFrom(0, 1), reopened(afterPowerLoss, 0, 1, 2),
		}},
		{"a truncation that an append followed was complete, though nobody was told", underOnCommit, true, []historyOp{
			appended(0, 1, 2), truncatingTo(1), appended(1, 3), reopened(afterPowerLoss, 0, 1, 3),
		}},
		{"a record is back after a truncation that nobody was told of and an append", underOnCommit, false, []historyOp{
			appended(0, 1, 2), truncatingTo(1), appended(1, 3), reopened(afterPowerLoss, 0, 1, 2),
		}},
		{"a truncation of unknown outcome takes what lies below it", underOnCommit, false, []historyOp{
			appended(0, 1, 2, 3), truncatingTo(1), reopened(afterPowerLoss, 0),
		}},
		{"a truncation of unknown outcome happens after the log was opened again", underOnCommit, false, []historyOp{
			appended(0, 1, 2), truncatingTo(1), reopened(afterPowerLoss, 0, 1, 2), readFrom(0, 1),
		}},
		{"a truncation below the base begins the log anew", underOnCommit, true, []historyOp{
			appended(0, 1, 2, 3), trimmedTo(2), truncatedTo(1), said(opTruncated, 0), said(opBase, 1), appended(1, 4), readFrom(1, 4),
		}},
		{"a truncation below the base is half done when it returns", underOnCommit, false, []historyOp{
			appended(0, 1, 2, 3), trimmedTo(2), truncatedTo(1), said(opTruncated, 0), said(opBase, 2),
		}},
		{"a truncation returns while another is half done", underOnCommit, true, []historyOp{
			appended(0, 1, 2, 3), trimmedTo(2), truncatedTo(1), {kind: opTruncated, call: 7}, said(opBase, 2), said(opTruncated, 0), said(opBase, 1),
		}},

		{"retention trims", underOnCommit, true, []historyOp{
			appended(0, 1, 2), trimmedTo(1), readTrimmed(0, 1), readFrom(1, 2), reopened(afterPowerLoss, 1, 2),
		}},
		{"the base goes backwards", underOnCommit, false, []historyOp{
			appended(0, 1, 2), trimmedTo(1), said(opBase, 0),
		}},
		{"a trimmed record is read", underOnCommit, false, []historyOp{
			appended(0, 1, 2), trimmedTo(1), readFrom(0, 1, 2),
		}},
		{"a trimmed record is back after a power loss", underOnCommit, false, []historyOp{
			appended(0, 1, 2), trimmedTo(1), reopened(afterPowerLoss, 0, 1, 2),
		}},
		{"the base rises with no retention under way", underOnCommit, false, []historyOp{
			appended(0, 1, 2), said(opBase, 1),
		}},
		{"a read is told of a base that nothing made", underOnCommit, false, []historyOp{
			appended(0, 1, 2), readTrimmed(0, 1),
		}},
		{"a retention pass of unknown outcome is undone by a crash", underOnCommit, true, []historyOp{
			appended(0, 1, 2), trimming(), said(opBase, 1), reopened(afterPowerLoss, 0, 1, 2),
		}},
		{"a retention pass takes the tail with it", underOnCommit, false, []historyOp{
			appended(0, 1, 2), trimming(), reopened(afterPowerLoss, 3),
		}},

		{"under none a power loss takes what was not synced", underNone, true, []historyOp{
			appended(0, 1), said(opSync, 0), said(opSynced, 0), appended(1, 2), reopened(afterPowerLoss, 0, 1),
		}},
		{"under none a power loss takes what was synced", underNone, false, []historyOp{
			appended(0, 1), said(opSync, 0), said(opSynced, 0), reopened(afterPowerLoss, 0),
		}},
		{"the durable bound lags behind a sync that returned", underNone, false, []historyOp{
			appended(0, 1), said(opSync, 0), said(opSynced, 0), said(opDurable, 0),
		}},
		{"a sync does not cover what came after it began", underNone, true, []historyOp{
			appended(0, 1), said(opSync, 0), appended(1, 2), said(opDurable, 0), said(opSynced, 0), reopened(afterPowerLoss, 0, 1),
		}},
		{"under none a power loss takes what was sealed", underNone, false, []historyOp{
			appended(0, 1), said(opSeal, 1), reopened(afterPowerLoss, 0),
		}},
		{"under none a power loss leaves a hole", underNone, false, []historyOp{
			appended(0, 1), appended(1, 2), appended(2, 3), reopened(afterPowerLoss, 0, 1, 3),
		}},
		{"the durable bound was false", underNone, false, []historyOp{
			appended(0, 1), said(opDurable, 1), reopened(afterPowerLoss, 0),
		}},
		{"the durable bound lies past the tail", underNone, false, []historyOp{
			appended(0, 1), said(opDurable, 2),
		}},
		{"the durable bound goes backwards", underNone, false, []historyOp{
			appended(0, 1), said(opDurable, 1), said(opDurable, 0),
		}},
		{"under on_commit readers see what is not durable", underOnCommit, false, []historyOp{
			appending(1), readFrom(0, 1), said(opDurable, 0),
		}},
		{"under none a process that dies takes what was acknowledged", underNone, false, []historyOp{
			appended(0, 1), reopened(afterDeath, 0),
		}},
		{"under none a process that dies takes what was read", underNone, false, []historyOp{
			appending(1), readFrom(0, 1), reopened(afterDeath, 0),
		}},
		{"after a failed flush it may", underNone, true, []historyOp{
			appended(0, 1), reopened(afterFailure, 0),
		}},
		{"under none closing takes something", underNone, false, []historyOp{
			appended(0, 1), reopened(afterClose, 0),
		}},
		{"what was served after a recovery is gone after a power loss", underNone, false, []historyOp{
			appended(0, 1), reopened(afterDeath, 0, 1), reopened(afterPowerLoss, 0),
		}},
		{"a seal says that it holds more than there is", underNone, false, []historyOp{
			appended(0, 1), said(opSeal, 2),
		}},

		{"a poisoned log shows what is durable", underNone, true, []historyOp{
			appended(0, 1), said(opSync, 0), said(opSynced, 0), appended(1, 2), said(opPoison, 1), readFrom(0, 1), appending(3), reopened(afterFailure, 0, 1, 2, 3),
		}},
		{"a poisoned log shows more", underNone, false, []historyOp{
			appended(0, 1), said(opSync, 0), said(opSynced, 0), appended(1, 2), said(opPoison, 1), readFrom(0, 1, 2),
		}},
		{"a poisoned log takes what was durable", underNone, false, []historyOp{
			appended(0, 1), said(opSync, 0), said(opSynced, 0), said(opPoison, 0),
		}},
		{"a flush under way raises the bound of a poisoned log", underNone, true, []historyOp{
			appended(0, 1), appended(1, 2), said(opPoison, 2), said(opDurable, 0), readFrom(0), said(opTail, 1), readFrom(0, 1, 2),
		}},
		{"the bound of a poisoned log falls", underNone, false, []historyOp{
			appended(0, 1), appended(1, 2), said(opPoison, 2), said(opTail, 2), said(opTail, 1),
		}},
		{"a poisoned log showed a record that is gone after a power loss", underNone, false, []historyOp{
			appended(0, 1), said(opPoison, 1), readFrom(0, 1), reopened(afterPowerLoss, 0),
		}},
		{"a poisoned log acknowledges", underOnCommit, false, []historyOp{
			appended(0, 1), said(opPoison, 1), appended(1, 2),
		}},
		{"a poisoned log says that it synced", underNone, false, []historyOp{
			appended(0, 1), said(opPoison, 0), said(opSync, 0), said(opSynced, 0),
		}},
		{"a poisoned log shows an append that came later", underOnCommit, false, []historyOp{
			said(opPoison, 0), appending(1), readFrom(0, 1),
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			model := historyModel{onCommit: c.onCommit}.checker()
			want := porcupine.Illegal
			if c.good {
				want = porcupine.Ok
			}
			if got := porcupine.CheckOperationsTimeout(model, oneAfterTheOther(c.ops), historyCheckMax); got != want {
				t.Errorf("the checker says %s", got)
			}
		})
	}
}

// What is at the same time may come in either order, and what is not may not.
func TestTheCheckerOfHistoriesOrdersOnlyWhatOverlaps(t *testing.T) {
	ops := []historyOp{appended(1, 1), appended(0, 2), readFrom(0, 2, 1)}
	model := historyModel{onCommit: true}.checker()
	if porcupine.CheckOperations(model, oneAfterTheOther(ops)) {
		t.Error("an append that returned earlier may not stand behind")
	}
	if !porcupine.CheckOperations(model, atOnce(oneAfterTheOther(ops), 0, 1)) {
		t.Error("appends at the same time may come in either order")
	}
	if !porcupine.CheckOperations(model, atOnce(oneAfterTheOther(append(ops, readFrom(0, 2))), 0, 1, 3)) {
		t.Error("a read beside two appends may see the first alone")
	}
	trim := []historyOp{
		appended(0, 1, 2, 3, 4),
		{kind: opTrim, call: 1, value: 3},
		said(opBase, 1), readTrimmed(0, 2),
		{kind: opTrimDone, call: 1, value: 3},
	}
	if !porcupine.CheckOperations(model, atOnce(oneAfterTheOther(trim), 1, 2, 3, 4)) {
		t.Error("retention may be seen between two segments")
	}
	trim[2].value = 4
	if porcupine.CheckOperations(model, atOnce(oneAfterTheOther(trim), 1, 2, 3, 4)) {
		t.Error("retention may not be seen past where it ended")
	}
}

// A disk that says that records are durable when they are not is found out by the
// histories of clients: the whole of it, not the model alone, can fail.
func TestAHistoryOnADiskThatLiesIsRejected(t *testing.T) {
	seed, _ := historySeed(t)
	histories := 100
	if raceDetector {
		histories = 50
	}
	made, rejected, refused := 0, 0, 0
	for ; made < histories || made < historyPatience*histories && rejected == 0; made++ {
		h := newHistoryRun(t, engine.FsyncOnCommit, seed+uint64(made))
		h.liar = &liar{}
		if h.run() != nil {
			refused++ // durable.mark knew better
			continue
		}
		if porcupine.CheckOperationsTimeout(h.model(), h.recorder.ops, historyCheckMax) == porcupine.Illegal {
			rejected++
		}
	}
	t.Logf("%s=%d: %d histories on a disk that lies, %d rejected, %d logs refused to open", historySeedVariable, seed, made, rejected, refused)
	if rejected == 0 {
		t.Error("none was rejected")
	}
}

// Real histories in which one result is changed to what it cannot be.
func TestAHistoryWithOneFalseResultIsRejected(t *testing.T) {
	seed, _ := historySeed(t)
	const histories = 24
	changed := make(map[string]int)
	for i := uint64(0); i < histories || i < historyPatience*histories && len(changed) < len(falsehoods); i++ {
		h := newHistoryRun(t, historyMode(seed+i), seed+i)
		if err := h.run(); err != nil {
			h.problem("%v", err)
			return
		}
		f := falsehoods[i%uint64(len(falsehoods))]
		undo := f.tell(h.recorder.ops, rand.New(rand.NewPCG(seed, i)))
		if undo == nil {
			continue // the history has no such operation
		}
		changed[f.what]++
		if got := porcupine.CheckOperationsTimeout(h.model(), h.recorder.ops, historyCheckMax); got != porcupine.Illegal {
			h.problem("the checker says %s of a history with one false result: %s", got, f.what)
		}
		undo()
		h.check()
	}
	t.Log(changed)
	if len(changed) < len(falsehoods) {
		t.Errorf("only %v", changed)
	}
}

// falsehood is a result that no log can give; change makes it of one that a log
// gave, where that is possible.
type falsehood struct {
	what   string
	change func(ops []porcupine.Operation, op *historyOp) bool
}

var falsehoods = []falsehood{
	{"two records of an append changed places", func(ops []porcupine.Operation, op *historyOp) bool {
		if op.kind != opRead || len(op.records) < 2 || !oneAppend(ops, op.records[0], op.records[1]) {
			return false
		}
		op.records = append([]int{op.records[1], op.records[0]}, op.records[2:]...)
		return true
	}},
	{"the first record after an opening is another", func(_ []porcupine.Operation, op *historyOp) bool {
		if op.kind != opReopen || len(op.records) == 0 {
			return false
		}
		op.records = append([]int{-1}, op.records[1:]...)
		return true
	}},
	{"a seal holds a million records more", func(_ []porcupine.Operation, op *historyOp) bool {
		op.value += 1 << 20
		return op.kind == opSeal
	}},
	{"an append got an offset far away", func(_ []porcupine.Operation, op *historyOp) bool {
		op.first += 1 << 20
		return op.kind == opAppend && op.outcome == outcomeDone
	}},
}

// tell changes one operation; undo is nil when there is none to change.
func (f falsehood) tell(ops []porcupine.Operation, random *rand.Rand) (undo func()) {
	for _, i := range random.Perm(len(ops)) {
		op := ops[i].Input.(*historyOp)
		former := *op
		if f.change(ops, op) {
			return func() { *op = former }
		}
		*op = former
	}
	return nil
}

// oneAppend says whether two records belong to one append.
func oneAppend(ops []porcupine.Operation, a, b int) bool {
	return slices.ContainsFunc(ops, func(o porcupine.Operation) bool {
		op := o.Input.(*historyOp)
		return op.kind == opAppend && slices.Contains(op.records, a) && slices.Contains(op.records, b)
	})
}
