package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"felix.local/felix/bench"
	"felix.local/felix/bench/report"
)

// writeReport writes the page, when one was asked for.
func (f *benchFlags) writeReport(a *app, results bench.Results, title string) error {
	if f.Report == "" {
		return nil
	}
	err := report.Write(f.Report, report.Document{
		Title: title, Command: commandLine(os.Args, os.Environ()), Made: time.Now().UTC().Format("2 January 2006, 15:04 UTC"),
		Facts: f.machine(a, results), Results: results, Verified: f.Verify,
	})
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	fmt.Fprintf(a.stderr, "felixd: report at %s\n", filepath.Join(f.Report, "index.html"))
	return nil
}

// machine says what was measured on.
func (f *benchFlags) machine(a *app, results bench.Results) []report.Fact {
	d := &doctor{app: a, dir: f.Dir}
	kernel, limits := d.kernel(), d.limits()
	facts := []report.Fact{
		{Name: "kernel", Value: kernel.Release},
		{Name: "processors", Value: fmt.Sprintf("%d (%s), GOMAXPROCS %d", kernel.CPUs, processorName(), runtime.GOMAXPROCS(0))},
		{Name: "built with", Value: runtime.Version()},
		{Name: "limits", Value: limits.text()},
	}
	if m, found := mountOf(f.Dir); found {
		facts = append(facts, report.Fact{Name: "filesystem", Value: fmt.Sprintf("%s on %s (%s), options %s", m.fstype, m.point, m.source, strings.Join(m.options, ","))})
	}
	for side, name := range results.Sides {
		for _, t := range results.Of(0, side) {
			facts = append(facts, report.Fact{Name: "backend, " + name, Value: t.Row.Backend + ": " + t.Reason})
			break
		}
	}
	return facts
}

// processorName is the model, as the kernel has it.
func processorName() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(text)) {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// commandLine is the command as a shell takes it, with the variables that the storage
// reads. A token is left out: a report is made to be shown.
func commandLine(args, environ []string) string {
	var words []string
	for _, line := range environ {
		if strings.HasPrefix(line, "FELIX_DURABLE_") || strings.HasPrefix(line, "FELIX_STORAGE_") {
			name, value, _ := strings.Cut(line, "=")
			words = append(words, name+"="+quoted(value))
		}
	}
	words = append(words, filepath.Base(args[0]))
	secret := false
	for _, arg := range args[1:] {
		switch {
		case secret:
			arg, secret = "…", false
		case arg == "--token":
			secret = true
		case strings.HasPrefix(arg, "--token="):
			arg = "--token=…"
		}
		words = append(words, quoted(arg))
	}
	return strings.Join(words, " ")
}

// quoted puts a word in quotes where a shell would take it apart.
func quoted(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_=./:,+@%…", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
