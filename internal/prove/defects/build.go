package defects

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// powerLossSeeds is the default of Check.Seeds.
const powerLossSeeds = 2

// testTimeout ends a check that hangs, which is a way to fail; killedAfter one
// whose output a process that it started holds open.
const (
	testTimeout = 3 * time.Minute
	killedAfter = 5 * time.Second
)

// tree is the source under test: the module at root, changed or as it is.
type tree struct {
	root string
	// dir is this tree's own, for what is built.
	dir string
	// overlay is the file for -overlay, empty for the tree as it is.
	overlay string
	// built are the test programs by package.
	built map[string]string
}

func asItIs(root, dir string) *tree {
	return &tree{root: root, dir: dir, built: make(map[string]string)}
}

// with gives the tree with a defect. Its files are written to dir.
func with(d Defect, root, dir string) (*tree, error) {
	changed, err := d.apply(root)
	if err != nil {
		return nil, err
	}
	replace := make(map[string]string)
	for path, text := range changed {
		name, err := filepath.Rel(root, path)
		if err != nil {
			return nil, err
		}
		copied := filepath.Join(dir, strings.ReplaceAll(name, string(filepath.Separator), "_"))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			return nil, err
		}
		replace[path] = copied
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	t := asItIs(root, dir)
	t.overlay = filepath.Join(dir, "overlay.json")
	return t, os.WriteFile(t.overlay, overlay, 0o600)
}

// program builds the tests of a package.
func (t *tree) program(ctx context.Context, pkg string) (string, error) {
	if program, ok := t.built[pkg]; ok {
		return program, nil
	}
	program := filepath.Join(t.dir, strings.ReplaceAll(pkg, "/", "_")+".test")
	args := []string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", program}
	if t.overlay != "" {
		args = append(args, "-overlay="+t.overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+pkg)...)
	cmd.Dir, cmd.WaitDelay = t.root, killedAfter
	if out, err := cmd.CombinedOutput(); ctx.Err() != nil {
		return "", fmt.Errorf("building the tests of %s: %w", pkg, context.Cause(ctx))
	} else if err != nil {
		return "", fmt.Errorf("building the tests of %s: %w\n%s", pkg, err, out)
	}
	t.built[pkg] = program
	return program, nil
}

// outcome is how a check ended.
type outcome struct {
	failed bool
	output string
	took   time.Duration
}

// run runs one check. The error is one of running it.
func (t *tree) run(ctx context.Context, c Check) (outcome, error) {
	program, err := t.program(ctx, c.Package)
	if err != nil {
		return outcome{}, err
	}
	started := time.Now()
	cmd := exec.CommandContext(ctx, program, "-test.run=^"+c.Test+"$", "-test.failfast", "-test.v", "-test.timeout="+testTimeout.String())
	cmd.Dir, cmd.WaitDelay = filepath.Join(t.root, filepath.FromSlash(c.Package)), killedAfter
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Env = append(os.Environ(), "FELIX_POWER_LOSS_END=1", "FELIX_POWER_LOSS_SEEDS="+strconv.Itoa(max(c.Seeds, powerLossSeeds)))
	err = cmd.Run()
	o := outcome{output: out.String(), took: time.Since(started)}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return o, fmt.Errorf("running %v: %w", c, context.Cause(ctx))
	case err != nil && !errors.As(err, &exit):
		return o, fmt.Errorf("running %v: %w", c, err)
	case !strings.Contains(o.output, "=== RUN   "+c.Test+"\n"):
		return o, fmt.Errorf("%v: no such test\n%s", c, o.output)
	case err == nil:
		return o, nil
	case !c.blamed(o.output):
		return o, fmt.Errorf("%v: the program failed and the test did not: %w\n%s", c, err, o.output)
	}
	o.failed = true
	return o, nil
}

// blamed says whether a program that failed did so for its one test.
func (c Check) blamed(output string) bool {
	for _, sign := range []string{"--- FAIL: " + c.Test + " (", "panic: ", "fatal error: "} {
		if strings.HasPrefix(output, sign) || strings.Contains(output, "\n"+sign) {
			return true
		}
	}
	return false
}
