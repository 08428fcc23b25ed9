package filesystems

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"felix.local/felix/test/matrix/plan"
)

// printed is what a test program prints under -test.v=test2json, as a guest sends it.
const printed = "\x16=== RUN   TestA\n" +
	"\x16=== RUN   TestA/of\n" +
	"\x16=== RUN   TestA/of/ext4\n" +
	"    full_test.go:20: opening: no room\n" +
	"\x16--- PASS: TestA/of/ext4 (1.50s)\n" +
	"\x16=== RUN   TestA/of/XFS\n" +
	"    place_test.go:87: this kernel does not mount it:\n" +
	"        invalid argument\n" +
	"\x16--- SKIP: TestA/of/XFS (0.10s)\n" +
	"\x16=== RUN   TestA/of/btrfs\n" +
	"    full_test.go:80: want the error of a full disk\n" +
	"\x16--- FAIL: TestA/of/btrfs (2.00s)\n" +
	"\x16--- FAIL: TestA/of (3.60s)\n" +
	"\x16--- FAIL: TestA (3.60s)\n" +
	"\x16=== RUN   TestB\n" +
	"\x16--- SKIP: TestB (0.00s)\n" +
	"\x16=== RUN   TestC\n"

func rowOf(t *testing.T, output string) Row {
	t.Helper()
	tests, err := parse(t.Context(), output)
	if err != nil {
		t.Fatal(err)
	}
	return Row{Kernel: "6.12", Tests: tests, Tables: "## Without room"}
}

func TestOutcomesAndReasonsAreReadOfWhatATestPrints(t *testing.T) {
	var got []string
	for _, test := range leaves(rowOf(t, printed).Tests) {
		got = append(got, strings.TrimSpace(test.Name+" "+test.Outcome+" "+test.reason()))
	}
	want := []string{
		"TestA/of/ext4 pass",
		"TestA/of/XFS skip this kernel does not mount it: invalid argument",
		"TestA/of/btrfs fail want the error of a full disk",
		"TestB skip",
		"TestC",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestARowFailsForWhatFailedAndWhatDidNotEndAndASkipWithoutReason(t *testing.T) {
	row := rowOf(t, printed)
	row.judge(Quotas, map[string]plan.Result{
		testsStep:  {Name: testsStep, Exit: 1},
		reportStep: {Name: reportStep, Exit: 1, Stderr: "no such file"},
	})
	want := []string{
		"TestB was skipped without a reason",
		"TestC did not end: ",
		"TestA/of/btrfs: want the error of a full disk",
		"report: exit code 1: no such file",
	}
	if diff := cmp.Diff(want, row.Problems); diff != "" {
		t.Error(diff)
	}
}

func TestARunWithoutATestIsAFailure(t *testing.T) {
	onlySkipped := "\x16=== RUN   TestA\n    a_test.go:1: no loop devices\n\x16--- SKIP: TestA (0.00s)\n\x16PASS\n"
	for _, output := range []string{"", "testing: warning: no tests to run\n\x16PASS\n", onlySkipped} {
		row := rowOf(t, output)
		row.judge(Quotas, nil)
		if len(row.Problems) != 1 || !strings.Contains(row.Problems[0], "no test of "+Quotas) {
			t.Errorf("%q: %q", output, row.Problems)
		}
	}
}

func TestAPageHasTheTablesAndTheReasons(t *testing.T) {
	row := rowOf(t, printed)
	row.Tables = tablesOf("# Filesystems\n\na day\n\n## Without room\n\n| a |\n|---|\n| b |\n")
	row.judge(Quotas, nil)
	page := Report{Rows: []Row{row}}.Markdown()
	for _, want := range []string{
		"| 1 | 1 | 2 | 0 |\n",
		"\n### Without room\n\n| a |\n|---|\n| b |\n",
		"- 6.12: TestA/of/XFS: skipped: this kernel does not mount it: invalid argument\n",
		"**Failures**:\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, "# Filesystems") {
		t.Errorf("the head of the report is in the page:\n%s", page)
	}
}

func TestAProgramThatFailsWhileItsTestsPassIsAFailure(t *testing.T) {
	row := rowOf(t, "\x16=== RUN   TestA\n\x16--- PASS: TestA (0.00s)\n\x16PASS\n")
	row.judge(Quotas, map[string]plan.Result{testsStep: {Name: testsStep, Exit: 2, Stderr: "panic"}})
	if diff := cmp.Diff([]string{"tests: exit code 2: panic"}, row.Problems); diff != "" {
		t.Error(diff)
	}
}

func TestARunWithoutAKernelIsAFailure(t *testing.T) {
	if got := (Report{Skipped: []string{"kernel 7.0: no loop devices"}}).Failures(); len(got) != 1 {
		t.Errorf("got %q", got)
	}
}

func TestALongFailureIsCutOnThePage(t *testing.T) {
	page := Report{Rows: []Row{{Problems: []string{strings.Repeat("ü", 4000)}}}}.Markdown()
	if len(page) > 1000 || !strings.Contains(page, "ü…\n") {
		t.Errorf("%d bytes: %s", len(page), page)
	}
}
