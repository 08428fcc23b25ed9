package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"felix.local/felix/test/matrix/plan"
)

const sysctlDir = "/proc/sys"

// runner runs the steps of a plan.
type runner struct {
	results io.Writer
	// program is this program's path, for the wrappers around a step.
	program string
	// root says that users and sysctls can be changed.
	root bool
	// sysctls is the directory in which sysctls are files; empty is the system's.
	sysctls string
}

// runOnHost is the mode "run": the steps on a machine that is running already.
func runOnHost(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("run takes the path of a plan")
	}
	p, err := plan.Read(args[0])
	if err != nil {
		return err
	}
	if len(p.Modules)+len(p.Mounts) > 0 {
		return errors.New("a plan for a running machine loads no modules and mounts nothing")
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	release, err := alone(ctx, sysctlDir)
	if err != nil {
		return err
	}
	defer release()
	fmt.Println(plan.LineUp, kernelRelease())
	r := runner{results: os.Stdout, program: program, root: os.Geteuid() == 0}
	if err := r.run(ctx, p.Steps); err != nil {
		return err
	}
	fmt.Println(plan.LineExit, 0)
	return nil
}

// run carries out steps until ctx ends. An error is one of writing a result.
func (r *runner) run(ctx context.Context, steps []plan.Step) error {
	for _, s := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		line, err := json.Marshal(r.step(ctx, s))
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(r.results, "%s\n", line); err != nil {
			return err
		}
	}
	return nil
}

// step runs one step between setting sysctls and putting them back.
func (r *runner) step(ctx context.Context, s plan.Step) plan.Result {
	result := plan.Result{Name: s.Name}
	if !r.root && (s.UID != 0 || len(s.Sysctls) > 0) {
		result.Skipped = "another user or a sysctl needs root"
		return result
	}
	restore, err := setSysctls(cmp.Or(r.sysctls, sysctlDir), s.Sysctls)
	if skip := (*skipError)(nil); errors.As(err, &skip) {
		result.Skipped = skip.Error()
	} else if err != nil {
		result.Failed = err.Error()
	} else {
		r.execute(ctx, s, &result)
	}
	if err := restore(); err != nil {
		result.Failed = strings.TrimPrefix(result.Failed+"; "+err.Error(), "; ")
	}
	return result
}

// execute runs the step's program in a process group of its own, and leaves nothing of
// the group behind.
func (r *runner) execute(ctx context.Context, s plan.Step, result *plan.Result) {
	seconds := s.Seconds
	if seconds == 0 {
		seconds = plan.DefaultSeconds
	}
	limit := time.Duration(seconds) * time.Second
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("killed after %v", limit))
	defer cancel()
	argv := r.wrapped(s)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append([]string{"PATH=/bin:/usr/bin", "HOME=/"}, s.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if s.UID != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: s.UID, Gid: s.UID}
	}
	if s.Dir != "" {
		if err := makeDir(s.Dir, s.UID); err != nil {
			result.Failed = err.Error()
			return
		}
		cmd.Dir, cmd.Env = s.Dir, append(cmd.Env, "TMPDIR="+s.Dir)
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	// A grandchild that keeps an output open does not hold up the plan.
	cmd.WaitDelay = 5 * time.Second
	out, complaints := &capped{max: plan.OutputMax}, &capped{max: plan.OutputMax}
	cmd.Stdout, cmd.Stderr = out, complaints
	if s.Stream {
		cmd.Stdout = r.results
	}
	started := time.Now()
	err := cmd.Run()
	result.Seconds = time.Since(started).Seconds()
	result.Stdout, result.Stderr = out.kept.String(), complaints.kept.String()
	if cmd.Process != nil {
		// Those of the group that outlived the program; there are none as a rule.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	var ended *exec.ExitError
	switch {
	case err == nil:
	case ctx.Err() != nil:
		result.Failed = context.Cause(ctx).Error()
	case errors.As(err, &ended):
		result.Exit = exitStatus(ended.ProcessState)
	default:
		result.Failed = err.Error()
	}
}

// wrapped puts this program before the step's, once per thing that a process can only
// change for itself.
func (r *runner) wrapped(s plan.Step) []string {
	argv := s.Argv
	if len(s.Deny) > 0 {
		argv = append([]string{r.program, "deny", strings.Join(s.Deny, ","), "--"}, argv...)
	}
	if s.MemlockBytes != nil {
		argv = append([]string{r.program, "limit", "memlock=" + strconv.FormatUint(*s.MemlockBytes, 10), "--"}, argv...)
	}
	return argv
}

func makeDir(dir string, owner uint32) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if owner == 0 {
		return nil
	}
	return os.Chown(dir, int(owner), int(owner))
}

// capped keeps the first bytes written to it and swallows the rest.
type capped struct {
	kept bytes.Buffer
	max  int
}

func (c *capped) Write(p []byte) (int, error) {
	if room := c.max - c.kept.Len(); room > 0 {
		c.kept.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
