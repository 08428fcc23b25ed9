package powercut_test

import (
	"strings"
	"testing"

	"felix.local/felix/test/matrix/powercut"
	"felix.local/felix/test/matrix/powercut/workload"
)

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
		for kind, r := range map[string]powercut.Report{
			"power cuts": {Cuts: []powercut.Row{{Store: row.store, Findings: row.found}}},
			"replay":     {Replays: []powercut.ReplayResult{{Rows: []powercut.ReplayRow{{Store: row.store, Findings: row.found}}}}},
		} {
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
		Cuts:    []powercut.Row{{Kernel: "6.12", Store: store, Cuts: 20, RecoveryCuts: 5, Appends: 100, Records: 200, LetGo: 9, Findings: found}},
		Replays: []powercut.ReplayResult{{Rows: []powercut.ReplayRow{{Kernel: "6.12", Store: store, Images: [3]int{1, 2, 3}, Promised: 50, Records: 60, Findings: found}}}},
	}
	text := r.Markdown()
	for _, want := range []string{
		"| 6.12 | on_commit | ring | require | 20 | 5 | 100 | 200 | 7 | 1 | 9 |",
		"| 6.12 | on_commit | ring | require | 1 | 2 | 3 | 50 | 60 | 7 | 1 |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}
