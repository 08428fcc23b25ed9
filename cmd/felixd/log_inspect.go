package main

import (
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

// The verdicts of an inspection.
const (
	verdictClean   = "clean"
	verdictRepairs = "repairs"
	verdictRefuses = "refuses"
)

// inspectEvent says what opening one shard would do.
type inspectEvent struct {
	Dir     string `json:"dir"`
	Verdict string `json:"verdict"`
	// BaseOffset, TailOffset and Bytes describe the log after the steps; they
	// are absent when it would be refused.
	BaseOffset *uint64 `json:"base_offset,omitempty"`
	TailOffset *uint64 `json:"tail_offset,omitempty"`
	Segments   int     `json:"segments"`
	Bytes      int64   `json:"bytes"`
	// Mark is what durable.mark says now.
	Mark       *recovery.Mark     `json:"durable_mark"`
	Steps      []recovery.Step    `json:"steps"`
	Refusals   []recovery.Refusal `json:"refusals"`
	Warnings   []string           `json:"warnings"`
	Foreign    []string           `json:"foreign_files"`
	SideCopies []string           `json:"side_copies"`
}

func (inspectEvent) kind() string { return "inspect" }

func (e inspectEvent) text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "\n  "+format, args...) }
	fmt.Fprintf(&b, "%s: %s", e.Dir, e.Verdict)
	if e.TailOffset != nil {
		fmt.Fprintf(&b, ", offsets %d to %d", *e.BaseOffset, *e.TailOffset)
	}
	fmt.Fprintf(&b, ", %d segments, %d bytes", e.Segments, e.Bytes)
	if e.Mark == nil {
		line("durable.mark: none")
	} else {
		line("durable.mark: segment %d through byte %d", e.Mark.Segment, e.Mark.Synced)
	}
	for _, r := range e.Refusals {
		line("would refuse: %s at position %d: %s; %s", r.File, r.Position, r.Reason, r.Remedy)
	}
	for _, s := range e.Steps {
		line("%s", stepText(s, len(e.Refusals) > 0))
	}
	for _, w := range e.Warnings {
		line("warning: %s", w)
	}
	for _, name := range e.SideCopies {
		line("side copy of bytes cut earlier: %s", name)
	}
	for _, name := range e.Foreign {
		line("not ours, left alone: %s", name)
	}
	return b.String()
}

func stepText(s recovery.Step, refused bool) string {
	lead := "routine"
	switch {
	case refused:
		lead = "not done because of the refusal"
	case s.Repair():
		lead = "would repair"
	}
	what := fmt.Sprintf("%s: %s %s", lead, s.Action, s.File)
	if cut := s.Cut(); cut > 0 {
		what += fmt.Sprintf(", %d bytes from position %d", cut, s.Position)
	}
	if s.RecordsDropped > 0 {
		what += fmt.Sprintf(", %d intact records among them", s.RecordsDropped)
	}
	if s.BelowMark {
		what += " (BELOW what durable.mark vouches for: bytes that were on the device are gone)"
	}
	return what + ": " + s.Reason
}

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

// inspectedEvent sums up.
type inspectedEvent struct {
	Shards  int `json:"shards"`
	Clean   int `json:"clean"`
	Repairs int `json:"repairs"`
	Refuses int `json:"refuses"`
}

func (inspectedEvent) kind() string { return "inspected" }

func (e inspectedEvent) text() string {
	return fmt.Sprintf("%d shards: %d clean, %d to repair, %d would be refused", e.Shards, e.Clean, e.Repairs, e.Refuses)
}

func (c *inspectCommand) Run(a *app) error {
	config, err := c.recoveryFlags.config()
	if err != nil {
		return err
	}
	policy := recovery.Policy{
		RepairChecksumTail: config.RepairChecksumTail, VerifyAllOnOpen: config.VerifyAllOnOpen,
		IndexSpacingBytes: config.IndexSpacingBytes, SideCopiesKept: config.SideCopiesKept,
	}
	dirs, err := shardDirectories(c.Dir)
	if err != nil {
		return err
	}
	out := a.output(c.outputFlags)
	sum := inspectedEvent{Shards: len(dirs)}
	for _, dir := range dirs {
		verdict, err := c.inspect(a, out, dir, policy)
		if err != nil {
			return err
		}
		switch verdict {
		case verdictClean:
			sum.Clean++
		case verdictRepairs:
			sum.Repairs++
		default:
			sum.Refuses++
		}
	}
	if err := out.emit(sum); err != nil {
		return err
	}
	switch {
	case sum.Refuses > 0:
		return &exitError{code: exitRefused}
	case sum.Repairs > 0:
		return &exitError{code: exitRepairs}
	default:
		return nil
	}
}

func (c *inspectCommand) inspect(a *app, out *output, dir string, policy recovery.Policy) (string, error) {
	a.warnIfInUse(dir)
	snapshot, err := recovery.Inspect(device.OS(), dir, filepath.Base(dir), policy)
	if err != nil {
		return "", err
	}
	plan := recovery.Decide(snapshot, policy)
	e := describePlan(snapshot, plan)
	if err := out.emit(e); err != nil || !c.Segments {
		return e.Verdict, err
	}
	for _, facts := range snapshot.Segments {
		if err := out.emit(describeSegment(dir, facts)); err != nil {
			return "", err
		}
	}
	return e.Verdict, nil
}

func describePlan(snapshot *recovery.Snapshot, plan *recovery.Plan) inspectEvent {
	e := inspectEvent{
		Dir: plan.Dir, Verdict: verdictClean, Segments: len(snapshot.Segments), Mark: snapshot.Mark,
		Steps: listed(plan.Steps), Refusals: listed(plan.Refusals), Warnings: listed(plan.Warnings),
		Foreign: listed(snapshot.Foreign), SideCopies: listed(snapshot.SideCopies),
	}
	for _, facts := range snapshot.Segments {
		e.Bytes += facts.Size
	}
	switch {
	case plan.Refused():
		e.Verdict = verdictRefuses
		return e
	case !plan.Clean():
		e.Verdict = verdictRepairs
	}
	base, tail := plan.Active.BaseOffset, plan.Active.NextOffset
	if len(plan.Sealed) > 0 {
		base = plan.Sealed[0].BaseOffset
	}
	e.BaseOffset, e.TailOffset = &base, &tail
	return e
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
