package defects

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

const (
	// sideBySideMax is how many defects are tried at a time.
	sideBySideMax = 2
	// triesMax is how often a check that does not notice a defect is run.
	triesMax = 4
	// toReport is what is left of a test's time to say what has not been tried.
	toReport = 30 * time.Second
)

// budget ends in time for what is under way to be reported.
func budget(t *testing.T) context.Context {
	t.Helper()
	deadline, ok := t.Deadline()
	if !ok {
		return t.Context()
	}
	ctx, cancel := context.WithDeadlineCause(t.Context(), deadline.Add(-toReport), errTime)
	t.Cleanup(cancel)
	return ctx
}

var errTime = errors.New("the time of go test -timeout is used up")

// moduleRoot is where the source is; without it, or without the go command, there
// is nothing to make a defect in.
func moduleRoot(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command to build with:", err)
	}
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Skip("the module's source is not there:", err)
	}
	return root
}

// eachSideBySide calls do for 0 to n-1, a few at a time.
func eachSideBySide(n int, do func(i int)) {
	turns := make(chan struct{}, min(sideBySideMax, runtime.GOMAXPROCS(0)))
	var all sync.WaitGroup
	for i := range n {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			do(i)
		})
	}
	all.Wait()
}

// all says to try every check; otherwise each defect meets its first one.
func all() bool {
	return os.Getenv("FELIX_DEFECTS") == "1" || os.Getenv("FELIX_LONG_TESTS") == "1"
}

func (d Defect) checks() []Check {
	if all() {
		return d.Caught
	}
	return d.Caught[:1]
}

// TestEveryDefectIsCaught tries the quickest check of each defect, and with
// FELIX_DEFECTS=1 or FELIX_LONG_TESTS=1 all of them.
func TestEveryDefectIsCaught(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the tests of other packages many times")
	}
	root := moduleRoot(t)
	ctx := budget(t)
	table := Table()
	rows := make([]string, len(table))
	eachSideBySide(len(table), func(i int) {
		t.Run(table[i].Name, func(t *testing.T) { rows[i] = table[i].try(ctx, t, root) })
	})
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "defect\tcaught by")
	for _, row := range rows {
		fmt.Fprint(w, row)
	}
	w.Flush()
	t.Logf("%d defects\n%s", len(table), &text)
}

// try makes the defect and gives its rows of the table.
func (d Defect) try(ctx context.Context, t *testing.T, root string) (rows string) {
	tree, err := with(d, root, t.TempDir())
	if err != nil {
		t.Error(err)
		return ""
	}
	name := d.Name
	for _, c := range d.checks() {
		o, err := tree.run(ctx, c)
		// What a defect does to concurrent work may not show every time.
		for try := 1; try < triesMax && err == nil && !o.failed; try++ {
			o, err = tree.run(ctx, c)
		}
		switch {
		case err != nil:
			t.Error(err)
			continue
		case !o.failed:
			t.Errorf("%v does not notice", c)
			continue
		case !c.says(o.output):
			t.Errorf("%v fails and does not say %q:\n%s", c, c.Says, o.output)
			continue
		}
		rows += fmt.Sprintf("%s\t%v (%.1f s)\n", name, c, o.took.Seconds())
		name = ""
	}
	return rows
}

// elsewhere says that a check is also run without a defect by the tests of its own
// package, with as many seeds, and that nothing is said but of a failure.
func (c Check) elsewhere() bool { return c.Package == powerTests && !all() }

func TestWithoutADefectNoCheckFails(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the tests of other packages")
	}
	ctx := budget(t)
	tree := asItIs(moduleRoot(t), t.TempDir())
	outputs := make(map[Check]string)
	for _, d := range Table() {
		for _, c := range d.checks() {
			if c.elsewhere() {
				continue
			}
			ran := c
			ran.Says = ""
			output, ok := outputs[ran]
			if !ok {
				o, err := tree.run(ctx, c)
				if err != nil {
					t.Error(err)
				} else if o.failed {
					t.Errorf("%v fails:\n%s", c, o.output)
				}
				output, outputs[ran] = o.output, o.output
			}
			if c.says(output) {
				t.Errorf("%v says %q without a defect too:\n%s", c, c.Says, output)
			}
		}
	}
	t.Logf("%d checks", len(outputs))
}

// What is no catch must not pass for one.
func TestWhatProvesNothingIsAnError(t *testing.T) {
	root := moduleRoot(t)
	edit := func(before, after string) Defect {
		return Defect{Name: "a test", Edits: []Edit{{File: "segment/crc.go", Old: before, New: after}}}
	}
	for name, d := range map[string]Defect{
		"the text is gone":             edit("no such text", ""),
		"the text is there repeatedly": edit("\n", ""),
		"the file is gone":             {Edits: []Edit{{File: "segment/gone.go"}}},
	} {
		if _, err := with(d, root, t.TempDir()); err == nil || !strings.Contains(err.Error(), "the defect no longer applies") {
			t.Errorf("%s: %v", name, err)
		}
	}
	check := Check{Package: "segment", Test: "TestNamesAreTwentyDigits"}
	broken, err := with(edit("package segment\n", "package segment\n\nvar broken = \"\" + 1\n"), root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if o, err := broken.run(t.Context(), check); err == nil || o.failed || !strings.Contains(err.Error(), "crc.go") {
		t.Errorf("a defect that does not compile: failed %v, %v", o.failed, err)
	}
	tree := asItIs(root, t.TempDir())
	if o, err := tree.run(t.Context(), check); err != nil || o.failed {
		t.Errorf("the tree as it is: failed %v, %v", o.failed, err)
	}
	check.Test = "TestThatDoesNotExist"
	if o, err := tree.run(t.Context(), check); err == nil || o.failed {
		t.Errorf("a test that does not exist: failed %v, %v", o.failed, err)
	}
}

func TestEveryRowIsWhole(t *testing.T) {
	names := make(map[string]bool)
	for _, d := range Table() {
		if d.Name == "" || d.Breaks == "" || len(d.Edits) == 0 || len(d.Caught) == 0 {
			t.Errorf("%q lacks something: %+v", d.Name, d)
		}
		if names[d.Name] {
			t.Errorf("%q is there twice", d.Name)
		}
		names[d.Name] = true
		for _, c := range d.Caught {
			if _, err := regexp.Compile(c.Says); err != nil {
				t.Errorf("%s, %v: %v", d.Name, c, err)
			} else if c.says("") {
				t.Errorf("%s, %v: any failure would do: Says is %q", d.Name, c, c.Says)
			}
		}
	}
}
