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
	"slices"
	"strings"
)

// govulncheck asks the Go vulnerability database, and follows calls: what nothing in
// this module calls does not concern it. All of the module is asked about, because its
// packages are there to be imported too.
const (
	govulncheckProgram = "golang.org/x/vuln/cmd/govulncheck"
	govulncheckVersion = "v1.9.0"
	govulncheckOf      = "./..."
)

type vulnerabilitiesCommand struct {
	Source string `name:"source" default:"." type:"path" placeholder:"DIR" help:"the top of the source tree"`
}

// Run fails when vulnerable code is called. Where nobody answers, nothing is known:
// that is said, and is no failure.
func (c *vulnerabilitiesCommand) Run(ctx context.Context) error {
	work, err := os.MkdirTemp("", "felix-vulnerabilities-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	checker, err := tool(ctx, work, govulncheckProgram, govulncheckVersion)
	if away := new(notToBeHadError); errors.As(err, &away) {
		fmt.Println("skipped:", away)
		return nil
	}
	if err != nil {
		return err
	}
	command := goCommand(ctx, c.Source, "")
	command.Path, command.Args = checker, []string{"govulncheck", "-format", "json", govulncheckOf}
	report, err := output(command)
	verdict, err := judgeReport(report, err)
	fmt.Println(verdict)
	return err
}

// message is one of the objects that govulncheck prints one after the other.
type message struct {
	Progress *struct{ Message string }
	Finding  *struct {
		OSV          string
		FixedVersion string `json:"fixed_version"`
		Trace        []struct {
			Module, Version, Package, Function string
		}
	}
}

// What govulncheck says before it asks the database, and once it was answered.
const (
	asking   = "Fetching vulnerabilities"
	answered = "Checking the code against"
)

// judgeReport decides what a run of govulncheck, which ended with failed or with nil,
// has shown. In this format it ends with an error only when it could not do its work,
// not for what it found. When the last that it did was to ask the database, and that is
// what it failed at, the database did not answer; success without an answer is none.
func judgeReport(report []byte, failed error) (verdict string, err error) {
	var called, present []string
	step := ""
	for decoder := json.NewDecoder(bytes.NewReader(report)); ; {
		var m message
		if err := decoder.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return "not understood", errors.Join(err, failed)
		}
		if m.Progress != nil {
			step = m.Progress.Message
		}
		if m.Finding == nil || len(m.Finding.Trace) == 0 {
			continue
		}
		at := m.Finding.Trace[0]
		line := fmt.Sprintf("%s in %s %s, fixed in %s", m.Finding.OSV, at.Module, at.Version, cmp.Or(m.Finding.FixedVersion, "no version"))
		if at.Function != "" {
			called = append(called, line)
		} else {
			present = append(present, line)
		}
	}
	slices.Sort(called)
	slices.Sort(present)
	called, present = slices.Compact(called), slices.Compact(present)
	switch {
	case len(called) > 0:
		return "vulnerable code is called:\n" + strings.Join(called, "\n"), fmt.Errorf("%d vulnerabilities concern this code", len(called))
	case failed != nil && strings.HasPrefix(step, asking) && strings.Contains(failed.Error(), "fetching vulnerabilities"):
		return "skipped: the vulnerability database does not answer: " + failed.Error(), nil
	case failed != nil:
		return "not checked", failed
	case !strings.HasPrefix(step, answered):
		return "not checked", fmt.Errorf("govulncheck ended without an answer of the database; its last words: %q", step)
	}
	return fmt.Sprintf("no vulnerable code is called; %d known in modules whose vulnerable code is not called", len(present)), nil
}
