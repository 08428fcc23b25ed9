package powerloss

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
)

var errLost = errors.New("records are lost")

// imageError says what is wrong with an image.
type imageError struct {
	seed uint64
	err  error
}

func (e *imageError) Error() string { return fmt.Sprintf("image seed %#x: %v", e.seed, e.err) }
func (e *imageError) Unwrap() error { return e.err }

// judge checks images, and ends at the first one that fails.
func (w *workload) judge(images []image) error {
	for _, i := range images {
		found := i.host.crash(simdisk.CrashOptions{Kind: simdisk.ProcessDeath})
		served, err := w.check(i)
		if failed := (*hostError)(nil); errors.As(err, &failed) {
			return err
		}
		w.sum.count(i, served, err)
		if err != nil {
			if i.at != "" {
				err = fmt.Errorf("%s: %w", i.at, err)
			}
			return &imageError{i.seed, fmt.Errorf("%w\n%s", err, describeImage(i, found))}
		}
		if err := i.host.discard(); err != nil {
			return err
		}
	}
	return nil
}

// span is what a log holds: offsets from base to tail.
type span struct{ base, tail uint64 }

// check opens what a crash left and gives what it held. Every log has to open, and
// to hold what was promised; another power loss takes nothing that was served,
// nor, under on_commit, what was appended since; and the log can be appended to,
// closed, opened and appended to again.
func (w *workload) check(i image) (served []span, err error) {
	w.judged++
	if w.judged%w.recoverEach == 0 {
		if err := w.checkRecovery(i); err != nil {
			return nil, err
		}
	}
	var again, extended host
	if err := w.opened(i.host, func(logs []*engine.Log) error {
		if served, err = lookAll(logs, i.expect); err != nil {
			return err
		}
		w.sum.addRecoveries(logs)
		again = i.host.crash(simdisk.CrashOptions{Writeback: w.writeback, Seed: i.seed})
		for _, l := range logs {
			if err := extend(l, extension); err != nil {
				return err
			}
		}
		extended = i.host.crash(simdisk.CrashOptions{Writeback: w.writeback, Seed: i.seed + 1})
		return nil
	}); err != nil {
		return served, err
	}
	if err := w.opened(extended, func(logs []*engine.Log) error { return w.lookExtended(logs, i, served) }); err != nil {
		return served, fmt.Errorf("after a power loss once %d were appended: %w", extension, err)
	}
	if err := w.opened(again, func(logs []*engine.Log) error { return lookAgain(logs, i, served) }); err != nil {
		return served, fmt.Errorf("after a power loss once it was open: %w", err)
	}
	w.sum.CutAgain++
	if err := w.opened(i.host, func(logs []*engine.Log) error { return reopened(logs, served) }); err != nil {
		return served, fmt.Errorf("opened again: %w", err)
	}
	w.sum.Extended++
	return served, errors.Join(extended.discard(), again.discard())
}

// opened opens an image. Retention stays off, so that what is there stays.
func (w *workload) opened(h host, do func([]*engine.Log) error) error {
	return life{shards: len(w.shards), config: w.config}.on(h, func(_ *engine.Store, logs []*engine.Log) error { return do(logs) })
}

func lookAll(logs []*engine.Log, expect []expectation) (served []span, err error) {
	for s, l := range logs {
		found, err := look(l, expect[s])
		if err != nil {
			return served, fmt.Errorf("%s: %w", l.Label(), err)
		}
		served = append(served, found)
	}
	return served, nil
}

// look checks that a log holds what it has to, and nothing but what was appended.
func look(l *engine.Log, e expectation) (span, error) {
	found := span{l.BaseOffset(), l.TailOffset()}
	if e.emptied != nil && found == (span{*e.emptied, *e.emptied}) {
		return found, nil
	}
	switch {
	case found.tail < e.held:
		return found, fmt.Errorf("%w: the tail is %d, and %d of %d had to be there", errLost, found.tail, e.held, e.written)
	case found.base > e.baseMax:
		return found, fmt.Errorf("%w: the log begins at %d, and never began later than at %d", errLost, found.base, e.baseMax)
	case found.tail > e.written:
		return found, fmt.Errorf("the tail is %d and only %d were appended", found.tail, e.written)
	case found.base < e.baseMin:
		return found, fmt.Errorf("the log begins at %d, and what is below %d was durably removed", found.base, e.baseMin)
	}
	return found, holds(l, found, e.want)
}

// lookAgain checks logs that were served and then lost power.
func lookAgain(logs []*engine.Log, i image, served []span) error {
	for s, l := range logs {
		if found := (span{l.BaseOffset(), l.TailOffset()}); found != served[s] {
			return fmt.Errorf("%s: %w: %v were served and %v are there", l.Label(), errLost, served[s], found)
		}
		if err := holds(l, served[s], i.expect[s].want); err != nil {
			return fmt.Errorf("%s: %w", l.Label(), err)
		}
	}
	return nil
}

// extension is how many records a recovered log gets.
const extension = 3

// lookExtended checks logs that were served and then got more records before the
// power went.
func (w *workload) lookExtended(logs []*engine.Log, i image, served []span) error {
	for s, l := range logs {
		found, least := span{l.BaseOffset(), l.TailOffset()}, served[s].tail
		if w.mode == engine.FsyncOnCommit {
			least += extension
		}
		if found.base != served[s].base || found.tail < least || found.tail > served[s].tail+extension {
			return fmt.Errorf("%s: %w: %v are there, of %v served and %d more", l.Label(), errLost, found, served[s], extension)
		}
		want := append([][]byte(nil), i.expect[s].want[:served[s].tail]...)
		for range extension {
			want = append(want, afterCrash())
		}
		if err := holds(l, found, want); err != nil {
			return fmt.Errorf("%s: %w", l.Label(), err)
		}
	}
	return nil
}

// reopened checks logs that were extended and closed, and appends to them.
func reopened(logs []*engine.Log, served []span) error {
	for s, l := range logs {
		if got := l.TailOffset(); got != served[s].tail+extension || l.BaseOffset() != served[s].base {
			return fmt.Errorf("%s: %w: %d were appended to %v and the tail is %d", l.Label(), errLost, extension, served[s], got)
		}
		if err := extend(l, 1); err != nil {
			return err
		}
	}
	return nil
}

// afterCrash is the payload of what is appended to a recovered log.
func afterCrash() []byte { return bytes.Repeat([]byte{'+'}, payloadFixed) }

func extend(l *engine.Log, n int) error {
	for range n {
		if _, err := l.Append(context.Background(), engine.Record{Payload: afterCrash()}); err != nil {
			return err
		}
	}
	return nil
}

// checkRecovery opens an image and cuts the power in front of everything that
// opening changes; each of the disks that leaves has to pass as well.
func (w *workload) checkRecovery(i image) error {
	h := i.host.crash(simdisk.CrashOptions{Kind: simdisk.ProcessDeath, Seed: i.seed})
	var cut []host
	var at []string
	hooked := func(fs device.FS, queue device.Queue) engine.Config {
		h.model().BeforeChange(func(c simdisk.Change) {
			cut = append(cut, h.crash(simdisk.CrashOptions{Writeback: w.writeback, Seed: i.seed + uint64(len(cut))}))
			at = append(at, describeChange(c))
		})
		return w.config(fs, queue)
	}
	err := life{shards: len(w.shards), config: hooked}.on(h, func(_ *engine.Store, logs []*engine.Log) error {
		h.model().BeforeChange(nil)
		_, err := lookAll(logs, i.expect)
		return err
	})
	if err != nil {
		return err
	}
	durable := append([]expectation(nil), i.expect...)
	for s := range durable {
		durable[s].held = durable[s].durable
	}
	for n, left := range cut {
		found := left.crash(simdisk.CrashOptions{Kind: simdisk.ProcessDeath})
		w.sum.RecoveriesCut++
		if err := w.opened(left, func(logs []*engine.Log) error {
			_, err := lookAll(logs, durable)
			return err
		}); err != nil {
			return fmt.Errorf("after a power loss in front of change %d of opening, %s: %w; that left\n%s",
				n, at[n], err, listing(found, len(i.expect)))
		}
		if err := left.discard(); err != nil {
			return err
		}
	}
	return h.discard()
}

// holds checks that a log is exactly these payloads, from the base on.
func holds(l *engine.Log, found span, want [][]byte) error {
	for next := found.base; next < found.tail; {
		page, err := l.ReadRange(context.Background(), next, 64<<10)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return fmt.Errorf("%w: a read at %d below the tail %d is empty", errLost, next, found.tail)
		}
		for _, r := range page {
			if r.Offset != next || !bytes.Equal(r.Payload, want[next]) {
				return fmt.Errorf("%w: offset %d holds record %d with other bytes", errLost, next, r.Offset)
			}
			next++
		}
	}
	return nil
}

func describeChange(c simdisk.Change) string {
	return fmt.Sprintf("in front of %s %s (%v at %d)", c.What, filepath.Base(c.Path), c.Kind, c.Pos)
}
