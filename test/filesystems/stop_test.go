package filesystems

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// shutdownRequest is EXT4_IOC_SHUTDOWN and XFS_IOC_GOINGDOWN: the filesystem takes
// nothing more until it is mounted anew.
const shutdownRequest = 0x8004587d

// What of the filesystem's own journal reaches the device before that.
const (
	shutdownFlush   = iota // everything, data too
	shutdownLog            // the filesystem's log
	shutdownNothing        // nothing, as in a power cut
)

// shutdown stops the filesystem on the place's disk.
func (m *mounted) shutdown(flag int) error {
	dir, err := os.Open(m.loop.At)
	if err != nil {
		return err
	}
	defer dir.Close()
	return unix.IoctlSetPointerInt(int(dir.Fd()), shutdownRequest, flag)
}

// stop is a way in which a filesystem stops taking writes under load.
type stop struct {
	place
	what string
	now  func(m *mounted) error
	// late: it goes down before it says so.
	late bool
}

// unseen is why nobody can see that it has stopped, or nothing.
func (s stop) unseen(m *mounted) string {
	if s.late {
		return ext4IsLate
	}
	return m.unseen()
}

func (s stop) row() string { return s.name + ": " + s.what }

func stops() []stop {
	ext4 := place{name: "ext4, errors=remount-ro", disk: "ext4", bytes: ext4Bytes, options: "errors=remount-ro"}
	all := []stop{{ext4, "an error of the filesystem itself", func(m *mounted) error {
		return os.WriteFile(filepath.Join("/sys/fs/ext4", filepath.Base(m.loop.Device), "trigger_fs_error"), []byte("1"), 0)
	}, true}}
	shutdowns := func(p place, flags ...int) {
		text := [...]string{"shutdown after a flush of everything", "shutdown after a flush of its log", "shutdown at once"}
		for _, flag := range flags {
			all = append(all, stop{p, text[flag], func(m *mounted) error { return m.shutdown(flag) }, false})
		}
	}
	shutdowns(place{name: "ext4", disk: "ext4", bytes: ext4Bytes}, shutdownFlush, shutdownLog, shutdownNothing)
	shutdowns(place{name: "XFS", disk: "xfs", bytes: xfsBytes}, shutdownFlush, shutdownLog, shutdownNothing)
	shutdowns(place{name: "overlayfs on ext4", disk: "ext4", bytes: ext4Bytes, overlay: true}, shutdownNothing)
	return all
}

// stopShards is how many logs are appended to at once.
const stopShards = 4

// Every append in flight and every later one fails, typed, within bounds, and what was
// acknowledged is there when the filesystem is mounted again.
func TestAFilesystemThatStopsUnderLoadTakesNothingAcknowledged(t *testing.T) {
	all := stops()
	order := make([]string, len(all))
	for i, s := range all {
		order[i] = s.row()
	}
	tb := newTable("A filesystem that stops under load", setupColumns("what happens"), order)
	t.Run("by", func(t *testing.T) {
		for _, what := range all {
			t.Run(what.row(), func(t *testing.T) {
				t.Parallel()
				for column, s := range setups() {
					t.Run(s.String(), func(t *testing.T) {
						m := what.mount(t, tb.skipper(t, what.row(), column))
						s.needRing(t, m)
						tb.cell(what.row(), column, stopUnderLoad(t, m, what, s))
					})
				}
			})
		}
	})
	tb.print(t)
}

func stopUnderLoad(t *testing.T, m *mounted, what stop, s setup) string {
	t.Helper()
	l := newLedger(stopShards)
	j := s.job(m)
	j.Shards, j.PayloadMax = stopShards, 600
	w := mustStart(t, l, j, 0)
	w.command("publish")
	w.acks(200)
	l.stopping()
	if err := what.now(m); err != nil {
		if errors.Is(err, unix.ENOTTY) || errors.Is(err, os.ErrNotExist) {
			m.skip("this kernel cannot be told to: " + err.Error())
		}
		t.Fatal(err)
	}
	failed := w.until(did).Problem
	wantStopped(t, "appending", failed, w)
	later := w.do("append 1")
	wantStopped(t, "appending again", later, w)
	poisoned, reading := look(t, w)
	if poisoned != stopShards {
		t.Errorf("%d of %d logs are poisoned\n%s", poisoned, stopShards, w.log())
	}
	if closing := w.close(); closing == nil || closing.Type == "" {
		t.Errorf("closing gave %+v", closing)
	}
	m.again()
	j.Session++
	w = mustStart(t, l, j, 0)
	l.check(t, w, allAcked)
	w.mustDo("append 20")
	l.check(t, w, allAcked)
	if p := w.close(); p != nil {
		t.Errorf("closing: %s", p.Text)
	}
	l.wantNoneLate(t, what.unseen(m))
	return fmt.Sprintf("%s, poisoned; %s; 0 of %d lost", unix.ErrnoName(failed.Errno), reading, l.total) + l.lateText(what.unseen(m))
}

func wantStopped(t *testing.T, when string, p *problem, w *worker) {
	t.Helper()
	if p == nil || p.Type == "" || p.Full {
		t.Fatalf("%s: want a typed error of a filesystem that is gone, got %+v\n%s", when, p, w.log())
	}
}

// look reads all logs where reading may fail. It gives how many are poisoned, and how
// reading went.
func look(t *testing.T, w *worker) (poisoned int, reading string) {
	t.Helper()
	w.command("records")
	for {
		switch e := w.until(records, did); {
		case e.Kind == records && e.Poisoned:
			poisoned++
		case e.Kind == records:
		case e.Problem == nil:
			return poisoned, "reads go on"
		case e.Problem.Type == "":
			t.Errorf("reading gave %+v", e.Problem)
			fallthrough
		default:
			return poisoned, "reads fail (" + unix.ErrnoName(e.Problem.Errno) + ")"
		}
	}
}

// The kernel refuses to make a filesystem read-only while a log is written. Once no
// process has it open it can be done, and a start is then refused.
func TestAFilesystemIsNotMadeReadOnlyUnderALog(t *testing.T) {
	all := places()
	tb := newTable("Remounted read-only", setupColumns("filesystem"), names(all))
	t.Run("on", func(t *testing.T) {
		for _, p := range all {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				for column, s := range setups() {
					t.Run(s.String(), func(t *testing.T) {
						m := p.mount(t, tb.skipper(t, p.name, column))
						s.needRing(t, m)
						tb.cell(p.name, column, remountUnderLoad(t, m, s))
					})
				}
			})
		}
	})
	tb.print(t)
}

func remountUnderLoad(t *testing.T, m *mounted, s setup) string {
	t.Helper()
	remount := func(flags uintptr) error { return unix.Mount("", m.at, "", unix.MS_REMOUNT|flags, "") }
	l := newLedger(stopShards)
	j := s.job(m)
	j.Shards, j.PayloadMax = stopShards, 600
	w := mustStart(t, l, j, 0)
	w.command("publish")
	w.acks(100)
	under := remount(unix.MS_RDONLY)
	if under == nil {
		t.Fatal("the filesystem is read-only under logs that are being written")
	}
	w.acks(100) // appends go on
	w.kill()
	// What the killed process had open goes in the background.
	var err error
	waitFor(func() bool { err = remount(unix.MS_RDONLY); return !errors.Is(err, unix.EBUSY) })
	if err != nil {
		t.Fatal(err)
	}
	j.Session++
	w, e := start(t, l, j, 0)
	if e.Kind != refused || e.Problem.Type == "" || !e.Problem.ReadOnly {
		t.Fatalf("a start on a read-only filesystem gave %+v\n%s", e, w.log())
	}
	if err := remount(0); err != nil {
		t.Fatal(err)
	}
	w = mustStart(t, l, j, 0)
	l.check(t, w, allAcked)
	w.mustDo("append 20")
	l.check(t, w, allAcked)
	if p := w.close(); p != nil {
		t.Errorf("closing: %s", p.Text)
	}
	var errno unix.Errno
	errors.As(under, &errno)
	return fmt.Sprintf("%s under load; a start refused (%s); 0 of %d lost",
		unix.ErrnoName(errno), unix.ErrnoName(e.Problem.Errno), l.total)
}
