package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// allCommand runs everything there is, and writes one page.
type allCommand struct {
	Cache    string `name:"cache" default:".cache/matrix" type:"path" help:"where kernels are kept."`
	Work     string `name:"work" type:"path" placeholder:"DIR" help:"where disks, logs and the host's data go. Default: the directory for temporary files."`
	Markdown string `name:"markdown" required:"" type:"path" placeholder:"FILE" help:"write a section for each part; the file is there after the first one."`
}

// part is a program of the whole run, and its section.
type part struct {
	heading string
	argv    []string
	// variable names the one of the environment that tells the program where to write its
	// section, as Markdown. Where it is empty argv tells that, or the section is what the
	// program prints.
	variable string
	// shown is the command as the section names it; empty where the program does.
	shown string
	// file is where the program writes its section; empty where it prints it.
	file string
}

// Run runs the parts one after the other, and fails when one has failed.
func (c *allCommand) Run(ctx context.Context) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(c.Work, "felix-matrix-all-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return page{root: root, file: c.Markdown, revision: revision(ctx)}.run(ctx, c.parts(self, dir))
}

// parts are those of a whole run, in the order of the page.
func (c *allCommand) parts(self, dir string) []part {
	own := func(heading, command string, flags ...string) part {
		file := filepath.Join(dir, command)
		argv := []string{self, command, "--cache", c.Cache, "--markdown", file}
		if c.Work != "" {
			argv = append(argv, "--work", c.Work)
		}
		return part{heading: heading, argv: append(argv, flags...), file: file}
	}
	tests := []string{"go", "test", "-count=1", "-timeout=1h", "./test/filesystems"}
	containers := []string{"test/docker.sh", "--start"}
	const variable = "FELIX_FS_REPORT"
	return []part{
		own("Kernels and denials", "kernels"),
		own("Power cuts of a machine", "powercut"),
		own("Disks that fail", "diskerror"),
		{
			heading: "Filesystems", argv: tests, variable: variable, shown: variable + "=FILE " + strings.Join(tests, " "),
			file: filepath.Join(dir, "tests"),
		},
		own("Quotas, in a guest", "filesystems"),
		{heading: "Containers", argv: containers, shown: strings.Join(containers, " ")},
	}
}

// moduleRoot is the directory of the module's tree.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// page is the file that sections go to.
type page struct {
	// root is where programs run, file the path of the page.
	root, file, revision string
}

// run runs the parts, whatever becomes of those before, until ctx ends. The page is
// written after each: a whole run takes long, and may be interrupted.
func (p page) run(ctx context.Context, parts []part) error {
	var text strings.Builder
	var failed []string
	for i, one := range parts {
		say("part %d of %d: %s", i+1, len(parts), one.heading)
		section, err := p.section(ctx, one)
		if err != nil {
			say("FAILED: %s: %v", one.heading, err)
			failed = append(failed, one.heading)
		}
		if i > 0 {
			text.WriteString("\n")
		}
		fmt.Fprintf(&text, "## %s\n\n%s", one.heading, section)
		if err := os.WriteFile(p.file, []byte(text.String()), 0o644); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%d of %d parts were begun: %w", i+1, len(parts), context.Cause(ctx))
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d parts failed: %s", len(failed), len(parts), strings.Join(failed, "; "))
	}
	return nil
}

// partEnd is how long a part may take to end once it was asked to: a machine's sysctls are
// put back in restoreTime.
const partEnd = restoreTime + 10*time.Second

// section runs a part and makes its section of what it says. The error is the part's, and
// is in the section too.
func (p page) section(ctx context.Context, one part) (string, error) {
	cmd := exec.CommandContext(ctx, one.argv[0], one.argv[1:]...)
	cmd.Dir = p.root
	// A group of its own: go test and a shell end without asking their children to.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = partEnd
	if one.variable != "" {
		cmd.Env = append(os.Environ(), one.variable+"="+one.file)
	}
	var printed bytes.Buffer
	both := io.MultiWriter(os.Stderr, &printed)
	cmd.Stdout, cmd.Stderr = both, both
	err := cmd.Run()

	var text strings.Builder
	if one.shown != "" {
		fmt.Fprintf(&text, "%s, Linux %s, `%s`, revision %s.\n\n", time.Now().UTC().Format(time.DateOnly), hostRelease(), one.shown, p.revision)
	}
	if one.file == "" {
		text.WriteString(indented(printed.String()))
	} else {
		written, unread := os.ReadFile(one.file)
		if err == nil && (unread != nil || len(written) == 0) {
			err = errors.Join(errors.New("it has written no section"), unread)
		}
		text.WriteString(nested(string(written)))
	}
	if err != nil {
		fmt.Fprintf(&text, "\n**Failed:** %v\n", err)
		if one.file != "" {
			text.WriteString("\n" + indented(lastLines(printed.String(), linesShown)))
		}
	}
	return text.String(), err
}

// nested makes a section's body of what a program wrote. A document of its own, which
// begins with a title, loses all that is above its first section; sections go a level
// down.
func nested(document string) string {
	if strings.HasPrefix(document, "# ") {
		_, rest, _ := strings.Cut(document, "\n## ")
		if rest != "" {
			rest = "## " + rest
		}
		document = rest
	}
	var b strings.Builder
	for line := range strings.Lines(document) {
		if strings.HasPrefix(line, "## ") {
			b.WriteString("#")
		}
		b.WriteString(line)
	}
	return b.String()
}

// linesShown is how much of what a part printed is in its section when it failed.
const linesShown = 20

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// indented shows text as it is, indented, which no text can end.
func indented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimSpace(text)) {
		b.WriteString("    " + strings.TrimRight(line, "\n") + "\n")
	}
	return b.String()
}
