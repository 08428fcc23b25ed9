package powercut_test

import (
	"strings"
	"testing"

	"felix.local/felix/test/matrix/powercut"
	"felix.local/felix/test/matrix/powercut/workload"
)

// asked is what enough has.
var asked = powercut.Asked{Cuts: 20, RecoveryCuts: 5, Moments: 4}

// enough are rows that show what was asked for.
func enough() (powercut.Row, powercut.ReplayRow) {
	store := workload.Store{Name: "s", Mode: "on_commit", Backend: "ring", Journal: "require"}
	return powercut.Row{Store: store, Cuts: 20, RecoveryCuts: 5, Appends: 1, Promised: 1},
		powercut.ReplayRow{Store: store, Images: [3]int{4, 4, 4}, Promised: 1}
}

func reportOf(row powercut.Row) powercut.Report {
	return powercut.Report{Asked: asked, Cuts: []powercut.Row{row}}
}

func replayOf(row powercut.ReplayRow) powercut.Report {
	return powercut.Report{Asked: asked, Replays: []powercut.ReplayResult{{Moments: 4, Rows: []powercut.ReplayRow{row}}}}
}

func TestARowThatShowsLessThanAskedFails(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*powercut.Row)
		want   string
	}{
		"enough":              {func(*powercut.Row) {}, ""},
		"a cut too few":       {func(r *powercut.Row) { r.Cuts-- }, "19 power cuts and 5 during recovery, want 20 and 5"},
		"one during recovery": {func(r *powercut.Row) { r.RecoveryCuts-- }, "20 power cuts and 4 during recovery"},
		"no append":           {func(r *powercut.Row) { r.Appends = 0 }, "nothing was acknowledged"},
		"no promise":          {func(r *powercut.Row) { r.Promised = 0 }, "nothing was promised"},
		"none under periodic": {func(r *powercut.Row) { r.Promised, r.Store.Mode = 0, "periodic" }, "nothing was promised"},
		"none under none":     {func(r *powercut.Row) { r.Promised, r.Store.Mode = 0, "none" }, ""},
	} {
		row, _ := enough()
		c.change(&row)
		wantOne(t, name, reportOf(row).Failures(), c.want)
	}
	for name, c := range map[string]struct {
		change func(*powercut.ReplayRow)
		want   string
	}{
		"enough":           {func(*powercut.ReplayRow) {}, ""},
		"an image too few": {func(r *powercut.ReplayRow) { r.Images[1]-- }, "want one for each of 4 moments"},
		"no promise":       {func(r *powercut.ReplayRow) { r.Promised = 0 }, "nothing was promised"},
	} {
		_, row := enough()
		c.change(&row)
		wantOne(t, name, replayOf(row).Failures(), c.want)
	}
	wantOne(t, "nothing", powercut.Report{Skipped: []string{"kernel 7.0 has no virtio"}}.Failures(), "nothing was run")
}

// wantOne wants one failure with a text, or none where that is empty.
func wantOne(t *testing.T, name string, failures []string, want string) {
	t.Helper()
	if want == "" && len(failures) == 0 || len(failures) == 1 && want != "" && strings.Contains(failures[0], want) {
		return
	}
	t.Errorf("%s: %q, want %q", name, failures, want)
}

func TestALieSaysOfItsTablesWhatIsSo(t *testing.T) {
	cut, replayed := enough()
	cut.Store.Lie, replayed.Store.Lie = true, true
	text := reportOf(cut).Markdown() + replayOf(replayed).Markdown()
	for _, want := range []string{
		"| on_commit | ring | off: required, but the lie writes under none | 20 |",
		"| on_commit | ring | require | 4 | 4 | 4 |",
		"At 4 moments, spread evenly over the operations",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, "just before and just after a flush") {
		t.Errorf("the moments are not at flushes:\n%s", text)
	}
	_, replayed = enough()
	if text := replayOf(replayed).Markdown(); !strings.Contains(text, "just before and just after a flush") {
		t.Errorf("the moments are at flushes:\n%s", text)
	}
}

func TestAFindingFailsARunAndALieThatIsNotFoundToo(t *testing.T) {
	honest, liar := workload.Store{Name: "honest", Mode: "on_commit"}, workload.Store{Name: "liar", Mode: "on_commit", Lie: true}
	lost := []powercut.Finding{{Log: workload.Log{Store: "s", Log: "lone"}, Lost: 3, Text: "records 1 to 3 are gone"}}
	gap := []powercut.Finding{{Log: workload.Log{Store: "s", Log: "lone"}, Text: "a gap"}}
	for name, row := range map[string]struct {
		store workload.Store
		found []powercut.Finding
		want  string
	}{
		"nothing":                 {honest, nil, ""},
		"a loss":                  {honest, lost, "records 1 to 3 are gone"},
		"a gap":                   {honest, gap, "a gap"},
		"a lie that is found":     {liar, lost, ""},
		"a lie that is not found": {liar, nil, "nothing was found to be lost"},
		"a lie and only a gap":    {liar, gap, "nothing was found to be lost"},
	} {
		cut, replayed := enough()
		cut.Store, cut.Findings, replayed.Store, replayed.Findings = row.store, row.found, row.store, row.found
		for kind, r := range map[string]powercut.Report{"power cuts": reportOf(cut), "replay": replayOf(replayed)} {
			got := strings.Join(r.Failures(), "\n")
			if row.want == "" && got != "" || !strings.Contains(got, row.want) || got != "" && !strings.HasPrefix(got, kind) {
				t.Errorf("%s, %s: %q, want %q", name, kind, got, row.want)
			}
		}
	}
}

func TestTheTablesCountLossesAndGapsApart(t *testing.T) {
	store := workload.Store{Name: "s", Mode: "on_commit", Backend: "ring", Journal: "require"}
	found := []powercut.Finding{{Lost: 3}, {Lost: 4}, {Text: "a gap"}}
	r := powercut.Report{
		Cuts:    []powercut.Row{{Kernel: "6.12", Store: store, Cuts: 20, RecoveryCuts: 5, Appends: 100, Promised: 150, Records: 200, LetGo: 9, Findings: found}},
		Replays: []powercut.ReplayResult{{Rows: []powercut.ReplayRow{{Kernel: "6.12", Store: store, Images: [3]int{1, 2, 3}, Promised: 50, Records: 60, Findings: found}}}},
	}
	text := r.Markdown()
	for _, want := range []string{
		"| 6.12 | on_commit | ring | require | 20 | 5 | 100 | 150 | 200 | 7 | 1 | 9 |",
		"| 6.12 | on_commit | ring | require | 1 | 2 | 3 | 50 | 60 | 7 | 1 |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}
