package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"felix.local/felix/test/matrix/filesystems"
	"felix.local/felix/test/matrix/vm"
)

// filesystemsCommand runs the tests on real filesystems in guests.
type filesystemsCommand struct {
	crashFlags
	Row   []string      `name:"row" default:"6.12" placeholder:"NAME" help:"these kernels."`
	Tests string        `name:"run" placeholder:"PATTERN" help:"these tests of test/filesystems, as go test -run has them. Default: those of quotas."`
	Limit time.Duration `name:"limit" default:"30m" help:"how long a guest may take."`
}

// Run runs the tests, and fails for every one that fails and when none was run.
func (c *filesystemsCommand) Run(ctx context.Context) error {
	report := filesystems.Report{Date: time.Now(), Command: c.command(), Revision: revision(ctx)}
	pattern := c.Tests
	if pattern == "" {
		pattern = filesystems.Quotas
	}
	skip := skipTo(&report.Skipped)
	err := c.each(ctx, c.Row, func(k vm.Kernel, guest, dir string) error {
		row, err := filesystems.Run(ctx, filesystems.Options{
			Kernel: k, Guest: guest, Dir: dir, Run: pattern, Limit: c.Limit, Progress: sayLine,
		})
		if missing := (*vm.NoModuleError)(nil); errors.As(err, &missing) {
			skip(fmt.Sprintf("kernel %s: %v", k.Row, err))
			return nil
		}
		if err != nil {
			return err
		}
		report.Rows = append(report.Rows, row)
		if len(row.Problems) > 0 {
			return fmt.Errorf("%d findings", len(row.Problems))
		}
		return nil
	}, skip)
	return c.finish(report, report.Markdown(), report.Failures(), err)
}

// command is what to type for the same tests: where files go makes no difference to them.
func (c *filesystemsCommand) command() string {
	text := "go run ./test/matrix filesystems --row " + strings.Join(c.Row, ",")
	if c.Tests != "" {
		text += fmt.Sprintf(" --run '%s'", c.Tests)
	}
	return text
}
