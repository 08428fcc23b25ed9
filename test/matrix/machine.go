package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"felix.local/felix/test/matrix/plan"
	"felix.local/felix/test/matrix/vm"
)

// Where a guest has its disks, and how large they are.
const (
	ext4Dir, xfsDir = "/ext4", "/xfs"
	ext4Device      = plan.BySerial + "disk0"
	xfsDevice       = plan.BySerial + "disk1"
	diskBytes       = 1 << 30
	guestBin        = "/bin"
)

// oldXFS leaves out of a new XFS what the oldest kernel does not mount.
var oldXFS = []string{"-i", "nrext64=0"}

// xfsDenials are the cells on the second filesystem: the ring, and the pool.
func xfsDenials() []denial { return denials()[:2] }

// kernelRun is a row that runs in a machine of its own.
type kernelRun struct {
	kernel   vm.Kernel
	programs programs
	// work is a directory for this row's files.
	work  string
	limit time.Duration
	// denials are the cells on the first filesystem.
	denials []denial
	// xfs says that the kernel has it.
	xfs bool
}

func (k *kernelRun) ext4Place() place {
	return place{guest: plan.Program, bin: guestBin, filesystem: "ext4", dir: ext4Dir}
}

func (k *kernelRun) xfsPlace() place {
	return place{guest: plan.Program, bin: guestBin, filesystem: "xfs", dir: xfsDir}
}

// runKernel boots a kernel and judges what its machine says. A machine that did not get
// as far as our code is started once more; one that did, never.
func runKernel(ctx context.Context, k kernelRun, say func(string, ...any)) (Row, error) {
	row := Row{Name: k.kernel.Row, Suite: k.kernel.Suite, Package: k.kernel.Package, Release: k.kernel.Release}
	started := time.Now()
	if k.kernel.Note != "" {
		k.note(&row, k.kernel.Note)
	}
	if n := len(denials()) - len(k.denials); n > 0 {
		row.Notes = append(row.Notes, fmt.Sprintf("a quick run: %d denials are left out on this kernel", n))
	}
	machine, err := k.prepare(ctx, &row)
	if err != nil {
		return row, err
	}
	results, up, err := run(ctx, machine, say)
	if err != nil && !up && ctx.Err() == nil {
		row.Notes = append(row.Notes, "started twice: the first machine did not get as far as the guest program")
		say("%s: it did not get as far as the guest program; once more: %v", row.Name, err)
		if machine, err = k.prepare(ctx, &row); err != nil {
			return row, err
		}
		results, _, err = run(ctx, machine, say)
	}
	if ctx.Err() != nil {
		return row, context.Cause(ctx)
	}
	if err != nil {
		row.problem("%v", err)
	}
	row.Seconds = time.Since(started).Seconds()
	k.judge(&row, results)
	return row, nil
}

// prepare makes the disks and the first filesystem.
func (k *kernelRun) prepare(ctx context.Context, row *Row) (vm.Machine, error) {
	m := vm.Machine{Kernel: k.kernel, Initramfs: filepath.Join(k.work, "initramfs"), Limit: k.limit, Log: filepath.Join(k.work, "machine")}
	files := map[string]string{plan.Program: k.programs.path("guest"), plan.Path: filepath.Join(k.work, "plan.json")}
	for _, name := range []string{"felixd", "uring.test", "fallback.test"} {
		files[guestBin+"/"+name] = k.programs.path(name)
	}
	todo := plan.Plan{Mounts: []plan.Mount{{Device: ext4Device, Filesystem: "ext4", Dir: ext4Dir}}}
	disk := filepath.Join(k.work, "ext4")
	if err := vm.MakeDisk(ctx, disk, diskBytes, "ext4"); err != nil {
		return m, err
	}
	m.Disks = vm.Disk(0, disk)

	order, err := k.kernel.LoadOrder(ctx, "xfs", k.work)
	switch none := (*vm.NoModuleError)(nil); {
	case errors.As(err, &none):
		k.note(row, "no XFS: "+err.Error())
	case err != nil:
		return m, err
	default:
		k.xfs = true
		disk := filepath.Join(k.work, "xfs")
		if err := vm.MakeDisk(ctx, disk, diskBytes, "xfs", oldXFS...); err != nil {
			return m, err
		}
		m.Disks = append(m.Disks, vm.Disk(1, disk)...)
		todo.Mounts = append(todo.Mounts, plan.Mount{Device: xfsDevice, Filesystem: "xfs", Dir: xfsDir})
		for _, file := range order {
			inGuest := "/modules/" + filepath.Base(file)
			files[inGuest] = file
			todo.Modules = append(todo.Modules, inGuest)
		}
	}
	todo.Steps = k.steps()
	if err := todo.Write(files[plan.Path]); err != nil {
		return m, err
	}
	return m, vm.Initramfs(m.Initramfs, files)
}

// note adds to a row's notes what is not among them.
func (k *kernelRun) note(row *Row, text string) {
	for _, n := range row.Notes {
		if n == text {
			return
		}
	}
	row.Notes = append(row.Notes, text)
}

func (k *kernelRun) steps() []plan.Step {
	steps := k.ext4Place().conformanceSteps()
	for i, d := range k.denials {
		steps = append(steps, k.ext4Place().steps(fmt.Sprintf("cell%d", i), d, true)...)
	}
	if k.xfs {
		for i, d := range xfsDenials() {
			steps = append(steps, k.xfsPlace().steps(fmt.Sprintf("cell%d", i), d, false)...)
		}
	}
	return steps
}

func (k *kernelRun) judge(row *Row, results map[string]plan.Result) {
	r, err := parseRelease(k.kernel.Release)
	if err != nil {
		row.problem("%v", err)
		return
	}
	for _, d := range k.denials {
		c := judgeCell(k.ext4Place(), d, expected(d, r, true), results)
		c.judgeSkip(d, r)
		row.Cells = append(row.Cells, c)
	}
	if k.xfs {
		for _, d := range xfsDenials() {
			row.Cells = append(row.Cells, judgeCell(k.xfsPlace(), d, expected(d, r, false), results))
		}
	}
	for _, c := range conformance() {
		row.Conformance = append(row.Conformance, judgeConformance(c.name, results))
	}
}

// expected is what a cell of a machine of ours is held to.
func expected(d denial, r release, demo bool) expectation {
	return expectation{backend: d.backend(r), about: cmp.Or(d.about, pool), reason: d.reason, remedy: d.remedy, demo: demo}
}

// sysctlSince is the first kernel that has the sysctl.
var sysctlSince = release{6, 6}

// judgeSkip: in a machine of ours a step is skipped where the sysctl does not exist, and
// for no other reason.
func (c *Cell) judgeSkip(d denial, r release) {
	if c.Skipped != "" && (len(d.sysctls) == 0 || !r.less(sysctlSince)) {
		c.problem("skipped: %s", c.Skipped)
	}
}

// run starts a machine and collects the results it writes. up says that it got as far as
// our code.
func run(ctx context.Context, m vm.Machine, say func(string, ...any)) (results map[string]plan.Result, up bool, err error) {
	results = make(map[string]plan.Result)
	g, err := m.Start(ctx)
	if err != nil {
		return results, false, err
	}
	for line := range g.Lines() {
		collect(results, line, say)
	}
	err = g.Wait()
	return results, g.Up(), err
}

// collect keeps a line that is a result, and says so.
func collect(results map[string]plan.Result, line string, say func(string, ...any)) {
	r, ok := plan.ParseResult(line)
	if !ok {
		return
	}
	results[r.Name] = r
	switch {
	case r.Skipped != "":
		say("  %s: skipped: %s", r.Name, r.Skipped)
	case r.OK():
		say("  %s: %.1f s", r.Name, r.Seconds)
	default:
		say("  FAILED %s", strings.ReplaceAll(r.Problem(), "\n", "\n    "))
	}
}
