package filesystems

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// ledger is what was acknowledged in one directory, over all its processes: per shard
// the tag of the append at each offset. Logs begin at offset 0.
type ledger struct {
	acked [][]uint32
	// durable is one past the last offset, per shard, that a log said to be durable.
	durable []uint64
	// before is what was acknowledged and durable when the filesystem was told to stop,
	// nil when it was not. late counts records that were acknowledged after that, by a
	// kernel whose flush succeeded while the filesystem went down, and are missing.
	before *ledger
	late   int
	// total counts acknowledged records, the repeated offsets of what a power cut took
	// included.
	total int
}

func newLedger(shards int) *ledger {
	return &ledger{acked: make([][]uint32, shards), durable: make([]uint64, shards)}
}

// take takes an acknowledgement down. Offsets of one log are acknowledged in order.
func (l *ledger) take(t testing.TB, e event) {
	switch e.Kind {
	case durable:
		l.durable[e.Shard] = max(l.durable[e.Shard], e.Last)
	case acked:
		of := &l.acked[e.Shard]
		for len(*of) < int(e.First) {
			*of = append(*of, 0) // was never acknowledged, and may be there
		}
		if len(*of) > int(e.First) {
			t.Errorf("shard %d: offset %d is acknowledged a second time", e.Shard, e.First)
			return
		}
		for range 1 + e.Last - e.First {
			*of = append(*of, e.Tag)
			l.total++
		}
	}
}

// stopping notes that the filesystem is about to be told to stop: what was acknowledged
// until now was so by a filesystem that worked.
func (l *ledger) stopping() {
	l.before = &ledger{acked: slices.Clone(l.acked), durable: slices.Clone(l.durable)}
}

// promise is what has to be there after a failure.
type promise int

const (
	// exactly what was acknowledged, and nothing else.
	exactly promise = iota
	// allAcked: it may be followed by appends whose outcome was unknown.
	allAcked
	// aPrefix: what was durable, and of the rest no more than the end is missing.
	aPrefix
)

// check compares what the logs hold with what was acknowledged, and gives how many
// acknowledged records are missing. The ledger goes on with what was found.
func (l *ledger) check(t testing.TB, w *worker, kept promise) (missing int) {
	t.Helper()
	w.command("records")
	for range l.acked {
		missing += l.compare(t, w.until(records), kept)
	}
	l.before = nil
	if p := w.until(did).Problem; p != nil {
		t.Fatalf("reading back: %s\n%s", p.Text, w.log())
	}
	return missing
}

func (l *ledger) compare(t testing.TB, e event, kept promise) (missing int) {
	t.Helper()
	if e.First != 0 || e.Last != uint64(len(e.Tags)) {
		t.Errorf("shard %d: %d records are read of offsets %d to %d", e.Shard, len(e.Tags), e.First, e.Last)
	}
	want, got := l.acked[e.Shard], e.Tags
	missing = max(0, len(want)-len(got))
	for offset := range min(len(want), len(got)) {
		if want[offset] != 0 && want[offset] != got[offset] {
			t.Fatalf("shard %d: offset %d was acknowledged for append %#x and holds %#x", e.Shard, offset, want[offset], got[offset])
		}
	}
	promised := l.promised(e.Shard, kept)
	if kept != aPrefix {
		l.late += max(0, len(want)-max(promised, len(got)))
	}
	switch {
	case len(got) < promised:
		t.Errorf("shard %d: LOST: it ends at offset %d, promised were %d and acknowledged %d", e.Shard, len(got), promised, len(want))
	case kept == exactly && len(got) > len(want):
		t.Errorf("shard %d: %d records are there whose appends were undone", e.Shard, len(got)-len(want))
	}
	l.acked[e.Shard] = slices.Clone(got)
	l.durable[e.Shard] = min(l.durable[e.Shard], uint64(len(got)))
	return missing
}

// Why a filesystem that has stopped may be believed all the same.
const (
	overlayIsSilent = "an overlayfs does not say that what is below it has stopped"
	ext4IsLate      = "ext4 gives up its journal a moment before it says so"
)

// unseen is why nobody can see that this place has stopped, or nothing.
func (m *mounted) unseen() string {
	if m.overlay {
		return overlayIsSilent
	}
	return ""
}

// wantNoneLate fails the test when a log acknowledged over a filesystem that was gone,
// and nothing excuses it.
func (l *ledger) wantNoneLate(t testing.TB, unseen string) {
	t.Helper()
	if l.late > 0 && unseen == "" {
		t.Errorf("LOST: %d records were acknowledged while the filesystem went down", l.late)
	}
}

// lateText is for a cell: what of the records is gone that were acknowledged while the
// filesystem went down, and why where that is known.
func (l *ledger) lateText(unseen string) string {
	switch {
	case l.late == 0:
		return ""
	case unseen != "":
		return fmt.Sprintf("; %d acknowledged after it had stopped are gone: %s", l.late, unseen)
	default:
		return fmt.Sprintf("; MISSING: %d acknowledged after it had stopped", l.late)
	}
}

func TestACellSaysInWordsWhyAnOverlayfsAcknowledgedTooMuch(t *testing.T) {
	l := newLedger(1)
	if text := l.lateText(overlayIsSilent) + l.lateText(""); text != "" {
		t.Errorf("of nothing that is gone it says %q", text)
	}
	l.late = 33
	if text, want := l.lateText(overlayIsSilent), "an overlayfs does not say that what is below it has stopped"; !strings.Contains(text, want) || !strings.Contains(text, "33 ") || strings.Contains(text, "MISSING") {
		t.Errorf("of an overlayfs it says %q, want %q", text, want)
	}
	if text := l.lateText(""); !strings.Contains(text, "MISSING: 33 ") {
		t.Errorf("of another filesystem it says %q", text)
	}
}

// promised is how many records of a shard have to be there.
func (l *ledger) promised(shard int, kept promise) int {
	when := l
	if l.before != nil {
		when = l.before
	}
	if kept == aPrefix {
		return int(when.durable[shard])
	}
	return len(when.acked[shard])
}
