package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// stub is a part that runs a line of shell.
func stub(heading, script, file string) part {
	return part{heading: heading, argv: []string{"/bin/sh", "-c", script, file}, file: file}
}

func TestAWholeRunGoesOnAfterAPartThatFailsAndFails(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	tests := stub("Filesystems", `printf '# F\n\nhead\n\n## Table\n\n| a |\n' > "$REPORT"`, file("tests"))
	tests.variable, tests.shown = "REPORT", "go test"
	containers := part{heading: "Containers", argv: []string{"/bin/sh", "-c", "pwd; echo ok, seen >&2"}, shown: "docker.sh"}
	p := page{root: dir, file: file("page"), revision: "0123456789ab"}
	err := p.run(t.Context(), []part{
		stub("Kernels", `echo '| k |' > "$0"; echo saying what`, file("kernels")),
		stub("Cuts", `printf '### Cuts\n\n| c |\n' > "$0"; echo complaint; exit 1`, file("cuts")),
		stub("Disks", `exit 0`, file("disks")),
		tests,
		containers,
	})
	if err == nil || err.Error() != "2 of 5 parts failed: Cuts; Disks" {
		t.Errorf("got %v", err)
	}
	text := read(t, p.file)
	at := 0
	for _, want := range []string{
		"## Kernels\n\n| k |\n\n## Cuts\n\n### Cuts\n\n| c |\n",
		"\n**Failed:** exit status 1\n\n    complaint\n\n## Disks\n\n\n**Failed:** it has written no section\n",
		"## Filesystems\n\n", ", `go test`, revision 0123456789ab.\n\n### Table\n\n| a |\n\n## Containers\n\n",
		", `docker.sh`, revision 0123456789ab.\n\n    " + dir + "\n    ok, seen\n",
	} {
		found := strings.Index(text[at:], want)
		if found < 0 {
			t.Fatalf("%q is not in\n%s", want, text[at:])
		}
		at += found + len(want)
	}
	if strings.Contains(text, "saying what") || strings.Contains(text, "head") {
		t.Errorf("what no section is for is in\n%s", text)
	}
}

func TestAWholeRunOfWhichAllPassesPasses(t *testing.T) {
	p := page{root: t.TempDir(), file: filepath.Join(t.TempDir(), "page")}
	if err := p.run(t.Context(), []part{{heading: "A", argv: []string{"/bin/echo", "one"}}}); err != nil {
		t.Error(err)
	}
	if got := read(t, p.file); got != "## A\n\n    one\n" {
		t.Errorf("got %q", got)
	}
}

func TestAnInterruptEndsAWholeRunAndLeavesWhatThereIs(t *testing.T) {
	p := page{root: t.TempDir(), file: filepath.Join(t.TempDir(), "page")}
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	never := filepath.Join(p.root, "never")
	err := p.run(ctx, []part{{heading: "A", argv: []string{"/bin/echo"}}, {heading: "B", argv: []string{"/usr/bin/touch", never}}})
	if err == nil || !strings.Contains(err.Error(), "1 of 2 parts were begun") {
		t.Errorf("got %v", err)
	}
	if got := read(t, p.file); !strings.HasPrefix(got, "## A\n") || strings.Contains(got, "## B") {
		t.Errorf("got %q", got)
	}
}

func TestAnInterruptReachesTheChildrenOfAPart(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	child := make(chan int, 1)
	go func() {
		defer interrupt()
		b, _ := os.ReadFile(fifo) // returns when the part has got that far
		pid, _ := strconv.Atoi(strings.TrimSpace(string(b)))
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Errorf("process %d: %v", pid, err)
		}
		child <- fd
	}()
	p := page{root: dir, file: filepath.Join(dir, "page")}
	if err := p.run(ctx, []part{{heading: "A", argv: []string{"/bin/sh", "-c", `sleep 300 & echo $! > "$0"; wait`, fifo}}}); err == nil {
		t.Error("an interrupted run passes")
	}
	fd := <-child
	defer unix.Close(fd)
	// It can be read once the process has ended.
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 5000); n != 1 {
		t.Errorf("the child is alive: %v", err)
	}
}

func TestAWholeRunHasASectionForEachPart(t *testing.T) {
	parts := (&allCommand{Cache: "/cache", Work: "/work"}).parts("/self", "/dir")
	var headings []string
	for _, one := range parts {
		headings = append(headings, one.heading)
	}
	want := []string{"Kernels and denials", "Power cuts of a machine", "Disks that fail", "Filesystems", "Quotas, in a guest", "Containers"}
	if !slices.Equal(headings, want) {
		t.Errorf("got %q", headings)
	}
	for i, command := range map[int]string{0: "kernels", 1: "powercut", 2: "diskerror", 4: "filesystems"} {
		if got := strings.Join(parts[i].argv, " "); got != "/self "+command+" --cache /cache --markdown /dir/"+command+" --work /work" {
			t.Errorf("got %s", got)
		}
	}
}

func TestACommandIsNamedWithoutWhereItsFilesGo(t *testing.T) {
	got := commandOf([]string{"powercut", "--cache", "/c", "--cuts", "3", "--markdown=/m", "--json", "/j", "--keep", "--work", "/w", "--lie"})
	if want := "go run ./test/matrix powercut --cuts 3 --lie"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
