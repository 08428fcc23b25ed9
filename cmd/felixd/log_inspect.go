package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"felix.local/felix/device"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

type inspectCommand struct {
	Dir      string `arg:"" type:"path" help:"a shard directory, or a root with shards below it"`
	Segments bool   `name:"segments" help:"list every segment"`
	recoveryFlags
	outputFlags
}

// inspectEvent says what opening one shard would do, as recovery renders it.
type inspectEvent struct{ *recovery.Plan }

func (inspectEvent) kind() string { return "inspect" }

func (e inspectEvent) text() string { return strings.TrimSuffix(e.String(), "\n") }

// segmentEvent describes one segment file as it is.
type segmentEvent struct {
	Dir             string `json:"dir"`
	Segment         uint64 `json:"segment"`
	File            string `json:"file"`
	Bytes           int64  `json:"bytes"`
	Version         uint16 `json:"version,omitempty"`
	BaseOffset      uint64 `json:"base_offset"`
	CreatedAtMicros uint64 `json:"created_at_micros"`
	// NextOffset and ValidBytes are known where records were walked; Records
	// only where all were.
	NextOffset *uint64 `json:"next_offset,omitempty"`
	ValidBytes *int64  `json:"valid_bytes,omitempty"`
	Records    *uint64 `json:"records,omitempty"`
	IndexSame  *bool   `json:"index_same,omitempty"`
	Blank      bool    `json:"blank,omitempty"`
	Problem    string  `json:"problem,omitempty"`
}

func (segmentEvent) kind() string { return "segment" }

func (e segmentEvent) text() string {
	s := fmt.Sprintf("  %s  %12d bytes  version %d  base %d", e.File, e.Bytes, e.Version, e.BaseOffset)
	if e.NextOffset != nil {
		s += fmt.Sprintf("  next %d", *e.NextOffset)
	}
	if e.Records != nil {
		s += fmt.Sprintf("  %d records", *e.Records)
	}
	if e.Blank {
		s += "  no header was ever written"
	}
	if e.Problem != "" {
		s += "  PROBLEM: " + e.Problem
	}
	return s
}

// journalEvent says what a replay of a root's commit journal would do.
type journalEvent struct{ *recovery.JournalPlan }

func (journalEvent) kind() string { return "journal" }

func (e journalEvent) text() string {
	return e.Root + ", " + strings.TrimSuffix(e.String(), "\n")
}

// inspectedEvent sums up.
type inspectedEvent struct {
	Shards  int `json:"shards"`
	Clean   int `json:"clean"`
	Repairs int `json:"repairs"`
	Refused int `json:"refused"`
	// BytesInJournal were acknowledged and are in commit journals alone.
	BytesInJournal int64 `json:"bytes_in_journal"`
}

func (inspectedEvent) kind() string { return "inspected" }

func (e inspectedEvent) text() string {
	s := fmt.Sprintf("%d shards: %d clean, %d to repair, %d would be refused", e.Shards, e.Clean, e.Repairs, e.Refused)
	if e.BytesInJournal > 0 {
		s += fmt.Sprintf("; %d acknowledged bytes are in the commit journal alone: felixd log replay brings them to their segments", e.BytesInJournal)
	}
	return s
}

func (c *inspectCommand) Run(a *app) error {
	policy, err := c.policy()
	if err != nil {
		return err
	}
	if err := needDir("log", c.Dir); err != nil {
		return err
	}
	c.Dir = resolved(c.Dir) // a walk does not enter a link
	files, err := rootSidecars(device.OS(), c.Dir)
	if err != nil {
		return err
	}
	files = append(leftByRestore(device.OS(), c.Dir), files...)
	dirs, err := shardDirectories(a.ctx, c.Dir)
	if err != nil && (len(files) == 0 || !errors.Is(err, errNoLog)) {
		return err
	}
	out := a.output(c.outputFlags)
	sum := inspectedEvent{Shards: len(dirs)}
	refused := false
	for _, e := range files {
		refused = refused || e.Refuses
		if err := out.emit(e); err != nil {
			return err
		}
	}
	journals, err := c.journals(out, dirs, policy)
	if err != nil {
		return err
	}
	for _, plan := range journals {
		refused = refused || plan != nil && plan.Refused()
	}
	for _, dir := range dirs {
		if err := a.ctx.Err(); err != nil {
			return err
		}
		pending := pendingOf(journals[filepath.Dir(resolved(dir))], resolved(dir))
		if pending != nil {
			sum.BytesInJournal += pending.Bytes
			if err := out.emit(pending); err != nil {
				return err
			}
		}
		plan, refusedBeside, err := c.inspect(a, out, dir, policy)
		if err != nil {
			return err
		}
		switch {
		case plan.Refused() && !pending.heals(plan), refusedBeside:
			sum.Refused++
		case plan.Clean() && pending == nil:
			sum.Clean++
		default:
			sum.Repairs++
		}
	}
	if err := out.emit(sum); err != nil {
		return err
	}
	switch {
	case refused, sum.Refused > 0:
		return &exitError{code: exitRefused}
	case sum.Repairs > 0:
		return &exitError{code: exitRepairs}
	default:
		return nil
	}
}

// journals says what the commit journals of the roots hold that shards lie in, by
// root. Only that of a root which is looked at itself is shown whole.
func (c *inspectCommand) journals(out *output, dirs []string, policy recovery.Policy) (map[string]*recovery.JournalPlan, error) {
	roots := []string{resolved(c.Dir)}
	for _, dir := range dirs {
		roots = append(roots, filepath.Dir(resolved(dir)))
	}
	found := make(map[string]*recovery.JournalPlan)
	for _, root := range roots {
		if _, known := found[root]; known {
			continue
		}
		plan, err := inspectJournal(root, policy)
		if err != nil {
			return nil, err
		}
		found[root] = plan
		if plan == nil || !inside(c.Dir, root) {
			continue
		}
		if err := out.emit(journalEvent{plan}); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// inspect prints one shard. refused says that one of its small files refuses an open
// of it, whatever the plan for its segments.
func (c *inspectCommand) inspect(a *app, out *output, dir string, policy recovery.Policy) (plan *recovery.Plan, refused bool, err error) {
	a.warnIfInUse(dir)
	label, err := filepath.Rel(c.Dir, dir)
	if err != nil || label == "." {
		label = filepath.Base(dir)
	}
	snapshot, err := recovery.Inspect(device.OS(), dir, label, policy)
	if err != nil {
		return nil, false, err
	}
	plan = recovery.Decide(snapshot, policy)
	if err := out.emit(inspectEvent{plan}); err != nil {
		return nil, false, err
	}
	for _, e := range shardSidecars(device.OS(), dir, plan) {
		refused = refused || e.Refuses
		if err := out.emit(e); err != nil {
			return nil, false, err
		}
	}
	if !c.Segments {
		return plan, refused, nil
	}
	for _, facts := range snapshot.Segments {
		if err := out.emit(describeSegment(dir, facts)); err != nil {
			return nil, false, err
		}
	}
	return plan, refused, nil
}

// listed makes an absent list an empty one, which programs read more easily.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func describeSegment(dir string, facts recovery.Facts) segmentEvent {
	e := segmentEvent{
		Dir: dir, Segment: facts.ID, File: segment.LogName(facts.ID), Bytes: facts.Size, Blank: facts.Blank,
		Version: facts.Header.Version, BaseOffset: facts.Header.BaseOffset, CreatedAtMicros: facts.Header.CreatedAtMicros,
	}
	walk := facts.End
	if facts.Full != nil {
		walk = facts.Full
		e.Records, e.IndexSame = &walk.Records, &walk.IndexSame
	}
	if walk != nil {
		e.NextOffset, e.ValidBytes = &walk.NextOffset, &walk.ValidEnd
		if walk.Damage != nil {
			e.Problem = walk.Damage.Cause.Error()
		}
	}
	if facts.HeaderProblem != nil && !facts.Blank {
		e.Problem = facts.HeaderProblem.Error()
	}
	return e
}
