package victim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/fallback"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/journal"
	"felix.local/felix/segment"
	"felix.local/felix/test/matrix/powercut/workload"
	"felix.local/felix/uring"
)

const (
	// healthy are appends to each log before the disk fails.
	healthy = 30
	// patience is how many appends, and for how long, may be acknowledged before a
	// failure is met: under periodic, and behind a journal, that takes a while.
	patience     = 4000
	patienceTime = 60 * time.Second
	// insists is how many appends each log is asked for once one failed.
	insists = 20
)

// Run carries a Spec out on a filesystem that is mounted. wait returns once the disk
// fails.
func Run(ctx context.Context, spec Spec, out io.Writer, wait func() error) error {
	v, err := open(ctx, spec, out)
	if err != nil {
		return err
	}
	for range healthy {
		for i := range v.logs {
			if err := v.append(ctx, i); err != nil {
				return fmt.Errorf("before the disk fails: %w", err)
			}
		}
	}
	if err := v.settle(ctx); err != nil {
		return fmt.Errorf("before the disk fails: %w", err)
	}
	arm, err := v.target()
	if err != nil {
		return err
	}
	line, err := format(armWord, arm)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(out, line); err != nil {
		return err
	}
	if err := wait(); err != nil {
		return err
	}
	report := v.suffer(ctx)
	line, err = format(reportWord, report)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, line)
	return err
}

// victim is the open store.
type victim struct {
	spec  Spec
	out   io.Writer
	disk  *faultdisk.Disk
	store *engine.Store
	// logs are two of the workload's: the first one's disk fails.
	shapes []workload.Shape
	logs   []*engine.Log
}

func open(ctx context.Context, spec Spec, out io.Writer) (*victim, error) {
	config, err := spec.Store.Config()
	if err != nil {
		return nil, err
	}
	queue, err := openQueue(spec.Store.Backend)
	if err != nil {
		return nil, err
	}
	v := &victim{spec: spec, out: out, disk: faultdisk.New(device.OS(), queue, faultdisk.Options{}), shapes: workload.Shapes()[:2]}
	config.FS, config.Queue = v.disk.FS(), v.disk.Queue()
	v.store, err = engine.OpenStore(ctx, v.root(), config)
	if err != nil {
		return nil, err
	}
	for _, shape := range v.shapes {
		l, err := v.store.OpenLog(ctx, workload.Key(shape.Log))
		if err != nil {
			return nil, err
		}
		v.logs = append(v.logs, l)
	}
	return v, nil
}

func (v *victim) root() string { return filepath.Join(v.spec.Root, v.spec.Store.Name) }

func openQueue(backend string) (device.Queue, error) {
	switch backend {
	case "ring":
		return uring.Open(uring.Options{})
	case "pool":
		return fallback.Open(fallback.Options{}), nil
	default:
		return nil, fmt.Errorf("%q is not one of ring, pool", backend)
	}
}

// append appends once to a log and tells of the acknowledgement, and of what is durable.
func (v *victim) append(ctx context.Context, i int) error {
	l, shape := v.logs[i], v.shapes[i]
	result, err := l.Append(ctx, shape.Records(v.spec.Store.Name, l.TailOffset())...)
	if err != nil {
		return err
	}
	return errors.Join(v.tell(i, workload.Acked, result.Last), v.tell(i, workload.Durable, l.DurableOffset()))
}

func (v *victim) tell(i int, kind workload.Kind, bound uint64) error {
	e := workload.Event{Kind: kind, Store: v.spec.Store.Name, Log: v.shapes[i].Log, Bound: bound}
	_, err := fmt.Fprintln(v.out, e)
	return err
}

// settle waits until the disk has everything, under periodic too, so that something is
// promised in every mode.
func (v *victim) settle(ctx context.Context) error {
	for i, l := range v.logs {
		if err := l.WaitDurable(ctx, l.TailOffset()-1); err != nil {
			return err
		}
		if err := v.tell(i, workload.Durable, l.DurableOffset()); err != nil {
			return err
		}
	}
	return nil
}

// target says which blocks of the disk the next records go to.
func (v *victim) target() (Arm, error) {
	switch {
	case v.spec.Fails == Flush:
		return Arm{}, nil
	case v.spec.Fails == Write && v.spec.Store.Journal == "require":
		blocks, err := directoryBlocks(filepath.Join(v.root(), journal.DirName))
		return Arm{Blocks: blocks}, err
	}
	segments := v.logs[0].Segments()
	active := segments[len(segments)-1]
	path := filepath.Join(v.logs[0].Dir(), segment.LogName(active.ID))
	blocks, err := fileBlocks(path, (active.Size+blockBytes-1)/blockBytes)
	if err == nil && len(blocks) == 0 {
		err = fmt.Errorf("%s has no blocks past its end at %d", path, active.Size)
	}
	return Arm{Blocks: blocks}, err
}

// suffer appends until the disk's failure is met, and sees what comes of it.
func (v *victim) suffer(ctx context.Context) Report {
	r := Report{Backend: v.store.Backend().Name}
	err := v.meet(ctx, &r)
	if err == nil {
		return r
	}
	r.Error = err.Error()
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		r.Errno = unix.ErrnoName(errno)
	}
	r.Poisoned = v.logs[0].Poisoned() != nil
	// A frame of the journal that failed is of all logs: the other one may not know yet,
	// and must not acknowledge anything either.
	all := v.spec.Fails == Write && v.spec.Store.Journal == "require"
	for range insists {
		for i, l := range v.logs {
			if l.Poisoned() == nil && !all {
				continue // it has nothing to do with the other's segment
			}
			switch err := v.append(ctx, i); {
			case err == nil:
				r.Acknowledged++
			case errors.Is(err, engine.ErrPoisoned):
				r.Refused++
			default:
				r.Odd++
			}
		}
	}
	r.Other = v.logs[1].Poisoned() != nil
	closed := v.store.Close(ctx)
	if closed == nil {
		r.Odd++ // a store with a poisoned log does not close as if nothing had been
	}
	v.account(&r)
	return r
}

// meet appends to the first log, until that fails or patience ends.
func (v *victim) meet(ctx context.Context, r *Report) error {
	for until := time.Now().Add(patienceTime); r.Before < patience && time.Now().Before(until); r.Before++ {
		if err := v.append(ctx, 0); err != nil {
			return err
		}
	}
	return nil
}

// account reads the record of what was asked of the disk: which operation on a segment or
// the journal failed first, and what of the files that failed was to be made durable
// after they did.
func (v *victim) account(r *Report) {
	const durable = faultdisk.WriteDsync | faultdisk.Flush | faultdisk.FlushAll
	failed := make(map[string]faultdisk.Event) // the first of each file
	var first faultdisk.Event
	log := v.disk.Log(faultdisk.Writes | faultdisk.Flushes)
	for _, e := range log {
		if e.Err == nil || !holdsRecords(e.Path) {
			continue
		}
		if known, ok := failed[e.Path]; !ok || e.End < known.End {
			failed[e.Path] = e
		}
		if first.Err == nil || e.End < first.End {
			first = e
		}
	}
	if first.Err == nil {
		return
	}
	r.File, r.Operation = first.Path, first.Kind.String()
	if name, err := filepath.Rel(v.root(), first.Path); err == nil {
		r.File = name
	}
	for _, e := range log {
		if known, ok := failed[e.Path]; ok && e.Kind&durable != 0 && known.Before(e) {
			r.Again++
		}
	}
}

// holdsRecords says that a file is a segment or one of the journal's.
func holdsRecords(path string) bool {
	return filepath.Ext(path) == ".log" || filepath.Base(filepath.Dir(path)) == journal.DirName
}
