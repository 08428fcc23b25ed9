package filesystems

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"
)

// cutMode is a mode in which power is cut, and what has to be there after it.
type cutMode struct {
	fsync string
	kept  promise
	// acksMax bounds after how many acknowledgements it is cut, and cuts how often.
	acksMax, cuts int
}

func cutModes() []cutMode {
	modes := []cutMode{{"on_commit", allAcked, 200, 20}, {"periodic", aPrefix, 1500, 8}, {"none", aPrefix, 1500, 8}}
	if long() {
		for i := range modes {
			modes[i].cuts = 200
		}
	}
	return modes
}

// notOn says why a mode is not tried on a place, "" where it is. Of a filesystem that
// loses what any program flushed nothing is to be promised; whether it does is seen once,
// under the mode that promises most.
func (mode cutMode) notOn(p place) string {
	if p.losesFlushed && mode.kept != allAcked {
		return "not run, see on_commit"
	}
	return ""
}

func TestAModeThatIsNotTriedOnAFilesystemSaysWhereToLook(t *testing.T) {
	for _, mode := range cutModes() {
		for _, p := range places() {
			want := ""
			if p.losesFlushed && mode.fsync != "on_commit" {
				want = "not run, see on_commit"
			}
			if got := mode.notOn(p); got != want {
				t.Errorf("%s, %s: %q, want %q", p.name, mode.fsync, got, want)
			}
		}
	}
}

// Power is cut at the filesystem: it stops at once, its own journal and what it had in
// memory are dropped, and it recovers from what the device has. Under on_commit every
// acknowledged record is there; in the other modes, what a log said to be durable, and
// of the rest no more than the end is missing.
func TestAPowerCutOfTheFilesystemTakesNothingDurable(t *testing.T) {
	var rows []place
	for _, p := range places() {
		if p.disk == "ext4" || p.disk == "xfs" {
			rows = append(rows, p)
		}
	}
	var order []string
	for _, mode := range cutModes() {
		for _, p := range rows {
			order = append(order, p.name+", "+mode.fsync)
		}
	}
	tb := newTable("Power cuts at the filesystem", setupColumns("filesystem, mode"), order)
	t.Run("on", func(t *testing.T) {
		for _, mode := range cutModes() {
			for _, p := range rows {
				row := p.name + ", " + mode.fsync
				if reason := mode.notOn(p); reason != "" {
					tb.cell(row, 0, reason)
					continue
				}
				t.Run(row, func(t *testing.T) {
					t.Parallel()
					if p.losesFlushed {
						m := p.mount(t, tb.skipper(t, row, 0))
						if reason := flushedAlone(t, m, mode.cuts).reason(); reason != "" {
							tb.cell(row, 0, reason)
							return
						}
					}
					for column, s := range setups() {
						if s.journal && mode.fsync != "on_commit" {
							tb.cell(row, column, "is not used")
							continue
						}
						t.Run(s.String(), func(t *testing.T) {
							m := p.mount(t, tb.skipper(t, row, column))
							s.needRing(t, m)
							tb.cell(row, column, cutPower(t, m, s, mode))
						})
					}
				})
			}
		}
	})
	tb.print(t)
}

// cutPower cuts the power so many times, always of the same directory.
func cutPower(t *testing.T, m *mounted, s setup, mode cutMode) string {
	t.Helper()
	l := newLedger(stopShards)
	j := s.job(m)
	j.Shards, j.PayloadMax, j.SegmentBytes = stopShards, 600, 64<<10
	j.Fsync = mode.fsync
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	missing := 0
	for cut := range mode.cuts {
		j.RollThreshold = []int{100, 50}[cut%2]
		w := mustStart(t, l, j, 0)
		missing += l.check(t, w, mode.kept)
		w.command("publish")
		w.acks(1 + random.IntN(mode.acksMax))
		l.stopping()
		if err := m.shutdown(shutdownNothing); err != nil {
			if errors.Is(err, unix.ENOTTY) {
				m.skip("this kernel cannot be told to: " + err.Error())
			}
			t.Fatal(err)
		}
		wantStopped(t, "appending", w.until(did).Problem, w)
		w.kill()
		m.again()
		j.Session++
		if t.Failed() {
			t.Fatalf("at cut %d", cut)
		}
	}
	w := mustStart(t, l, j, 0)
	missing += l.check(t, w, mode.kept)
	if p := w.close(); p != nil {
		t.Errorf("closing: %s", p.Text)
	}
	l.wantNoneLate(t, m.unseen())
	t.Logf("%d cuts, %d records acknowledged, %d of them gone, %d of those acknowledged while the filesystem went down; it was repaired %d times",
		mode.cuts, l.total, missing, l.late, m.repairs)
	text := fmt.Sprintf("%d cuts, 0 of %d lost", mode.cuts, l.total)
	if mode.kept == aPrefix {
		text = fmt.Sprintf("%d cuts, nothing durable lost, %d of %d at the end", mode.cuts, missing, l.total)
	}
	text += l.lateText(m.unseen())
	if m.repairs > 0 {
		text += fmt.Sprintf("; fsck before %d mounts", m.repairs)
	}
	return text
}
