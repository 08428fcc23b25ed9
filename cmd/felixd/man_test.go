package main

import (
	"bytes"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
)

// printed is what a command of the tool writes.
func printed(t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(args, &stdout, &stderr); code != exitOK || stderr.Len() > 0 {
		t.Fatalf("felixd %v: exit code %d, %s", args, code, stderr.String())
	}
	return stdout.String()
}

// plain takes the signs of typesetting out of a page.
func plain(page string) string {
	return strings.NewReplacer(`\fB`, "", `\fI`, "", `\fR`, "", `\-`, "-", `\(aq`, "'", `\(dq`, `"`, `\&`, "", `\e`, `\`).Replace(page)
}

// eachFlag calls with every visible command and flag of the grammar.
func eachFlag(t *testing.T, of func(command *kong.Node, flag *kong.Flag)) {
	t.Helper()
	parser, _ := grammar(t)
	count := 0
	for _, command := range parser.Model.Leaves(true) {
		for n := command; n != nil; n = n.Parent {
			for _, flag := range n.Flags {
				count++
				of(command, flag)
			}
		}
	}
	if count < 200 {
		t.Fatalf("the grammar has %d flags, which is too few to be all", count)
	}
}

func TestTheManualHasEveryCommandFlagAndVariable(t *testing.T) {
	page := plain(printed(t, "man"))
	sections := strings.Split(page, "\n.S")
	section := func(head string) string {
		i := slices.IndexFunc(sections, func(s string) bool { return strings.HasPrefix(s, head) })
		if i < 0 {
			t.Fatalf("the manual has no section %s", head)
		}
		return sections[i]
	}
	shared := section(`H "SERVER SETTINGS"`) + section(`H "STORAGE SETTINGS"`) + section(`H "OPTIONS OF EVERY COMMAND"`)
	environment := section(`H "ENVIRONMENT"`)
	eachFlag(t, func(command *kong.Node, flag *kong.Flag) {
		own := section(`S "` + command.FullPath() + " ")
		if !regexp.MustCompile(`(?m)^(-\w, )?--` + flag.Name + `\b`).MatchString(own + shared) {
			t.Errorf("%s: the manual lacks --%s", command.FullPath(), flag.Name)
		}
		for _, variable := range flag.Envs {
			if !strings.Contains(environment, "\n"+variable+"\n") {
				t.Errorf("the manual lacks the variable %s", variable)
			}
		}
	})
}

func TestTheManualHasEveryExitCodeInTheWordsOfThePackage(t *testing.T) {
	source, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(source), "// # Exit codes\n")
	list, _, _ = strings.Cut(list, "package main")
	words := strings.Join(strings.Fields(strings.ReplaceAll(list, "//", " ")), " ")
	var want []string
	for _, e := range exitMeanings() {
		want = append(want, e.Term+" "+e.Text)
	}
	if diff := cmp.Diff(strings.Join(want, " "), words); diff != "" {
		t.Errorf("(-exit.go +doc.go):\n%s", diff)
	}
	if n := len(exitMeanings()); n != exitRefused+1 {
		t.Errorf("%d exit codes are described, the last one is %d", n, exitRefused)
	}
}

// A warning of a formatter is text that someone does not see.
func TestFormattersOfManualsHaveNothingToSay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "felixd.1")
	if err := os.WriteFile(path, []byte(printed(t, "man")), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"groff":  {"-ww", "-man", "-Tutf8", "-z", path},
		"mandoc": {"-Tlint", "-W", "warning", path},
	} {
		t.Run(name, func(t *testing.T) {
			program, err := exec.LookPath(name)
			if err != nil {
				t.Skipf("%s is not installed", name)
			}
			if err := formats(t, program, args...); err != nil {
				t.Error(err)
			}
		})
	}
}

// formats runs a formatter, which fails when it says something or ends with an error. A
// build that knows no commit has no date: mandoc minds that, and then ends as it does
// after warnings.
func formats(t *testing.T, program string, args ...string) error {
	t.Helper()
	const afterWarnings = 2
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	excused := false
	text := slices.DeleteFunc(strings.Split(strings.TrimSpace(string(out)), "\n"), func(line string) bool {
		date := strings.Contains(line, "missing date")
		excused = excused || date
		return line == "" || date
	})
	if ended := new(exec.ExitError); excused && errors.As(err, &ended) && ended.ExitCode() == afterWarnings {
		err = nil
	}
	if len(text) > 0 {
		err = errors.Join(err, errors.New(strings.Join(text, "\n")))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(program), err)
	}
	return nil
}

func TestAFormatterThatFailsWithoutAWordFails(t *testing.T) {
	for script, fine := range map[string]bool{
		"exit 0":                               true,
		"exit 1":                               false,
		"exit 2":                               false,
		"kill -KILL $$":                        false,
		"echo 'WARNING: missing date'; exit 2": true,
		"echo 'WARNING: missing date'; exit 3": false,
		"echo 'WARNING: skipping paragraph'; exit 0":   false,
		"echo 'missing date'; echo another >&2; false": false,
	} {
		if err := formats(t, "/bin/sh", "-c", script); (err == nil) != fine {
			t.Errorf("%s: %v", script, err)
		}
	}
}

func TestTheManualIsDatedByTheCommit(t *testing.T) {
	info := &debug.BuildInfo{
		Main:     debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2001-02-03T23:04:05+09:00"}, {Key: "vcs.modified", Value: "true"}},
	}
	about := aboutFelix(built(info))
	if about.Date != "2001-02-03" || about.Version != "1.2.3" {
		t.Errorf("dated %q, version %q", about.Date, about.Version)
	}
	if v := built(info); v.Revision != "abc" || !v.Modified || v.Date != "2001-02-03T23:04:05+09:00" {
		t.Errorf("%+v", v)
	}
	if v := built(nil); v.Version != unknown || v.Revision != unknown || v.Date != unknown {
		t.Errorf("a build that says nothing is %+v", v)
	}
}

func TestTheVersionSaysPlatformAndDriver(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	platform := make(map[string]string)
	for _, s := range info.Settings {
		platform[s.Key] = s.Value
	}
	v := built(info)
	if want := platform["GOOS"] + "/" + platform["GOARCH"]; v.Platform != want {
		t.Errorf("platform %s, want %s", v.Platform, want)
	}
	for _, want := range []string{v.Platform, "io_uring driver " + v.Driver, v.Go} {
		if v.Driver == "" || !strings.Contains(v.text(), want) {
			t.Errorf("%q is not in %q", want, v.text())
		}
	}
}
