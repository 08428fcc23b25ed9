package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"felix.local/felix/test/matrix/vm"
)

// standIns puts programs on the path, and nothing else: each is a shell script.
func standIns(t *testing.T, scripts map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
}

// noArchive is an apt that reaches nothing, and a compiler that builds nothing.
func noArchive() map[string]string {
	return map[string]string{"go": "exit 0", "apt-get": "exit 1", "apt-cache": "exit 1", "dpkg-deb": "exit 1", "depmod": "exit 1"}
}

func TestARunLeavesNoDirectoryThatIsNotNamed(t *testing.T) {
	broken := noArchive()
	broken["go"] = "echo does not compile; exit 1"
	for name, c := range map[string]struct {
		scripts map[string]string
		rows    []string
		want    string
	}{
		"a build that fails": {broken, []string{"6.12"}, "does not compile"},
		"an unknown row":     {noArchive(), []string{"2.6"}, `no row "2.6" is known`},
		"no kernel":          {noArchive(), []string{"6.12"}, "no kernel was run"},
	} {
		t.Run(name, func(t *testing.T) {
			standIns(t, c.scripts)
			f := crashFlags{Work: t.TempDir(), Cache: t.TempDir()}
			err := f.each(t.Context(), c.rows, func(vm.Kernel, string, string) error { return errors.New("it was run") }, func(string) {})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if left, err := os.ReadDir(f.Work); err != nil || len(left) != 0 {
				t.Errorf("%v is left behind, %v", left, err)
			}
		})
	}
}

func TestAnInterruptLeavesNoDirectory(t *testing.T) {
	standIns(t, noArchive())
	f := crashFlags{Work: t.TempDir(), Cache: t.TempDir()}
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	if err := f.each(ctx, []string{"6.12"}, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(f.Work); err != nil || len(left) != 0 {
		t.Errorf("%v is left behind, %v", left, err)
	}
}

func TestWhatIsSkippedIsSaidAndReported(t *testing.T) {
	said, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	before := os.Stderr
	os.Stderr = said
	defer func() { os.Stderr = before }()
	var skipped []string
	skipTo(&skipped)("kernel 7.0, disk virtio: it has no module")
	if len(skipped) != 1 || read(t, said.Name()) != "SKIPPED: kernel 7.0, disk virtio: it has no module\n" {
		t.Errorf("%q is reported, %q said", skipped, read(t, said.Name()))
	}
}

func TestAPowercutOfNothingIsAnError(t *testing.T) {
	c := powercutCommand{Row: []string{"7.0"}, Appends: 1}
	if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing is asked for") {
		t.Errorf("got %v", err)
	}
}
