package filesystems

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// Where nothing is left, appends are refused with an error that says so, what was
// acknowledged is there and read, and appends go on by themselves once there is room;
// a kill and a start in between, with and without room, change nothing about that.
func TestWithoutRoomAppendsAreRefusedAndGoOnWhenThereIsSome(t *testing.T) {
	all := shortages()
	order := make([]string, len(all))
	for i, s := range all {
		order[i] = s.row()
	}
	tb := newTable("Without room", setupColumns("what runs out"), order)
	t.Run("of", func(t *testing.T) {
		for _, what := range all {
			t.Run(what.row(), func(t *testing.T) {
				t.Parallel()
				for column, s := range setups() {
					t.Run(s.String(), func(t *testing.T) {
						m := what.mount(t, tb.skipper(t, what.row(), column))
						s.needRing(t, m)
						if what.prepare != nil {
							what.prepare(m)
						}
						run := runOut
						if what.mayPoison || what.mayPoisonJournaled && s.journal {
							run = runOutForGood
						}
						tb.cell(what.row(), column, run(t, m, what, s))
					})
				}
			})
		}
	})
	tb.print(t)
}

// runOut runs out of something three times, and says how it went.
func runOut(t *testing.T, m *mounted, what shortage, s setup) string {
	t.Helper()
	l := newLedger(2)
	j := what.job(m, s)
	open := func() *worker {
		j.Session++
		return mustStart(t, l, j, what.uid)
	}

	// It fills up under a store that goes on when there is room.
	w := open()
	w.mustDo("append 20")
	what.squeeze(m)
	first := w.do("fill")
	wantFull(t, "filling up", first, w)
	wantFull(t, "again", w.do("fill"), w)
	l.check(t, w, exactly)
	what.release(m)
	w.mustDo("append 20")
	l.check(t, w, exactly)

	// It fills up again, and the store is closed without room.
	what.squeeze(m)
	wantFull(t, "filling up again", w.do("fill"), w)
	if closing := w.close(); closing != nil && (!closing.Full || closing.Poisoned) {
		t.Errorf("closing without room: %+v", closing)
	}
	starting := startWithoutRoom(t, l, &j, what, "after it was closed")

	// It fills up once more, and the process is killed without room.
	what.release(m)
	w = open()
	l.check(t, w, exactly)
	w.mustDo("append 20")
	what.squeeze(m)
	wantFull(t, "filling up before the kill", w.do("fill"), w)
	w.kill()
	restarting := startWithoutRoom(t, l, &j, what, "after it was killed")
	what.release(m)
	w = open()
	l.check(t, w, exactly)
	w.mustDo("append 20")
	l.check(t, w, exactly)
	if p := w.close(); p != nil {
		t.Errorf("closing with room: %s", p.Text)
	}
	w = open()
	l.check(t, w, exactly)
	if p := w.close(); p != nil {
		t.Errorf("closing again: %s", p.Text)
	}
	return fmt.Sprintf("%s, went on with room; starts without room: %s after closing, %s after a kill; 0 of %d lost",
		unix.ErrnoName(first.Errno), starting, restarting, l.total)
}

// runOutForGood is runOut where undoing a write, or writing the journal, needs room
// too: a log may be poisoned, and is there whole when it is opened with room.
func runOutForGood(t *testing.T, m *mounted, what shortage, s setup) string {
	t.Helper()
	const rounds = 3
	l := newLedger(2)
	j := what.job(m, s)
	poisoned, last := 0, &problem{}
	for round := range rounds {
		j.Session++
		w := mustStart(t, l, j, what.uid)
		l.check(t, w, allAcked)
		w.mustDo("append 20")
		what.squeeze(m)
		last = w.do("fill")
		if last == nil || !last.Full || last.Type == "" {
			t.Fatalf("want the error of a full disk, got %+v\n%s", last, w.log())
		}
		if last.Poisoned {
			poisoned++
		}
		l.check(t, w, allAcked)
		if round%2 == 0 {
			w.kill()
		} else if closing := w.close(); closing != nil && !closing.Full {
			t.Errorf("closing without room: %+v", closing)
		}
		what.release(m)
	}
	j.Session++
	w := mustStart(t, l, j, what.uid)
	l.check(t, w, allAcked)
	w.mustDo("append 20")
	l.check(t, w, allAcked)
	if p := w.close(); p != nil {
		t.Errorf("closing with room: %s", p.Text)
	}
	return fmt.Sprintf("%s, poisoned %d of %d times; 0 of %d lost after a start with room",
		unix.ErrnoName(last.Errno), poisoned, rounds, l.total)
}

// wantFull fails the test unless a problem is the typed one for a disk without room, of
// a log that goes on.
func wantFull(t *testing.T, when string, p *problem, w *worker) {
	t.Helper()
	if p == nil || !p.Full || p.Poisoned || p.Type == "" {
		t.Fatalf("%s: want the error of a full disk, got %+v\n%s", when, p, w.log())
	}
}

// startWithoutRoom starts a store where nothing is left: it opens and serves what is
// there, or refuses with the error of a full disk and changes nothing for later.
func startWithoutRoom(t *testing.T, l *ledger, j *job, what shortage, when string) string {
	t.Helper()
	j.Session++
	w, e := start(t, l, *j, what.uid)
	if e.Kind == refused {
		wantFull(t, "opening "+when, e.Problem, w)
		t.Logf("opening %s: %s", when, e.Problem.Text)
		return "refused"
	}
	l.check(t, w, exactly)
	wantFull(t, "appending "+when, w.do("fill"), w)
	l.check(t, w, exactly)
	w.kill()
	return "served"
}
