package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// commandsIn gives the commands of a document that begin so, for this machine's
// architecture and without the remark behind them.
func commandsIn(t *testing.T, document, beginning string) (commands []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", document))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^    (`+regexp.QuoteMeta(beginning)+`.*)$`).FindAllStringSubmatch(string(text), -1) {
		command, _, _ := strings.Cut(m[1], "  #")
		commands = append(commands, strings.ReplaceAll(strings.TrimSpace(command), "amd64", runtime.GOARCH))
	}
	if len(commands) == 0 {
		t.Fatalf("%s has no command %q", document, beginning)
	}
	return commands
}

func TestEveryDocumentedCommandOfPackagingExists(t *testing.T) {
	const call = "go run ./packaging"
	for _, command := range append(commandsIn(t, "docs/packaging.md", call), commandsIn(t, "README.md", call)...) {
		parser, err := kong.New(new(grammar), kong.Writers(io.Discard, io.Discard))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.Parse(strings.Fields(strings.TrimPrefix(command, call))); err != nil {
			t.Errorf("%s: %v", command, err)
		}
	}
}

// The README installs from the directory that the first command fills, the document
// from one with the packages; otherwise the commands are the same.
func TestTheReadmeInstallsAsTheDocumentDoes(t *testing.T) {
	for _, beginning := range []string{"sudo apt-get install ", "tar -xzf "} {
		want := commandsIn(t, "docs/packaging.md", beginning)
		for _, command := range commandsIn(t, "README.md", beginning) {
			if !slices.Contains(want, strings.Replace(command, "dist/", "", 1)) {
				t.Errorf("the README has %q, the document %q", command, want)
			}
		}
	}
}

// checkDocument runs, in a directory with the packages, what the document says of them
// to those who do not install the Debian package.
func (p packages) checkDocument(t *testing.T) {
	dir := t.TempDir()
	command(t, "cp", "-r", p.dir+"/.", dir)
	for _, beginning := range []string{"sha256sum ", "tar ", "./felixd_", "man -l ", "felixd version ", "felixd completion "} {
		t.Run(beginning, func(t *testing.T) {
			if beginning == "man -l " {
				if _, err := exec.LookPath("man"); err != nil {
					t.Skip("man is not installed")
				}
			}
			for _, line := range commandsIn(t, "docs/packaging.md", beginning) {
				shell := exec.CommandContext(t.Context(), "sh", "-eu", "-c", line)
				shell.Dir = dir
				shell.Env = append(os.Environ(), "PATH="+filepath.Dir(p.program)+":"+os.Getenv("PATH"))
				if out, err := output(shell); err != nil || len(out) == 0 && beginning != "tar " {
					t.Errorf("%s: %v\n%s", line, err, out)
				}
			}
		})
	}
}
