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
	"felix.local/felix/sidecar"
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
	var first sidecar.StorageID
	if err := w.opened(i.host, &i, func(store *engine.Store, logs []*engine.Log) error {
		if served, err = w.lookAll(store, logs, i); err != nil {
			return err
		}
		first = store.Identity().ID
		w.sum.Replayed += store.Stats().JournalReplayed
		w.sum.addIdentity(i, first)
		i.name.served()
		for s, l := range logs {
			i.expect[s].standing.served(l)
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
	if err := w.opened(extended, &i, func(store *engine.Store, logs []*engine.Log) error {
		return w.lookExtended(logs, i, served, store.Identity().ID == first)
	}); err != nil {
		return served, fmt.Errorf("after a power loss once %d were appended: %w", extension, err)
	}
	if err := w.opened(again, &i, func(_ *engine.Store, logs []*engine.Log) error { return w.lookAgain(logs, i, served) }); err != nil {
		return served, fmt.Errorf("after a power loss once it was open: %w", err)
	}
	w.sum.CutAgain++
	if err := w.opened(i.host, &i, func(store *engine.Store, logs []*engine.Log) error {
		if now := store.Identity(); now.ID != first {
			return fmt.Errorf("the id is another after a clean stop: %s", now.Reason)
		}
		return w.reopened(logs, i, served)
	}); err != nil {
		return served, fmt.Errorf("opened again: %w", err)
	}
	w.sum.Extended++
	return served, errors.Join(extended.discard(), again.discard())
}

// opened opens what an image left, or what became of it. Retention stays off, so
// that what is there stays.
func (w *workload) opened(h host, i *image, do func(*engine.Store, []*engine.Log) error) error {
	return w.imageLife(i, w.imageConfig(i)).on(h, do)
}

// imageConfig has the journal of an image used by some of those who open it, and not
// by others: what it holds is brought to the segments either way.
func (w *workload) imageConfig(i *image) func(device.FS, device.Queue) engine.Config {
	w.openings++
	without := w.journaled && i.seed>>(w.openings%seedBits)%2 == 0
	return func(fs device.FS, queue device.Queue) engine.Config {
		c := w.config(fs, queue)
		if without {
			c.Journal = engine.JournalOff
		}
		return c
	}
}

const seedBits = 64

// imageLife is a life on an image. Shards of a stream that was deleted meanwhile are
// expected to be empty.
func (w *workload) imageLife(i *image, config func(device.FS, device.Queue) engine.Config) life {
	return life{config: config, open: func(ctx context.Context, store *engine.Store) ([]*engine.Log, error) {
		if i.name == nil {
			return openShards(ctx, store, len(i.expect), 0, engine.LogOptions{})
		}
		logs, bare, err := i.name.open(ctx, store, len(i.expect))
		if bare {
			i.bare()
		}
		return logs, err
	}}
}

// lookAll checks every log of an image, and that a storage id which is the old one
// vouches for what was acknowledged.
func (w *workload) lookAll(store *engine.Store, logs []*engine.Log, i image) (served []span, err error) {
	now := store.Identity()
	stays := i.id != nil && now.ID == *i.id
	for s, l := range logs {
		e := i.expect[s]
		found, err := look(l, e)
		if err != nil {
			return served, fmt.Errorf("%s: %w", l.Label(), err)
		}
		served = append(served, found)
		if stays && found.tail < e.vouched && !e.isEmptied(found) {
			return served, fmt.Errorf("%s: %w: %d of %d acknowledged records are there, under a storage id that vouches for them; the last run %v",
				l.Label(), errLost, found.tail, e.vouched, now.Previous)
		}
		if err := e.standing.check(l, found, w.mode); err != nil {
			return served, fmt.Errorf("%s: %w", l.Label(), err)
		}
	}
	if i.id != nil && !stays && w.mode == engine.FsyncOnCommit {
		return served, fmt.Errorf("the storage id is another, though nothing acknowledged can be missing: %s", now.Reason)
	}
	return served, nil
}

// isEmptied says that a log is the empty one that it may be.
func (e expectation) isEmptied(found span) bool {
	return e.emptied != nil && found == span{*e.emptied, *e.emptied}
}

// look checks that a log holds what it has to, and nothing but what was appended.
func look(l *engine.Log, e expectation) (span, error) {
	found := span{l.BaseOffset(), l.TailOffset()}
	if e.isEmptied(found) {
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
func (w *workload) lookAgain(logs []*engine.Log, i image, served []span) error {
	for s, l := range logs {
		if found := (span{l.BaseOffset(), l.TailOffset()}); found != served[s] {
			return fmt.Errorf("%s: %w: %v were served and %v are there", l.Label(), errLost, served[s], found)
		}
		if err := errors.Join(holds(l, served[s], i.expect[s].want), i.expect[s].standing.check(l, served[s], w.mode)); err != nil {
			return fmt.Errorf("%s: %w", l.Label(), err)
		}
	}
	return nil
}

// extension is how many records a recovered log gets.
const extension = 3

// lookExtended checks logs that were served and then got more records before the
// power went. All of those are there if the storage id vouches for them.
func (w *workload) lookExtended(logs []*engine.Log, i image, served []span, vouched bool) error {
	for s, l := range logs {
		found, least := span{l.BaseOffset(), l.TailOffset()}, served[s].tail
		if w.mode == engine.FsyncOnCommit || vouched {
			least += extension
		}
		if found.base != served[s].base || found.tail < least || found.tail > served[s].tail+extension {
			return fmt.Errorf("%s: %w: %v are there, of %v served and %d more", l.Label(), errLost, found, served[s], extension)
		}
		want := make([][]byte, served[s].tail) // which may lie past all that was appended
		copy(want, i.expect[s].want)
		for range extension {
			want = append(want, afterCrash())
		}
		if err := errors.Join(holds(l, found, want), i.expect[s].standing.check(l, served[s], w.mode)); err != nil {
			return fmt.Errorf("%s: %w", l.Label(), err)
		}
	}
	return nil
}

// reopened checks logs that were extended and closed, and appends to them.
func (w *workload) reopened(logs []*engine.Log, i image, served []span) error {
	for s, l := range logs {
		if got := l.TailOffset(); got != served[s].tail+extension || l.BaseOffset() != served[s].base {
			return fmt.Errorf("%s: %w: %d were appended to %v and the tail is %d", l.Label(), errLost, extension, served[s], got)
		}
		if err := errors.Join(i.expect[s].standing.check(l, served[s], w.mode), extend(l, 1)); err != nil {
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
	i = i.copied()
	h := i.host.crash(simdisk.CrashOptions{Kind: simdisk.ProcessDeath, Seed: i.seed})
	var cut []host
	var at []string
	config := w.imageConfig(&i)
	hooked := func(fs device.FS, queue device.Queue) engine.Config {
		h.model().BeforeChange(func(c simdisk.Change) {
			cut = append(cut, h.crash(simdisk.CrashOptions{Writeback: w.writeback, Seed: i.seed + uint64(len(cut))}))
			at = append(at, describeChange(c))
		})
		return config(fs, queue)
	}
	durable := i.copied()
	for s := range durable.expect {
		durable.expect[s].held = durable.expect[s].durable
	}
	err := w.imageLife(&i, hooked).on(h, func(store *engine.Store, logs []*engine.Log) error {
		h.model().BeforeChange(nil)
		_, err := w.lookAll(store, logs, i)
		return err
	})
	if err != nil {
		return err
	}
	durable.name = i.name // with all that was said while it was opened
	for n, left := range cut {
		found := left.crash(simdisk.CrashOptions{Kind: simdisk.ProcessDeath})
		w.sum.RecoveriesCut++
		one := durable.copied()
		if err := w.opened(left, &one, func(store *engine.Store, logs []*engine.Log) error {
			_, err := w.lookAll(store, logs, one)
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
		page, err := l.ReadStored(context.Background(), next, 64<<10, engine.DefaultMaxRecordsPerRead)
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
