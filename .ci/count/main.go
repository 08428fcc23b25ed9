// Command count reads what "go test -json" wrote and says how it went: the
// output of every failed test, each skip with its reason, and as the last line the
// numbers. It exits 1 when something failed, or when nothing ran.
//
//	go run ./.ci/count file...
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// event is one line of go test -json.
type event struct {
	Action, Package, Test, Output string
	ImportPath                    string
}

type key struct{ pkg, test string }

// tally collects what tests wrote until it is known how they ended.
type tally struct {
	passed, failed, skipped int
	output                  map[key][]string
	skips                   []string
	failures                []string
}

func main() {
	t := tally{output: make(map[key][]string)}
	for _, path := range os.Args[1:] {
		if err := t.file(path); err != nil {
			t.failures = append(t.failures, fmt.Sprintf("%s: %v", path, err))
			t.failed++
		}
	}
	for _, text := range t.failures {
		fmt.Println(text)
	}
	slices.Sort(t.skips)
	for _, text := range slices.Compact(t.skips) {
		fmt.Println("skipped:", text)
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", t.passed, t.failed, t.skipped)
	if t.failed > 0 || t.passed == 0 {
		os.Exit(1)
	}
}

func (t *tally) file(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Println(lines.Text()) // what the go command says by itself
			continue
		}
		t.take(e)
	}
	return lines.Err()
}

func (t *tally) take(e event) {
	k := key{e.Package + e.ImportPath, e.Test}
	switch e.Action {
	case "output", "build-output":
		t.output[k] = append(t.output[k], e.Output)
		return
	case "pass":
		if e.Test != "" {
			t.passed++
		}
	case "skip":
		if e.Test != "" {
			t.skipped++
			t.skips = append(t.skips, fmt.Sprintf("%s %s: %s", e.Package, e.Test, reason(t.output[k])))
		}
	case "fail", "build-fail":
		// A package fails with each of its tests; it counts by itself only
		// when none of them did, as when it does not build or panics.
		if e.Test != "" || e.Action == "build-fail" || !t.failedIn(e.Package) {
			t.failed++
		}
		t.failures = append(t.failures, fmt.Sprintf("FAILED: %s %s\n%s", k.pkg, e.Test, strings.Join(t.output[k], "")))
	default:
		return
	}
	delete(t.output, k)
}

func (t *tally) failedIn(pkg string) bool {
	return slices.ContainsFunc(t.failures, func(text string) bool {
		rest, found := strings.CutPrefix(text, "FAILED: "+pkg+" ")
		return found && !strings.HasPrefix(rest, "\n")
	})
}

// reason is what a test said before it skipped, without the frame around it.
func reason(output []string) string {
	var said []string
	for _, line := range output {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "===") && !strings.HasPrefix(line, "---") {
			said = append(said, line)
		}
	}
	return strings.Join(said, " ")
}
