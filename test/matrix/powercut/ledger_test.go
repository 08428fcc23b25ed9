package powercut_test

import (
	"slices"
	"strings"
	"testing"

	"felix.local/felix/test/matrix/powercut"
	"felix.local/felix/test/matrix/powercut/workload"
)

func modes() []workload.Store {
	return []workload.Store{
		{Name: "none", Mode: "none"},
		{Name: "periodic", Mode: "periodic"},
		{Name: "commit", Mode: "on_commit"},
	}
}

// judge takes lines into a new ledger and gives what it finds, a line each.
func judge(t *testing.T, l *powercut.Ledger, lines ...string) string {
	t.Helper()
	var found []string
	for _, line := range lines {
		e, ok := workload.ParseEvent(line + " .")
		if !ok {
			t.Fatalf("%q is no event", line)
		}
		for _, f := range l.Take(e) {
			found = append(found, f.String())
		}
	}
	slices.Sort(found)
	return strings.Join(found, "\n")
}

func TestTheLedgerFindsWhatAModeForbids(t *testing.T) {
	for name, row := range map[string]struct {
		lines []string
		want  string // what the findings contain; "" for none
		letGo uint64
	}{
		"on_commit, all there":           {[]string{"ACK commit lone 9", "HAVE commit lone 0 10"}, "", 0},
		"on_commit, more than promised":  {[]string{"ACK commit lone 9", "HAVE commit lone 0 12"}, "", 0},
		"on_commit, the last one gone":   {[]string{"ACK commit lone 9", "HAVE commit lone 0 9"}, "commit/lone: records 9 to 9 are gone", 0},
		"on_commit, all gone":            {[]string{"ACK commit lone 9", "HAVE commit lone 0 0"}, "records 0 to 9 are gone", 0},
		"acknowledged out of order":      {[]string{"ACK commit lone 9", "ACK commit lone 7", "HAVE commit lone 0 8"}, "records 8 to 9", 0},
		"periodic, past the durable":     {[]string{"ACK periodic lone 9", "DURABLE periodic lone 4", "HAVE periodic lone 0 4"}, "", 6},
		"periodic, within the durable":   {[]string{"ACK periodic lone 9", "DURABLE periodic lone 4", "HAVE periodic lone 0 3"}, "records 3 to 3 are gone", 6},
		"none, everything":               {[]string{"ACK none lone 9", "HAVE none lone 0 0"}, "", 10},
		"none, what a roll made durable": {[]string{"ACK none lone 9", "DURABLE none lone 6", "HAVE none lone 0 5"}, "records 5 to 5", 4},
		"a beginning that is gone":       {[]string{"HAVE none lone 3 9"}, "begins at 3", 0},
		"a gap or a wrong payload":       {[]string{"BAD none lone record 3: payload has 7 bytes, want 9"}, "none/lone: record 3: payload has 7 bytes, want 9", 0},
		"another log's promise":          {[]string{"ACK commit crowd 9", "HAVE commit lone 0 0"}, "", 0},
	} {
		l := powercut.NewLedger(modes(), nil)
		got := judge(t, l, row.lines...)
		if row.want == "" && got != "" || !strings.Contains(got, row.want) {
			t.Errorf("%s: found %q, want %q", name, got, row.want)
		}
		var letGo uint64
		for _, n := range l.LetGo {
			letGo += n
		}
		if letGo != row.letGo {
			t.Errorf("%s: %d let go, want %d", name, letGo, row.letGo)
		}
	}
}

func TestWhatWasFoundIsPromisedFromThenOn(t *testing.T) {
	l := powercut.NewLedger(modes(), nil)
	if got := judge(t, l, "ACK none lone 9", "HAVE none lone 0 7"); got != "" {
		t.Error(got)
	}
	if got := judge(t, l, "HAVE none lone 0 6"); !strings.Contains(got, "records 6 to 6 are gone") {
		t.Errorf("found %q", got)
	}
}

func TestAPromiseOutlivesAPowerCutDuringRecovery(t *testing.T) {
	l := powercut.NewLedger(modes(), nil)
	judge(t, l, "ACK commit lone 9")
	l.Start()
	judge(t, l, "OPENING commit") // and power goes out
	l.Start()
	if got := judge(t, l, "HAVE commit lone 0 4"); !strings.Contains(got, "records 4 to 9") {
		t.Errorf("found %q", got)
	}
}

func TestALogNobodyTellsOfIsAFinding(t *testing.T) {
	l := powercut.NewLedger(modes()[2:], nil)
	got := judge(t, l, "HAVE commit lone 0 0", "HAVE commit crowd 0 0", "READY")
	if got != "commit/large: nothing was told of it" {
		t.Errorf("found %q", got)
	}
	l.Start()
	if got := judge(t, l, "READY"); strings.Count(got, "nothing was told") != 3 {
		t.Errorf("found %q", got)
	}
	l.Start()
	if got := judge(t, l, "BAD commit * cannot be opened: no", "READY"); strings.Contains(got, "nothing was told") {
		t.Errorf("found %q", got)
	}
}

func TestALedgerMayBeginWithPromises(t *testing.T) {
	at := workload.Log{Store: "commit", Log: "lone"}
	l := powercut.NewLedger(modes(), map[workload.Log]workload.Bound{at: {Acked: 3}})
	if got := judge(t, l, "HAVE commit lone 0 2"); !strings.Contains(got, "records 2 to 2") {
		t.Errorf("found %q", got)
	}
}

func TestTheLedgerCountsWhatEveryStartHadToFind(t *testing.T) {
	l := powercut.NewLedger(modes(), nil)
	judge(t, l, "ACK commit lone 9", "ACK none lone 9", "DURABLE periodic lone 4", "HAVE commit lone 0 12", "HAVE none lone 0 3", "HAVE periodic lone 0 4")
	l.Start()
	judge(t, l, "HAVE commit lone 0 12", "HAVE none lone 0 3")
	for store, want := range map[string]uint64{"commit": 10 + 12, "periodic": 4, "none": 3} {
		if got := l.Held[store]; got != want {
			t.Errorf("%s: %d records, want %d", store, got, want)
		}
	}
}
