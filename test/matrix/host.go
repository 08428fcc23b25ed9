package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"felix.local/felix/test/matrix/plan"
)

// restoreTime is how long the guest program may take to put sysctls back once it was asked
// to end.
const restoreTime = 30 * time.Second

// runHost runs the cells on this host, in a directory of its own that others may enter.
func runHost(ctx context.Context, p programs, work string, say func(string, ...any)) (Row, error) {
	row := Row{Name: hostRow, Release: hostRelease()}
	started := time.Now()
	at := place{guest: p.path("guest"), bin: p.dir, filesystem: "host", dir: filepath.Join(work, "data")}
	var todo plan.Plan
	todo.Steps = at.conformanceSteps()
	for i, d := range denials() {
		todo.Steps = append(todo.Steps, at.steps(fmt.Sprintf("cell%d", i), d, true)...)
	}
	path := filepath.Join(work, "plan.json")
	if err := todo.Write(path); err != nil {
		return row, err
	}
	results, err := runSteps(ctx, at.guest, path, say)
	if ctx.Err() != nil {
		return row, errors.Join(context.Cause(ctx), err)
	}
	if err != nil && len(results) == 0 {
		return row, fmt.Errorf("this host's row was not begun: %w", err)
	}
	if err != nil {
		row.problem("%v", err)
	}
	judgeHost(&row, at, results)
	row.Seconds = time.Since(started).Seconds()
	return row, nil
}

// runSteps has the guest program run a plan here. When ctx ends it is asked to end, and
// given the time to put back what it has changed.
func runSteps(ctx context.Context, guest, path string, say func(string, ...any)) (map[string]plan.Result, error) {
	results := make(map[string]plan.Result)
	cmd := exec.CommandContext(ctx, guest, "run", path)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = restoreTime
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return results, err
	}
	if err := cmd.Start(); err != nil {
		return results, err
	}
	verdict := false
	for lines := bufio.NewReader(pipe); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			break
		}
		line = strings.TrimSpace(line)
		verdict = verdict || line == plan.LineExit+" 0"
		collect(results, line, say)
	}
	err = cmd.Wait()
	if err == nil && !verdict {
		err = errors.New("the guest program ended without a verdict")
	}
	return results, err
}

// judgeHost expects of this host what is expected of its kernel, unless the host gives no
// ring at all: then every cell is to be the pool, and the row says why.
func judgeHost(row *Row, at place, results map[string]plan.Result) {
	r, err := parseRelease(row.Release)
	if err != nil {
		row.problem("%v", err)
		return
	}
	all := denials()
	baseline := judgeCell(at, all[0], expectation{backend: either, demo: true, mayMiss: true}, results)
	noRing := baseline.Backend == pool
	if noRing {
		row.Notes = append(row.Notes, "this host gives no ring, so every cell is held to the pool: "+baseline.Reason)
	}
	for _, d := range all {
		want := expected(d, r, true)
		want.mayMiss = true
		if noRing {
			want = expectation{backend: pool, demo: true, mayMiss: true}
		}
		c := judgeCell(at, d, want, results)
		row.Cells = append(row.Cells, c)
	}
	for _, c := range conformance() {
		row.Conformance = append(row.Conformance, judgeConformance(c.name, results))
	}
	for what, reason := range missingIn(row.Cells) {
		row.Notes = append(row.Notes, what+" is not written here: "+reason)
	}
}

// missingIn is what the filesystem of a row cannot hold, with the reason.
func missingIn(cells []Cell) map[string]string {
	missing := make(map[string]string)
	for _, c := range cells {
		if c.Written != nil {
			for what, reason := range c.Written.Missing {
				missing[what] = reason
			}
		}
	}
	return missing
}

func hostRelease() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Release[:])
}
