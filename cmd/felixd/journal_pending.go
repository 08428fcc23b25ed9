package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

// inspectAttempts is how often a journal is looked at that a server writes meanwhile:
// between two reads it may look damaged.
const inspectAttempts = 5

// inspectJournal says what a replay of a root's commit journal would do; nil when
// nothing is in one.
func inspectJournal(root string, policy recovery.Policy) (plan *recovery.JournalPlan, err error) {
	for range inspectAttempts {
		plan, err = recovery.InspectJournal(device.OS(), root, policy)
		if err != nil || plan == nil || !plan.Refused() || device.LockHolder(root) == 0 {
			break
		}
	}
	return plan, err
}

// journalPending is what the commit journal beside a shard holds of it that its
// segments lack.
type journalPending struct {
	Dir  string `json:"dir"`
	Root string `json:"root"`
	// Segments are those that lack something; Bytes is how much, in all of them.
	Segments []recovery.JournalSegment `json:"-"`
	Bytes    int64                     `json:"bytes_missing"`
	// Refused says that the journal is not replayed: what it holds is not known.
	Refused bool `json:"refused"`
}

func (*journalPending) kind() string { return "journal_pending" }

func (p *journalPending) text() string {
	if p.Refused {
		return fmt.Sprintf("%s: the commit journal of %s would not be replayed and may hold records that the segments lack; felixd log inspect %s says why",
			p.Dir, p.Root, p.Root)
	}
	text := p.Dir + ":"
	for i, s := range p.Segments {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf(" segment %d lacks %d bytes", s.Segment, s.Missing())
	}
	return text + fmt.Sprintf(" that the commit journal of %s holds, acknowledged; felixd log replay --dir %s brings them there", p.Root, p.Root)
}

// pendingOf picks a shard out of a plan; nil when it lacks nothing.
func pendingOf(plan *recovery.JournalPlan, dir string) *journalPending {
	if plan == nil {
		return nil
	}
	p := &journalPending{Dir: dir, Root: plan.Root, Refused: plan.Refused()}
	for i := range plan.Shards {
		if plan.Shards[i].Shard != filepath.Base(dir) {
			continue
		}
		for _, s := range plan.Shards[i].Segments {
			if n := s.Missing(); n > 0 {
				p.Segments, p.Bytes = append(p.Segments, s), p.Bytes+n
			}
		}
	}
	if p.Bytes == 0 && !p.Refused {
		return nil
	}
	return p
}

// pendingBeside is what the journal of the directory above a shard holds of it.
func pendingBeside(dir string, policy recovery.Policy) (*journalPending, error) {
	dir = resolved(dir) // the root lies above the directory itself, not above a link to it
	plan, err := inspectJournal(filepath.Dir(dir), policy)
	return pendingOf(plan, dir), err
}

// warnIfPending says on standard error that a log is not all there is of a shard.
func (a *app) warnIfPending(dir string) (*journalPending, error) {
	p, err := pendingBeside(dir, recovery.Policy{})
	if err == nil && p != nil {
		fmt.Fprintln(a.stderr, "felixd: warning:", p.text())
	}
	return p, err
}

// ofFile is what one segment file lacks; nil when that is nothing, or the file is no
// segment's.
func (p *journalPending) ofFile(name string) *journalPending {
	id, isLog := segment.ParseLogName(name)
	if p == nil || !isLog {
		return nil
	}
	of := &journalPending{Dir: p.Dir, Root: p.Root, Refused: p.Refused}
	for _, s := range p.Segments {
		if s.Segment == id {
			of.Segments, of.Bytes = append(of.Segments, s), of.Bytes+s.Missing()
		}
	}
	if of.Bytes == 0 && !of.Refused {
		return nil
	}
	return of
}

// unlessPending refuses a shard of which the journal speaks: what is done to the
// segments alone may be done to something else than the log.
func unlessPending(dir string, policy recovery.Policy) error {
	root, shard := filepath.Split(dir)
	plan, err := inspectJournal(filepath.Clean(root), policy)
	if err != nil || plan == nil {
		return err
	}
	spoken := slices.ContainsFunc(plan.Shards, func(s recovery.JournalShard) bool { return s.Shard == shard })
	if !spoken && !plan.Refused() {
		return nil
	}
	return replayFirst(&engine.JournalPendingError{Root: plan.Root, Shard: shard})
}

// replayFirst names the command that brings a journal's records to their segments.
func replayFirst(err error) error {
	var pending *engine.JournalPendingError
	if !errors.As(err, &pending) {
		return err
	}
	return fmt.Errorf("%w: felixd log replay --dir %s", err, pending.Root)
}

// heals says that everything which an open of a shard would be refused for lies where
// a replay writes, so that it is an unfinished write and no damage.
func (p *journalPending) heals(plan *recovery.Plan) bool {
	if p == nil || p.Refused {
		return false
	}
	for _, r := range plan.Refusals {
		healed := false
		for _, s := range p.Segments {
			healed = healed || r.Segment == s.Segment && r.Position >= s.ValidEnd && r.Position < s.End
		}
		if !healed {
			return false
		}
	}
	return true
}
