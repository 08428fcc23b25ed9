package engine_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
)

// historySeedVariable repeats the choices of one history; the order in which its
// clients run is the scheduler's.
const historySeedVariable = "FELIX_HISTORY_SEED"

const (
	historyEpochs = 3
	// historyRunMax ends a history that hangs.
	historyRunMax = time.Minute
	// historyCheckMax ends a check that does not come to a verdict.
	historyCheckMax = 2 * time.Minute
	// historyPatience is how many times as many histories a test makes at most, when
	// the scheduler withheld something that it has to be about.
	historyPatience = 4
)

// historyRun makes one history: clients that use one log at the same time, over
// several crashes.
type historyRun struct {
	*testing.T
	ctx      context.Context
	seed     uint64
	mode     engine.FsyncMode
	random   *rand.Rand
	recorder historyRecorder
	// liar is set where the disk is to lie.
	liar *liar
}

func newHistoryRun(t *testing.T, mode engine.FsyncMode, seed uint64) *historyRun {
	return &historyRun{T: t, seed: seed, mode: mode, random: rand.New(rand.NewPCG(seed, 0))}
}

func (h *historyRun) problem(format string, args ...any) {
	h.Errorf("%s=%d, %v: "+format, append([]any{historySeedVariable, h.seed, h.mode}, args...)...)
}

// run makes the history. An error says that the log could not be opened again.
func (h *historyRun) run() error {
	var cancel context.CancelFunc
	h.ctx, cancel = context.WithTimeout(context.Background(), historyRunMax)
	defer cancel()
	disk := simdisk.New()
	disk.MakeDir(historyRoot)
	e, err := h.openEpoch(disk)
	for range historyEpochs {
		if err != nil {
			return err
		}
		if h.liar != nil {
			h.liar.armed.Store(true)
		}
		e.work()
		image := e.finish()
		if h.liar != nil {
			h.liar.armed.Store(false)
		}
		former := e
		if e, err = h.openEpoch(image); err != nil {
			return err
		}
		found, readErr := e.contents()
		if readErr != nil {
			e.tearDown()
			return readErr
		}
		found.ending = former.ending
		h.recorder.endEpoch(former.endedAt, former.poison(), found)
	}
	e.tearDown()
	return nil
}

func (h *historyRun) model() porcupine.Model {
	return historyModel{onCommit: h.mode == engine.FsyncOnCommit}.checker()
}

// check asks porcupine. Where it finds no order that explains the history, a
// picture of it is left.
func (h *historyRun) check() {
	model := h.model()
	switch porcupine.CheckOperationsTimeout(model, h.recorder.ops, historyCheckMax) {
	case porcupine.Ok:
	case porcupine.Unknown:
		h.problem("no verdict on %d operations within %v", len(h.recorder.ops), historyCheckMax)
	case porcupine.Illegal:
		_, info := porcupine.CheckOperationsVerbose(model, h.recorder.ops, historyCheckMax)
		path := filepath.Join(h.ArtifactDir(), "history-"+strconv.FormatUint(h.seed, 10)+".html")
		if err := porcupine.VisualizePath(model, info, path); err != nil {
			h.Error(err)
		}
		h.problem("no order of these %d operations explains what they returned; a picture is in %s (go test -artifacts keeps it)\n%s",
			len(h.recorder.ops), path, h.recorder.text())
	}
}

// historyTally counts what happened, so that a test can say that it was about
// something.
type historyTally map[string]int

// historyKinds is what has to happen in a test's histories.
var historyKinds = []string{
	"appends", "appends, failed", "appends, outcome unknown", "appends, outcome unknown, found later",
	"appends, context ended", "reads", "bounds asked for", "truncations", "truncations, outcome unknown",
	"retention passes", "retention passes, trimmed", "retention passes over several segments", "seals", "syncs", "poisoned",
	"reopened, closed", "reopened, process died", "reopened, process died after a failed flush", "reopened, power lost",
}

// missing are the kinds that have not happened.
func (y historyTally) missing() (kinds []string) {
	for _, kind := range historyKinds {
		if y[kind] == 0 {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

func (y historyTally) count(ops []porcupine.Operation) {
	read := make(map[int]bool)
	for _, o := range ops {
		if op := o.Input.(*historyOp); op.kind == opRead || op.kind == opReopen {
			for _, number := range op.records {
				read[number] = true
			}
		}
	}
	for _, o := range ops {
		op := o.Input.(*historyOp)
		outcome := [...]string{"", ", failed", ", outcome unknown"}[op.outcome]
		switch op.kind {
		case opAppend:
			y["appends"+outcome]++
			if op.outcome == outcomeUnknown && read[op.records[0]] {
				y["appends, outcome unknown, found later"]++
			}
			if op.outcome == outcomeUnknown && op.placed {
				y["appends, context ended"]++
			}
		case opRead, opTrimmed:
			y["reads"]++
		case opBase, opTail, opDurable:
			y["bounds asked for"]++
		case opTruncate:
			y["truncations"+outcome]++
		case opTrim:
			y["retention passes over several segments"+outcome]++
		case opTrimDone:
			y["retention passes"]++
			if op.value > 0 {
				y["retention passes, trimmed"]++
			}
		case opSeal:
			y["seals"]++
		case opSynced:
			y["syncs"]++
		case opPoison:
			y["poisoned"]++
		case opReopen:
			y["reopened, "+[...]string{"closed", "process died", "process died after a failed flush", "power lost"}[op.ending]]++
		}
	}
}

// Clients append, read, truncate, trim, seal and sync one log at the same time, on
// a disk that fails and stalls and with callers that give up, and the process dies
// or the power goes in the middle of it. Whatever they were told, there is one
// order of all of it in which a trivial log would have told the same.
func TestConcurrentHistoriesOverCrashesAreThoseOfATrivialLog(t *testing.T) {
	histories := 400
	switch {
	case long():
		histories = 20_000
	case raceDetector:
		histories = 150
	}
	seed, given := historySeed(t)
	tally := make(historyTally)
	made := 0
	for ; made < histories || !given && made < historyPatience*histories && len(tally.missing()) > 0; made++ {
		i := uint64(made)
		h := newHistoryRun(t, historyMode(seed), seed)
		if !given {
			h = newHistoryRun(t, historyMode(seed+i), seed+i)
		}
		if err := h.run(); err != nil {
			h.problem("%v", err)
		}
		if !t.Failed() {
			h.check()
		}
		if t.Failed() {
			return
		}
		tally.count(h.recorder.ops)
	}
	t.Logf("%s=%d: %d histories, %v", historySeedVariable, seed, made, tally)
	if missing := tally.missing(); !given && len(missing) > 0 {
		t.Errorf("there were no %q", missing)
	}
}

// historySeed is the first of the seeds, or the one to repeat. The first one is
// always the same, except in long runs, which are for finding something new.
func historySeed(t *testing.T) (seed uint64, given bool) {
	text := os.Getenv(historySeedVariable)
	switch {
	case text == "" && long():
		return uint64(time.Now().UnixNano()), false
	case text == "":
		return 1, false
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(historySeedVariable, err)
	}
	return seed, true
}

// historyMode: the strictest promise gets half of the histories.
func historyMode(seed uint64) engine.FsyncMode {
	return [...]engine.FsyncMode{
		engine.FsyncOnCommit, engine.FsyncNone, engine.FsyncOnCommit, engine.FsyncPeriodic,
	}[seed%4]
}
