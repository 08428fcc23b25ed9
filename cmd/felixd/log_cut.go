package main

import (
	"context"
	"fmt"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/recovery"
	"felix.local/felix/sidecar"
)

// cutFlags are those of the commands that take records from a log.
type cutFlags struct {
	Dir    string `arg:"" type:"path" help:"the shard's directory; no server may be running on it"`
	To     uint64 `name:"to" required:"" placeholder:"OFFSET" help:"the offset that the log is brought to"`
	DryRun bool   `name:"dry-run" help:"say what would happen and change nothing"`
	storageFlags
	outputFlags
}

func (*cutFlags) defaults() map[string]string { return logDefaults() }

type (
	truncateCommand struct{ cutFlags }
	resetCommand    struct{ cutFlags }
	restoreLog      struct{ cutFlags }
)

// cut is one way to take records from a log.
type cut struct {
	name string
	// plan gives the bounds afterwards, or what the log would refuse it with.
	plan func(l logBounds, to uint64) (base, tail uint64, err error)
	do   func(ctx context.Context, l *engine.Log, to uint64) error
}

// logBounds is a log as it is once it is open. committed is one past the last record
// that may not go.
type logBounds struct {
	label                 string
	base, tail, committed uint64
}

// Run drops the records from an offset on.
func (c *truncateCommand) Run(a *app) error {
	return c.cutFlags.run(a, cut{
		"truncate", func(l logBounds, to uint64) (uint64, uint64, error) {
			if to < l.committed {
				return 0, 0, &engine.BelowCommitError{Label: l.label, Offset: to, Commit: l.committed}
			}
			if to >= l.tail {
				return l.base, l.tail, nil
			}
			return min(l.base, to), to, nil
		},
		func(ctx context.Context, l *engine.Log, to uint64) error { return l.Truncate(ctx, to) },
	})
}

// Run empties the log and has it begin at an offset.
func (c *resetCommand) Run(a *app) error {
	return c.cutFlags.run(a, cut{
		"reset", func(l logBounds, to uint64) (uint64, uint64, error) {
			if lowest := max(l.base, to); lowest < l.committed {
				return 0, 0, &engine.BelowCommitError{Label: l.label, Offset: lowest, Commit: l.committed}
			}
			return to, to, nil
		},
		func(ctx context.Context, l *engine.Log, to uint64) error { return l.ResetTo(ctx, to) },
	})
}

// Run drops the records from an offset on, committed ones too.
func (c *restoreLog) Run(a *app) error {
	return c.cutFlags.run(a, cut{
		"restore", func(l logBounds, to uint64) (uint64, uint64, error) {
			if to < l.base || to > l.tail {
				return 0, 0, &engine.OutsideLogError{Label: l.label, Offset: to, Base: l.base, Tail: l.tail}
			}
			return l.base, to, nil
		},
		func(ctx context.Context, l *engine.Log, to uint64) error { return l.RestoreTo(ctx, to) },
	})
}

// cutEvent says what happened to a log, or would.
type cutEvent struct {
	Cut    string `json:"cut"`
	Dir    string `json:"dir"`
	DryRun bool   `json:"dry_run"`
	// To is the offset that was asked for, TailOffset the one at which the log ends.
	To uint64 `json:"to"`
	// The bounds before and after.
	BaseBefore uint64 `json:"base_before"`
	TailBefore uint64 `json:"tail_before"`
	BaseOffset uint64 `json:"base_offset"`
	TailOffset uint64 `json:"tail_offset"`
	// Dropped counts the offsets that go.
	Dropped uint64 `json:"dropped"`
	// StorageID is the root's new id; empty when none is due, or the shard lies in no
	// root.
	StorageID string `json:"storage_id"`
}

func (cutEvent) kind() string { return "cut" }

func (e cutEvent) text() string {
	would := ""
	if e.DryRun {
		would = "dry run, nothing was changed; it would be: "
	}
	if e.BaseOffset == e.BaseBefore && e.TailOffset == e.TailBefore {
		return fmt.Sprintf("%s%s of %s to %d: no record is dropped, the log ends at offset %d", would, e.Cut, e.Dir, e.To, e.TailOffset)
	}
	s := fmt.Sprintf("%s%s of %s: offsets %d to %d are now %d to %d, %d records are gone", would, e.Cut, e.Dir,
		e.BaseBefore, e.TailBefore, e.BaseOffset, e.TailOffset, e.Dropped)
	if e.StorageID != "" {
		s += "; the data directory has the new storage id " + e.StorageID
	}
	return s
}

func (c *cutFlags) run(a *app, how cut) (err error) {
	config, err := c.config(c.defaults())
	if err != nil {
		return err
	}
	config.Logger, config.Journal = a.logger, engine.JournalOff // which is the root's
	// The root, which a server has locked, lies above the directory itself and not
	// above a link to it.
	c.Dir = resolved(c.Dir)
	if err := needLog(c.Dir); err != nil {
		return err
	}
	// Locked before the log is looked at: what is foreseen is what will be found.
	disk := newCutDisk()
	defer joined(&err, disk.unlock)
	root, inRoot := rootOf(c.Dir)
	if inRoot {
		if err := disk.hold(root); err != nil {
			return err
		}
	}
	if err := disk.hold(c.Dir); err != nil {
		return err
	}
	config.FS = disk
	policy, err := c.policy()
	if err == nil {
		err = unlessPending(c.Dir, policy)
	}
	if err != nil {
		return err
	}
	e, err := c.foresee(how, policy)
	if err == nil && !c.DryRun {
		e, err = c.carryOut(a, how, config, root, inRoot)
	}
	if err != nil {
		return err
	}
	return a.output(c.outputFlags).emit(e)
}

// foresee says what would happen, or is refused, and changes nothing.
func (c *cutFlags) foresee(how cut, policy recovery.Policy) (cutEvent, error) {
	snapshot, err := recovery.Inspect(device.OS(), c.Dir, logLabel, policy)
	if err != nil {
		return cutEvent{}, err
	}
	plan := recovery.Decide(snapshot, policy)
	base, tail, ok := tailOf(plan)
	if !ok {
		return cutEvent{}, &exitError{code: exitRefused, err: fmt.Errorf("%s would be refused as it is; felixd log inspect says why", c.Dir)}
	}
	replica, err := sidecar.LoadReplica(device.OS(), c.Dir)
	if err != nil {
		return cutEvent{}, &exitError{code: exitRefused, err: err}
	}
	bounds := logBounds{label: c.Dir, base: base, tail: tail}
	if replica != nil {
		bounds.committed = min(replica.Commit, tail)
	}
	return c.judge(how, bounds)
}

// carryOut opens the log, which may repair it, and cuts what there is then.
func (c *cutFlags) carryOut(a *app, how cut, config engine.Config, root string, inRoot bool) (e cutEvent, err error) {
	store, log, err := engine.OpenSingle(a.ctx, c.Dir, logLabel, config)
	if err != nil {
		return e, replayFirst(err)
	}
	defer joined(&err, func() error { return store.Close(context.WithoutCancel(a.ctx)) })
	e, err = c.judge(how, logBounds{label: c.Dir, base: log.BaseOffset(), tail: log.TailOffset(), committed: log.CommitOffset()})
	if err != nil {
		return e, err
	}
	// Records that were acknowledged are about to go: the id first.
	if e.Dropped > 0 && inRoot {
		id, err := engine.RenewStorageID(a.ctx, root, config)
		if err != nil {
			return e, err
		}
		e.StorageID = id.String()
	}
	if err := how.do(a.ctx, log, c.To); err != nil {
		return e, err
	}
	e.settle(log.BaseOffset(), log.TailOffset())
	return e, nil
}

// judge says what a cut makes of a log.
func (c *cutFlags) judge(how cut, l logBounds) (cutEvent, error) {
	base, tail, err := how.plan(l, c.To)
	if err != nil {
		return cutEvent{}, err
	}
	e := cutEvent{Cut: how.name, Dir: c.Dir, DryRun: c.DryRun, To: c.To, BaseBefore: l.base, TailBefore: l.tail}
	e.settle(base, tail)
	return e, nil
}

// settle fills in the bounds afterwards, and what is missing between them.
func (e *cutEvent) settle(base, tail uint64) {
	e.BaseOffset, e.TailOffset = base, tail
	held := uint64(0)
	if low, high := max(e.BaseBefore, base), min(e.TailBefore, tail); low < high {
		held = high - low
	}
	e.Dropped = e.TailBefore - e.BaseBefore - held
}
