package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
)

// completionCases are words typed so far, the last one to be completed, and what has
// to be offered. Every shell has to offer the same.
func completionCases(dir string) []completionCase {
	return []completionCase{
		{[]string{"ser"}, []string{"serve"}},
		{[]string{"log", "re"}, []string{"replay", "reset", "restore"}},
		{[]string{"--log-level", "debug", "log", "du"}, []string{"dump"}},
		{[]string{"--log-level", "w"}, []string{"warn"}},
		{[]string{"bench", "--sw"}, []string{"--sweep"}}, // of its default command
		{[]string{"bench", "a"}, []string{"ab"}},
		{[]string{"serve", "--kafka-a"}, []string{"--kafka-addr", "--kafka-advertised-addr", "--kafka-auto-create"}},
		{[]string{"log", "write", "--records", "5", "--cl"}, []string{"--clean-shutdown"}},
		{[]string{"subscribe", "--when-full", ""}, []string{"block", "disk"}},
		{[]string{"subscribe", "--from", ""}, []string{"earliest", "latest"}},
		{[]string{"streams", "create", "--fsync", "o"}, []string{"on_commit"}},
		{[]string{"serve", "--commit-journal", ""}, []string{"auto", "off", "require"}},
		{[]string{"completion", ""}, []string{"bash", "fish", "zsh"}},
		{[]string{"log", "inspect", dir + "/su"}, []string{dir + "/sub"}},
		{[]string{"serve", "--dir", dir + "/su"}, []string{dir + "/sub"}},
		{[]string{"serve", "--tls-cert-file", dir + "/su"}, []string{dir + "/sub", dir + "/sum"}},
		{[]string{"version", "serv"}, nil},
		{[]string{"publish", "--", "--ba"}, nil},
	}
}

type completionCase struct{ words, offered []string }

// completionDirectory has a directory and a file that begin alike.
func completionDirectory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sum"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// shellWith is a shell and the script that completes felixd in it.
func shellWith(t *testing.T, name string) (program, script string) {
	t.Helper()
	program, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	script = filepath.Join(t.TempDir(), "_felixd")
	if err := os.WriteFile(script, []byte(printed(t, "completion", name)), 0o600); err != nil {
		t.Fatal(err)
	}
	return program, script
}

// offers runs a shell and gives what it printed, a line each, in order and without
// the slash behind a directory.
func offers(t *testing.T, program string, args ...string) (lines []string) {
	t.Helper()
	shell := exec.CommandContext(t.Context(), program, args...)
	shell.Env = append(os.Environ(), "HOME="+t.TempDir())
	out, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
	for line := range strings.Lines(string(out)) {
		line, _, _ = strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		lines = append(lines, strings.TrimSuffix(line, "/"))
	}
	slices.Sort(lines)
	return lines
}

func wantOffers(t *testing.T, words, want, got []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("felixd %v (-want +offered):\n%s", words, diff)
	}
}

// inBash completes the last word as bash does: words it has cut are cut already.
func inBash(t *testing.T, program, script string, words []string) []string {
	t.Helper()
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = strconv.Quote(w)
	}
	return offers(t, program, "--norc", "-c", fmt.Sprintf(
		`source %q; COMP_WORDS=(felixd %s) COMP_CWORD=%d; _felixd; for one in "${COMPREPLY[@]}"; do echo "$one"; done`,
		script, strings.Join(quoted, " "), len(words)))
}

func TestBashCompletesCommandsFlagsAndValues(t *testing.T) {
	program, script := shellWith(t, "bash")
	for _, c := range completionCases(completionDirectory(t)) {
		wantOffers(t, c.words, c.offered, inBash(t, program, script, c.words))
	}
	for _, c := range []completionCase{
		{[]string{"streams", "create", "--fsync", "="}, []string{"none", "on_commit", "periodic"}},
		{[]string{"streams", "create", "--fsync", "=", "n"}, []string{"none"}},
		{[]string{"streams", "create", "--fsync", "=", "none", "--for"}, []string{"--format"}},
		{[]string{"serve", "--preallocate", "=", "f"}, []string{"false"}},
		{[]string{"streams", "create", "--fsync=n"}, []string{"--fsync=none"}}, // "=" separates no words
	} {
		wantOffers(t, c.words, c.offered, inBash(t, program, script, c.words))
	}
	if out := offers(t, program, "--norc", "-c", fmt.Sprintf("source %q; complete -p felixd", script)); len(out) != 1 || !strings.Contains(out[0], "-F _felixd felixd") {
		t.Errorf("bash would not ask the function: %q", out)
	}
}

func TestFishCompletesCommandsFlagsAndValues(t *testing.T) {
	program, script := shellWith(t, "fish")
	complete := func(words []string) []string {
		return offers(t, program, "--no-config", "-c", fmt.Sprintf("source %q; complete -C 'felixd %s'", script, strings.Join(words, " ")))
	}
	for _, c := range completionCases(completionDirectory(t)) {
		wantOffers(t, c.words, c.offered, complete(c.words))
	}
	words := []string{"streams", "create", "--fsync=o"}
	wantOffers(t, words, []string{"--fsync=on_commit"}, complete(words))
}

// zsh completes only at a terminal. In front of its functions stand some that print
// what they are asked to offer.
const zshStandIns = `
compdef() { }
_describe() { local -a all; all=("${(@P)@[-1]}"); for one in ${all%%:*}; do [[ $one == ${words[CURRENT]}* ]] && print -r -- $one; done; true }
compadd() { for one in $values; do [[ $one == $PREFIX* ]] && print -r -- $one; done; true }
_files() { if [[ $1 == -/ ]]; then print -rl -- $PREFIX*(N/); else print -rl -- $PREFIX*(N); fi }
compset() { PREFIX=${PREFIX#*=} }
`

func TestZshCompletesCommandsFlagsAndValues(t *testing.T) {
	program, script := shellWith(t, "zsh")
	complete := func(words []string) []string {
		quoted := make([]string, len(words))
		for i, w := range words {
			quoted[i] = "'" + w + "'"
		}
		offered := offers(t, program, "-f", "-c", fmt.Sprintf("%s\nsource %q\nwords=(felixd %s) CURRENT=%d PREFIX=%s; _felixd",
			zshStandIns, script, strings.Join(quoted, " "), len(words)+1, quoted[len(words)-1]))
		return slices.DeleteFunc(offered, func(s string) bool { return s == "" })
	}
	for _, c := range completionCases(completionDirectory(t)) {
		got := complete(c.words)
		if len(got) == 0 {
			got = nil
		}
		wantOffers(t, c.words, c.offered, got)
	}
	words := []string{"streams", "create", "--fsync=o"}
	wantOffers(t, words, []string{"on_commit"}, complete(words))
}

func TestEveryShellKnowsEveryCommandAndFlag(t *testing.T) {
	scripts := make(map[string]string)
	for _, shell := range []string{"bash", "zsh", "fish"} {
		scripts[shell] = printed(t, "completion", shell)
	}
	eachFlag(t, func(command *kong.Node, flag *kong.Flag) {
		for shell, script := range scripts {
			for _, want := range []string{"'" + command.FullPath() + "'", "--" + flag.Name} {
				if !strings.Contains(script, want) {
					t.Errorf("%s is not told of %s", shell, want)
				}
			}
		}
	})
}

func TestAShellThatIsNotKnownIsAMistake(t *testing.T) {
	var stdout, stderr strings.Builder
	if code := run([]string{"completion", "tcsh"}, &stdout, &stderr); code != exitUsage || stdout.Len() > 0 {
		t.Errorf("exit code %d, %q", code, stdout.String())
	}
}
