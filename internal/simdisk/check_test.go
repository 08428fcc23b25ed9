package simdisk_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

// check opens what a crash left and gives the tail. The log has to open, and to
// hold at least what was durable as an exact prefix of what was appended; another
// power loss takes nothing that was served, nor, under on_commit, what was
// appended since; and the log can be appended to, closed, opened and appended to
// again.
func (w *workload) check(i image) (tail uint64, err error) {
	look := func(l *engine.Log) (err error) {
		tail, err = w.look(l, i.held, i.written)
		return err
	}
	if w.crashRecovery {
		if err := w.checkRecovery(i); err != nil {
			return tail, err
		}
	}
	var again, extended host
	if err := w.with(i.host, func(l *engine.Log) error {
		if err := look(l); err != nil {
			return err
		}
		again = i.host.crash(simdisk.CrashOptions{Writeback: w.writeback, Seed: i.seed})
		if err := extend(l, 3); err != nil {
			return err
		}
		extended = i.host.crash(simdisk.CrashOptions{Writeback: w.writeback, Seed: i.seed + 1})
		return nil
	}); err != nil {
		return tail, err
	}
	served := tail
	if err := w.with(extended, func(l *engine.Log) error { return w.lookExtended(l, served) }); err != nil {
		return served, fmt.Errorf("after a power loss once 3 were appended: %w", err)
	}
	extended.discard()
	if err := w.with(again, func(l *engine.Log) error {
		if err := look(l); err != nil || tail == served {
			return err
		}
		return fmt.Errorf("%w: %d were served and %d are there", errLost, served, tail)
	}); err != nil {
		return served, fmt.Errorf("after a power loss once it was open: %w", err)
	}
	again.discard()
	w.sum.cutAgain++
	if err := w.with(i.host, func(l *engine.Log) error {
		if got := l.TailOffset(); got != served+3 {
			return fmt.Errorf("%w: 3 were appended to %d and the tail is %d", errLost, served, got)
		}
		return extend(l, 1)
	}); err != nil {
		return served, fmt.Errorf("opened again: %w", err)
	}
	w.sum.extended++
	return served, nil
}

// look checks that a log is an exact prefix of what was appended, at least held
// and at most written records long, and gives its tail.
func (w *workload) look(l *engine.Log, held, written uint64) (tail uint64, err error) {
	tail = l.TailOffset()
	if tail < held {
		return tail, fmt.Errorf("%w: the tail is %d, and %d of %d had to be there", errLost, tail, held, written)
	}
	if tail > written {
		return tail, fmt.Errorf("the tail is %d and only %d were appended", tail, written)
	}
	return tail, holds(l, w.want[:tail])
}

// lookExtended checks a log that was served and then got three records more
// before the power went.
func (w *workload) lookExtended(l *engine.Log, served uint64) error {
	tail, least := l.TailOffset(), served
	if w.mode == engine.FsyncOnCommit {
		least += 3
	}
	if tail < least || tail > served+3 {
		return fmt.Errorf("%w: the tail is %d, and %d to %d had to be there", errLost, tail, least, served+3)
	}
	want := append([][]byte(nil), w.want[:served]...)
	for range tail - served {
		want = append(want, afterCrash())
	}
	return holds(l, want)
}

// afterCrash is the payload of what is appended to a recovered log.
func afterCrash() []byte { return fill('+', payloadFixed) }

// checkRecovery opens an image and cuts the power in front of everything that
// opening changes; each of the disks that leaves has to pass as well.
func (w *workload) checkRecovery(i image) error {
	h := i.host.crash(simdisk.CrashOptions{Kind: simdisk.ProcessDeath, Seed: i.seed})
	var cut []host
	var at []string
	h.model().BeforeChange(func(c simdisk.Change) {
		cut = append(cut, h.crash(simdisk.CrashOptions{Writeback: w.writeback, Seed: i.seed + uint64(len(cut))}))
		at = append(at, fmt.Sprintf("%s %s (%v at %d)", c.What, filepath.Base(c.Path), c.Kind, c.Pos))
	})
	err := w.with(h, func(l *engine.Log) error {
		h.model().BeforeChange(nil)
		_, err := w.look(l, i.held, i.written)
		return err
	})
	if err != nil {
		return err
	}
	for n, left := range cut {
		found := left.crash(simdisk.CrashOptions{})
		w.sum.cutAgain++
		if err := w.with(left, func(l *engine.Log) error {
			_, err := w.look(l, i.durable, i.written)
			return err
		}); err != nil {
			return fmt.Errorf("after a power loss in front of change %d of opening, %s: %w; that left\n%s",
				n, at[n], err, listing(w, found))
		}
	}
	return nil
}

func extend(l *engine.Log, n int) error {
	for range n {
		if _, err := l.Append(context.Background(), engine.Record{Payload: afterCrash()}); err != nil {
			return err
		}
	}
	return nil
}

// holds checks that a log is exactly these payloads.
func holds(l *engine.Log, want [][]byte) error {
	if base := l.BaseOffset(); base != 0 {
		return fmt.Errorf("%w: the log begins at %d", errLost, base)
	}
	next := uint64(0)
	for next < uint64(len(want)) {
		page, err := l.ReadRange(context.Background(), next, 64<<10)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return fmt.Errorf("%w: a read at %d below the tail %d is empty", errLost, next, len(want))
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

// listing describes a shard's files for a failure.
func listing(t testing.TB, h host) string {
	fs, queue := h.boot()
	defer queue.Close()
	dir := filepath.Join(h.store(), scenarioKey().DirName())
	entries, err := fs.ReadDir(dir)
	if err != nil {
		return err.Error()
	}
	var text strings.Builder
	for _, e := range entries {
		b := contentOf(t, fs, filepath.Join(dir, e.Name))
		fmt.Fprintf(&text, "%s: %d bytes", e.Name, len(b))
		if mark, ok := recovery.DecodeMark(b); ok {
			fmt.Fprintf(&text, ", mark %+v", mark)
		}
		if strings.HasSuffix(e.Name, ".log") {
			scan, err := segment.Scan(bytes.NewReader(b), int64(len(b)), segment.ScanOptions{})
			fmt.Fprintf(&text, ", offsets %d to %d, intact to %d", scan.Header.BaseOffset, scan.NextOffset, scan.ValidEnd)
			if err != nil {
				fmt.Fprintf(&text, ", %v", err)
			}
			if scan.Damage != nil {
				fmt.Fprintf(&text, ", %v, %d intact after", scan.Damage.Cause, scan.Damage.IntactAfter)
			}
		}
		text.WriteByte('\n')
	}
	return text.String()
}

// contentOf reads a whole file; nil when there is none.
func contentOf(t testing.TB, fs device.FS, path string) []byte {
	t.Helper()
	f, err := fs.OpenFile(path, device.ReadOnly, 0)
	if device.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); n != len(b) {
		t.Fatal(n, err)
	}
	return b
}
