package filesystems

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
)

// The outcomes of a test. One that has none did not end.
const (
	passed  = "pass"
	failed  = "fail"
	skipped = "skip"
)

// Test is a test and what became of it.
type Test struct {
	Name    string  `json:"name"`
	Outcome string  `json:"outcome"`
	Seconds float64 `json:"seconds"`
	// Output is what it logged, of a test that passed nothing.
	Output string `json:"output,omitempty"`
}

// event is a line of what go tool test2json makes of a test program's output.
type event struct {
	Action, Test, Output string
	Elapsed              float64
}

// parse reads the output of a test program, as -test.v=test2json has it: the tests in the
// order in which they began.
func parse(ctx context.Context, output string) ([]Test, error) {
	cmd := exec.CommandContext(ctx, "go", "tool", "test2json")
	cmd.Stdin = strings.NewReader(output)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	events, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go tool test2json: %w: %s", err, complaints.String())
	}
	return testsOf(bytes.NewReader(events))
}

// frame are the lines around what a test says.
var frame = regexp.MustCompile(`^\s*(=== |--- )`)

func testsOf(events io.Reader) ([]Test, error) {
	var tests []*Test
	byName := make(map[string]*Test)
	for d := json.NewDecoder(events); ; {
		var e event
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if e.Test == "" {
			continue
		}
		t := byName[e.Test]
		if t == nil {
			t = &Test{Name: e.Test}
			tests, byName[e.Test] = append(tests, t), t
		}
		switch e.Action {
		case passed, failed, skipped:
			t.Outcome, t.Seconds = e.Action, e.Elapsed
		case "output":
			if !frame.MatchString(e.Output) {
				t.Output += e.Output
			}
		}
	}
	all := make([]Test, len(tests))
	for i, t := range tests {
		if t.Outcome == passed {
			t.Output = ""
		}
		all[i] = *t
	}
	return all, nil
}

// leaves are the tests without subtests: a test that holds others says nothing that they
// do not.
func leaves(tests []Test) (found []Test) {
	holds := make(map[string]bool)
	for _, t := range tests {
		for at := strings.LastIndexByte(t.Name, '/'); at > 0; at = strings.LastIndexByte(t.Name[:at], '/') {
			holds[t.Name[:at]] = true
		}
	}
	for _, t := range tests {
		if !holds[t.Name] {
			found = append(found, t)
		}
	}
	return found
}

// place of a line in a test's output, such as "    full_test.go:20: ".
var place = regexp.MustCompile(`^\s*\w+\.go:\d+: `)

// reason is what a test said, without the places in its source.
func (t Test) reason() string {
	var words []string
	for line := range strings.Lines(t.Output) {
		words = append(words, strings.Fields(place.ReplaceAllString(line, ""))...)
	}
	return strings.Join(words, " ")
}
