package enumerate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"felix.local/felix/engine"
)

// Operation is one thing that a workload does to its log.
type Operation string

// The operations.
const (
	Append      Operation = "append"
	AppendBatch Operation = "batch"
	// Sync makes everything durable. Under periodic and on_commit it first lets time
	// pass, so that the timers flush and write the mark.
	Sync Operation = "sync"
	// RollOver fills the segment and appends what does not fit into it any more.
	RollOver  Operation = "roll"
	Seal      Operation = "seal"
	Retention Operation = "retention"
	// Truncate drops the upper half of all offsets.
	Truncate Operation = "truncate"
	// Reopen closes the store and opens it again.
	Reopen Operation = "reopen"
)

// Operations are all operations.
func Operations() []Operation {
	return []Operation{Append, AppendBatch, Sync, RollOver, Seal, Retention, Truncate, Reopen}
}

// Case is one workload with one configuration, and, when set, one of its crash
// points and one of its states; -1 stands for all.
type Case struct {
	Mode engine.FsyncMode
	Roll Roll
	// Journaled commits through a journal, which is for on_commit.
	Journaled    bool
	Workload     []Operation
	Point, State int
}

// throughJournal follows the mode of a case that commits through a journal.
const throughJournal = "+journal"

func modeText(mode engine.FsyncMode, journaled bool) string {
	if journaled {
		return mode.String() + throughJournal
	}
	return mode.String()
}

// String is the case as ParseCase reads it: on_commit/inline/append,roll/12/3.
func (c Case) String() string {
	names := make([]string, len(c.Workload))
	for i, op := range c.Workload {
		names[i] = string(op)
	}
	s := fmt.Sprintf("%s/%s/%s", modeText(c.Mode, c.Journaled), c.Roll, strings.Join(names, ","))
	if c.Point >= 0 {
		s += "/" + strconv.Itoa(c.Point)
	}
	if c.State >= 0 {
		s += "/" + strconv.Itoa(c.State)
	}
	return s
}

// ParseCase reads a case. State, or state and crash point, may be left out.
func ParseCase(text string) (Case, error) {
	c := Case{Point: -1, State: -1}
	parts := strings.Split(text, "/")
	if len(parts) < 3 || len(parts) > 5 {
		return c, fmt.Errorf("%q is no case: mode/roll/operation,operation/point/state", text)
	}
	name, journaled := strings.CutSuffix(parts[0], throughJournal)
	mode, err := engine.ParseFsyncMode(name)
	if err != nil {
		return c, fmt.Errorf("case %q: %w", text, err)
	}
	if c.Journaled = journaled; journaled && mode != engine.FsyncOnCommit {
		return c, fmt.Errorf("case %q: a journal is for on_commit", text)
	}
	c.Mode, c.Roll = mode, Roll(parts[1])
	if !slices.Contains(Rolls(), c.Roll) {
		return c, fmt.Errorf("case %q: %q is no kind of roll", text, parts[1])
	}
	if parts[2] != "" {
		for _, name := range strings.Split(parts[2], ",") {
			if !slices.Contains(Operations(), Operation(name)) {
				return c, fmt.Errorf("case %q: %q is no operation", text, name)
			}
			c.Workload = append(c.Workload, Operation(name))
		}
	}
	for i, to := range []*int{&c.Point, &c.State} {
		if len(parts) <= 3+i {
			break
		}
		if *to, err = strconv.Atoi(parts[3+i]); err != nil || *to < 0 {
			return c, fmt.Errorf("case %q: %q is no number from 0 on", text, parts[3+i])
		}
	}
	return c, nil
}

// workloads gives every sequence of up to n operations to yield, the short ones
// first.
func workloads(n int, yield func([]Operation)) {
	all := [][]Operation{nil}
	yield(nil)
	for range n {
		var longer [][]Operation
		for _, w := range all {
			for _, op := range Operations() {
				longer = append(longer, append(slices.Clone(w), op))
			}
		}
		for _, w := range longer {
			yield(w)
		}
		all = longer
	}
}
