package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"felix.local/felix/test/matrix/plan"
)

// answers makes what a machine says when everything is as expected of a kernel.
func answers(t *testing.T, at place, r release, xfs bool) map[string]plan.Result {
	t.Helper()
	results := make(map[string]plan.Result)
	say := func(name string, what any) {
		b, err := json.Marshal(what)
		if err != nil {
			t.Fatal(err)
		}
		results[name] = plan.Result{Name: name, Stdout: string(b) + "\n"}
	}
	for _, d := range denials() {
		backend, reason, remedy := d.backend(r), d.reason, strings.Join(d.remedy, "; ")
		if backend != cmp.Or(d.about, pool) {
			reason, remedy = "it works", ""
		}
		cell := at.cellName(d) + "/"
		say(cell+stepDoctor, map[string]any{"event": "doctor", "problems": []string{}, "backend": map[string]string{"name": backend, "reason": reason, "remedy": remedy}})
		if !xfs {
			say(cell+stepDemo, map[string]any{"event": "demo", "claims": 8, "failed": 0, "backend": backend})
		}
		say(cell+stepWorkload, plan.Written{Backends: []string{backend}, Digests: map[string]string{"logs": "aa", "store": "bb"}})
	}
	for _, c := range conformance() {
		name := conformanceName(c.name)
		results[name] = plan.Result{Name: name, Stdout: "--- PASS: TestA (0.00s)\n    --- SKIP: TestA/b (0.00s)\n        b_test.go:1: there is none\nPASS\n"}
	}
	return results
}

// rowOf judges answers as those of a kernel.
func rowOf(t *testing.T, text string, change func(results map[string]plan.Result)) Row {
	t.Helper()
	r, err := parseRelease(text)
	if err != nil {
		t.Fatal(err)
	}
	at := (&kernelRun{}).ext4Place()
	results := answers(t, at, r, false)
	if change != nil {
		change(results)
	}
	k := &kernelRun{denials: denials()}
	k.kernel.Release = text
	row := Row{Name: text, Release: text}
	k.judge(&row, results)
	return row
}

func tableOf(t *testing.T, rows ...Row) *Table {
	t.Helper()
	table := &Table{Rows: rows}
	table.judge(kernelsMin)
	return table
}

// four are rows that are as expected.
func four(t *testing.T) []Row {
	t.Helper()
	return []Row{rowOf(t, "6.12.1", nil), rowOf(t, "6.18.15", nil), rowOf(t, "7.0.13", nil), rowOf(t, "7.3.4", nil)}
}

func wantFailure(t *testing.T, table *Table, want string) {
	t.Helper()
	failures := table.failures()
	if len(failures) != 1 || !strings.Contains(failures[0], want) {
		t.Errorf("got %q, want one with %q", failures, want)
	}
}

func TestATableThatIsAsExpectedPasses(t *testing.T) {
	table := tableOf(t, four(t)...)
	if failures := table.failures(); len(failures) > 0 {
		t.Error(failures)
	}
	text := table.markdown()
	for _, want := range []string{"| 6.12.1 | ring | pool |", "| logs | 40 | `aa` |", "TestA/b: b_test.go:1: there is none"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

func TestOtherBytesAreAFailure(t *testing.T) {
	rows := four(t)
	rows[2].Cells[4].Written.Digests["store"] = "cc"
	wantFailure(t, tableOf(t, rows...), "7.0.13, ext4, setup: EPERM: other bytes than on 6.12.1, ring allowed: store has digest cc, not bb")
}

func TestACellThatWroteLessIsAFailure(t *testing.T) {
	rows := four(t)
	delete(rows[0].Cells[0].Written.Digests, "store") // also where it is the first to write
	wantFailure(t, tableOf(t, rows...), "6.12.1, ext4, ring allowed: there is no digest of store, which 6.12.1, turned off has")

	rows = four(t)
	rows[1].Cells[2].Written.Digests = map[string]string{"logs": "aa"}
	rows[1].Cells[2].Written.Missing = map[string]string{"store": "no journal on this filesystem"}
	if failures := tableOf(t, rows...).failures(); len(failures) > 0 {
		t.Errorf("what cannot be held is asked for: %q", failures)
	}
}

// edit changes what a result says.
func edit(name, from, to string) func(map[string]plan.Result) {
	return func(results map[string]plan.Result) {
		r := results[name]
		r.Stdout = strings.ReplaceAll(r.Stdout, from, to)
		results[name] = r
	}
}

func TestWhatIsNotAsExpectedIsAFailure(t *testing.T) {
	for name, c := range map[string]struct {
		change func(map[string]plan.Result)
		want   string
	}{
		"the ring where the pool is due":      {edit("ext4/setup: EPERM/demo", `"pool"`, `"ring"`), `demo: the backend is "ring", want the pool`},
		"the pool where the ring is due":      {edit("ext4/register: EPERM/workload", `"ring"`, `"pool"`), `workload: the backend is "pool", want the ring`},
		"a remedy that does not help":         {edit("ext4/io_uring_disabled=2/doctor", "is 2", "is 1"), "the remedy is"},
		"a reason that is another one":        {edit("ext4/enter: EPERM/doctor", "but not used", "and used"), "the reason is"},
		"a ring that nothing is denied":       {edit("ext4/register: EPERM/doctor", "cannot be bounded", "are bounded"), "the reason is"},
		"a ring without its remedy":           {edit("ext4/register: EPERM/doctor", "forbids", "allows"), "the remedy is"},
		"a claim that does not hold":          {edit("ext4/ring allowed/demo", `"failed":0`, `"failed":1`), "1 of 8 claims"},
		"a demo that does not sum up":         {edit("ext4/ring allowed/demo", `"demo"`, `"claim"`), "does not sum up"},
		"a store that would not work":         {edit("ext4/ring allowed/doctor", `"problems":[]`, `"problems":["no space"]`), "doctor finds: no space"},
		"no answer":                           {func(r map[string]plan.Result) { delete(r, "ext4/setup: ENOSYS/doctor") }, "doctor: no result"},
		"a suite that does not pass":          {func(r map[string]plan.Result) { r[conformanceName(ring)] = plan.Result{Name: "x", Exit: 1} }, "exit code 1"},
		"a suite in which nothing runs":       {edit(conformanceName(pool), "--- PASS", "---"), "nothing passed"},
		"a journal that cannot be had":        {edit("ext4/ring allowed/workload", `"files"`, `"missing":{"a":"b"},"files"`), "workload: a: b"},
		"a cell skipped for want of root":     {skip("ext4/setup: EPERM/demo", "needs root"), "skipped: needs root"},
		"a sysctl that this kernel must have": {skip("ext4/io_uring_disabled=2/demo", "no such sysctl"), "skipped: no such sysctl"},
	} {
		t.Run(name, func(t *testing.T) {
			rows := four(t)
			rows[0] = rowOf(t, "6.12.1", c.change)
			wantFailure(t, tableOf(t, rows...), c.want)
		})
	}
}

func skip(name, reason string) func(map[string]plan.Result) {
	return func(results map[string]plan.Result) { results[name] = plan.Result{Name: name, Skipped: reason} }
}

func TestACellWithoutItsSysctlIsSkippedOnOldKernels(t *testing.T) {
	row := rowOf(t, "6.1.192", func(results map[string]plan.Result) {
		for _, step := range []string{stepDoctor, stepDemo, stepWorkload} {
			skip("ext4/io_uring_disabled=2/"+step, "no such sysctl: kernel.io_uring_disabled")(results)
		}
	})
	table := tableOf(t, append(four(t), row)...)
	if failures := table.failures(); len(failures) > 0 {
		t.Error(failures)
	}
	if want := "- 6.1.192, io_uring_disabled=2: no such sysctl: kernel.io_uring_disabled\n"; !strings.Contains(table.markdown(), want) {
		t.Errorf("%q is not in\n%s", want, table.markdown())
	}
}

func TestThreeKernelsAreTooFew(t *testing.T) {
	rows := four(t)
	rows[3] = Row{Name: "7.x", Skipped: "suite trixie-backports has gone"}
	host := rowOf(t, "6.18.44", nil)
	host.Name = hostRow
	table := tableOf(t, append(rows, host)...)
	wantFailure(t, table, "only 3 kernels were run, want at least 4")
	text := table.markdown()
	for _, want := range []string{"| 7.x |", "skipped |", "- 7.x: the whole row is skipped: suite trixie-backports has gone"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

func TestAnEmptyTableFails(t *testing.T) {
	if got := tableOf(t).failures(); len(got) != 2 {
		t.Errorf("got %q", got)
	}
}

func TestAHostThatGivesNoRingIsHeldToThePool(t *testing.T) {
	at := place{filesystem: "host"}
	results := make(map[string]plan.Result)
	for name, r := range answers(t, at, release{6, 12}, false) {
		r.Stdout = strings.ReplaceAll(r.Stdout, `"ring"`, `"pool"`)
		results[name] = r
	}
	row := Row{Name: hostRow, Release: "6.12.1"}
	judgeHost(&row, at, results)
	if failures := row.failures(); len(failures) > 0 {
		t.Error(failures)
	}
	if len(row.Notes) != 1 || !strings.Contains(row.Notes[0], "this host gives no ring") {
		t.Errorf("got %q", row.Notes)
	}
	row = Row{Name: hostRow, Release: "6.12.1"}
	edit("host/turned off/demo", `"pool"`, `"ring"`)(results)
	judgeHost(&row, at, results)
	if failures := row.failures(); len(failures) != 1 {
		t.Errorf("got %q", failures)
	}
}

func TestLockedMemoryCountsOnSomeKernels(t *testing.T) {
	for text, want := range map[string]string{
		"5.10.0-32-cloud-amd64": either, "5.15.0-1": ring, "6.1.0-57": ring, "6.12.117+deb12": ring, "6.16.3": pool,
		"6.18.44": pool, "7.0.13": pool, "7.1.3": either, "7.2.12": ring, "7.3.4": ring,
	} {
		r, err := parseRelease(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := lockedMemory(r); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	if _, err := parseRelease("unknown"); err == nil {
		t.Error("that is taken for a release")
	}
}

func TestEveryPlanIsOneTheGuestTakes(t *testing.T) {
	for _, chosen := range [][]denial{denials(), quickDenials()} {
		k := &kernelRun{xfs: true, denials: chosen}
		b, err := json.Marshal(plan.Plan{Steps: k.steps()})
		if err != nil {
			t.Fatal(err)
		}
		p, err := plan.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		if want := 2 + 3*len(chosen) + 2*len(xfsDenials()); len(p.Steps) != want {
			t.Errorf("%d steps, want %d", len(p.Steps), want)
		}
	}
	if len(quickDenials()) < 3 || quickDenials()[0].name != denials()[0].name {
		t.Errorf("a quick run has only %d denials", len(quickDenials()))
	}
}

func TestTheCommandOfATableNamesNoPaths(t *testing.T) {
	c := kernelsCommand{Row: []string{"6.1", hostRow}, Cache: "/somewhere", JSON: "/somewhere/else"}
	if got, want := c.command(), "go run ./test/matrix kernels --row 6.1 --row host"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestRowsAreChosenByName(t *testing.T) {
	for _, c := range []struct {
		command kernelsCommand
		want    string
	}{
		{kernelsCommand{Quick: true}, "1 true 1 <nil>"},
		{kernelsCommand{Row: []string{"5.10", "6.1"}}, "2 false 2 <nil>"},
		{kernelsCommand{Row: []string{hostRow}}, "0 true 0 <nil>"},
		{kernelsCommand{}, "6 true 4 <nil>"},
		{kernelsCommand{Row: []string{"2.6"}}, `0 false 0 no row "2.6" is known`},
		{kernelsCommand{Quick: true, Row: []string{"6.1"}}, "0 false 0 --quick chooses the rows itself"},
	} {
		wants, host, least, err := c.command.choose()
		if got := fmt.Sprint(len(wants), host, least, err); got != c.want {
			t.Errorf("%+v: %s, want %s", c.command, got, c.want)
		}
	}
}
