package filesystems

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"felix.local/felix/test/matrix/plan"
	"felix.local/felix/test/matrix/vm"
)

// Quotas is the pattern of the tests of quotas.
const Quotas = "TestWithoutRoom/of/quota"

// Options say what is run, and where.
type Options struct {
	Kernel vm.Kernel
	// Guest is the path of the guest program, Dir a directory for this run's files.
	Guest, Dir string
	// Run is the pattern of tests, as go test -run has it.
	Run string
	// Limit is how long the guest may take.
	Limit time.Duration
	// Progress is told of every test that ends.
	Progress func(string)
}

// Row is a kernel and what became of the tests on it.
type Row struct {
	Kernel  string `json:"kernel"`
	Package string `json:"package"`
	Release string `json:"release"`
	Tests   []Test `json:"tests"`
	// Tables are those of the tests' report, as Markdown.
	Tables  string  `json:"tables"`
	Seconds float64 `json:"seconds"`
	// Notes are what a reader should know, Problems what makes the run a failure.
	Notes    []string `json:"notes,omitempty"`
	Problems []string `json:"problems,omitempty"`
}

func (r *Row) problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

const (
	testsProgram = binDir + "/filesystems.test"
	reportPath   = "/report"
	// imagesDir is for the images of filesystems. It is in the guest's memory, of which
	// files may take a half.
	imagesDir = "/images"
	memory    = "4G"

	// testsStep and reportStep are the names of the plan's steps.
	testsStep  = "tests"
	reportStep = "report"
)

// modules are those the tests' filesystems are in. Without its module a filesystem is
// not mounted, and the tests on it say so.
func modules() []string { return []string{loopModule, "xfs", "quota_v2", "overlay", "btrfs"} }

// loopModule is the one without which there is nothing to test.
const loopModule = "loop"

// hostPrograms are what the tests call, and cat, which brings their report.
func hostPrograms() []string {
	return []string{"mkfs.ext4", "e2fsck", "mkfs.xfs", "mkfs.btrfs", "btrfs", "cat"}
}

// mkfsSettings says how ext4 is made; without it a filesystem has other features.
const mkfsSettings = "/etc/mke2fs.conf"

// Run boots a kernel and runs the tests on it. An error is one of getting there, a
// *vm.NoModuleError when the kernel has no loop devices; what the tests found is in the
// row.
func Run(ctx context.Context, o Options) (Row, error) {
	row := Row{Kernel: o.Kernel.Row, Package: o.Kernel.Package, Release: o.Kernel.Release}
	if err := vm.Need(hostPrograms()...); err != nil {
		return row, err
	}
	machine, err := prepare(ctx, o, &row)
	if err != nil {
		return row, err
	}
	printed, err := os.Create(filepath.Join(o.Dir, "tests.log"))
	if err != nil {
		return row, err
	}
	defer printed.Close()
	began := time.Now()
	guest, err := machine.Start(ctx)
	if err != nil {
		return row, err
	}
	output, results, unwritten := listen(guest, printed, o.Progress)
	err = errors.Join(guest.Wait(), unwritten)
	row.Seconds = time.Since(began).Seconds()
	if ctx.Err() != nil {
		return row, context.Cause(ctx)
	}
	if err != nil {
		row.problem("%v", err)
	}
	if row.Tests, err = parse(ctx, output); err != nil {
		return row, err
	}
	row.Tables = tablesOf(results[reportStep].Stdout)
	row.judge(o.Run, results)
	return row, nil
}

// prepare builds the tests' program and makes the guest's first filesystem.
func prepare(ctx context.Context, o Options, row *Row) (vm.Machine, error) {
	m := vm.Machine{
		Kernel: o.Kernel, Initramfs: filepath.Join(o.Dir, "initramfs"), Args: []string{"-m", memory},
		Limit: o.Limit, Log: filepath.Join(o.Dir, "machine"),
	}
	tests := filepath.Join(o.Dir, "filesystems.test")
	if err := vm.BuildTest(ctx, tests, "felix.local/felix/test/filesystems"); err != nil {
		return m, err
	}
	files := map[string]string{
		plan.Program: o.Guest, plan.Path: filepath.Join(o.Dir, "plan.json"), testsProgram: tests, mkfsSettings: mkfsSettings,
	}
	if _, err := os.Stat(mkfsSettings); errors.Is(err, os.ErrNotExist) {
		delete(files, mkfsSettings)
	}
	for _, name := range hostPrograms() {
		if err := addProgram(ctx, files, name); err != nil {
			return m, err
		}
	}
	todo := plan.Plan{Steps: steps(o, files)}
	for _, name := range modules() {
		order, err := o.Kernel.LoadOrder(ctx, name, o.Dir)
		if none := (*vm.NoModuleError)(nil); errors.As(err, &none) && name != loopModule {
			row.Notes = append(row.Notes, err.Error())
			continue
		}
		if err != nil {
			return m, err
		}
		for _, file := range order {
			inGuest := "/modules/" + filepath.Base(file)
			if files[inGuest] == "" {
				todo.Modules = append(todo.Modules, inGuest)
			}
			files[inGuest] = file
		}
	}
	if err := todo.Write(files[plan.Path]); err != nil {
		return m, err
	}
	return m, vm.Initramfs(m.Initramfs, files)
}

// steps run the tests, which write to the second serial port as they go, and bring their
// report.
func steps(o Options, files map[string]string) []plan.Step {
	// The loader looks where the guest has libraries, wherever that was on the host.
	var dirs []string
	for path := range files {
		if strings.Contains(filepath.Base(path), ".so") {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	slices.Sort(dirs)
	libraries := "LD_LIBRARY_PATH=" + strings.Join(slices.Compact(dirs), ":")
	return []plan.Step{
		{
			Name:   testsStep,
			Argv:   []string{testsProgram, "-test.v=test2json", "-test.run", o.Run, "-test.timeout", o.Limit.String()},
			Env:    []string{libraries, "FELIX_FS_REPORT=" + reportPath},
			Dir:    imagesDir,
			Stream: true, Seconds: int(o.Limit.Seconds()),
		},
		{Name: reportStep, Argv: []string{binDir + "/cat", reportPath}, Env: []string{libraries}},
	}
}

// listen reads what the guest says until it ends: what the tests print, which goes to a
// file as it comes, and the results of steps.
func listen(guest *vm.Guest, printed io.Writer, progress func(string)) (output string, results map[string]plan.Result, err error) {
	var b strings.Builder
	all := io.MultiWriter(&b, printed)
	results = make(map[string]plan.Result)
	for line := range guest.Lines() {
		if r, ok := plan.ParseResult(line); ok {
			results[r.Name] = r
			continue
		}
		if strings.HasPrefix(line, plan.LineUp) || strings.HasPrefix(line, plan.LineExit) {
			continue
		}
		if _, failed := io.WriteString(all, line+"\n"); err == nil {
			err = failed
		}
		if _, ended, ok := strings.Cut(line, "--- "); ok {
			progress("  " + ended)
		}
	}
	return b.String(), results, err
}

// tablesOf is a report without its head.
func tablesOf(report string) string {
	at := strings.Index(report, "## ")
	if at < 0 {
		return ""
	}
	return strings.TrimSpace(report[at:])
}

// judge says what makes the row a failure.
func (r *Row) judge(pattern string, results map[string]plan.Result) {
	ran := 0
	for _, t := range leaves(r.Tests) {
		switch t.Outcome {
		case passed, failed:
			ran++
		case skipped:
			if t.reason() == "" {
				r.problem("%s was skipped without a reason", t.Name)
			}
		default:
			r.problem("%s did not end: %s", t.Name, t.reason())
		}
	}
	if ran == 0 {
		r.problem("no test of %s was run", pattern)
	}
	for i, t := range r.Tests {
		if t.Outcome == failed && !slices.ContainsFunc(r.Tests[i+1:], func(sub Test) bool {
			return sub.Outcome == failed && strings.HasPrefix(sub.Name, t.Name+"/")
		}) {
			r.problem("%s: %s", t.Name, t.reason())
		}
	}
	// A test that failed has the program end with 1, which then says nothing more.
	if p := results[testsStep].Problem(); p != "" && (results[testsStep].Failed != "" || len(r.Problems) == 0) {
		r.problem("%s", p)
	}
	if p := results[reportStep].Problem(); p != "" {
		r.problem("%s", p)
	}
}
