package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// withoutHistory is the last commit's files alone, as in an archive of the source.
func withoutHistory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", `git -C .. archive HEAD | tar -x -C "$1"`, "sh", dir).CombinedOutput(); err != nil {
		t.Skipf("the source has no history here: %s", out)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Skip("the source has no history here: ", err)
	}
	return dir
}

func TestASourceWithoutHistoryNeedsItsVersionAndTime(t *testing.T) {
	source := withoutHistory(t)
	t.Setenv("SOURCE_DATE_EPOCH", "")
	for _, version := range []string{"", "1.2.3"} {
		o := options{source: source, version: version}
		if _, err := compile(t.Context(), o, runtime.GOARCH, t.TempDir()); err == nil || !strings.Contains(err.Error(), "give --version, and SOURCE_DATE_EPOCH") {
			t.Errorf("version %q and no time: %v", version, err)
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1000000000")
	p, err := compile(t.Context(), options{source: source, version: "1.2.3"}, runtime.GOARCH, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if p.version != "1.2.3" || !p.time.Equal(time.Unix(1000000000, 0)) {
		t.Errorf("version %s of %v", p.version, p.time)
	}
	if said := command(t, p.path, "version", "--json"); !strings.Contains(said, `"version":"1.2.3"`) || !strings.Contains(said, `"revision":"unknown"`) {
		t.Errorf("felixd says %s", said)
	}
}

func TestATimeThatIsNoneIsAMistake(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "yesterday")
	if _, err := describe(self, runtime.GOARCH, "1.2.3"); err == nil || !strings.Contains(err.Error(), "SOURCE_DATE_EPOCH") {
		t.Errorf("%v", err)
	}
}

func TestTheCallersEnvironmentChoosesNoTargetAndNoFlags(t *testing.T) {
	t.Setenv("GOFLAGS", "-buildvcs=false -race")
	t.Setenv("GOOS", "plan9")
	t.Setenv("CGO_ENABLED", "1")
	got := strings.Join(goCommand(t.Context(), t.TempDir(), "arm64", "version").Env, "\n") + "\n"
	for _, want := range []string{"GOOS=linux\n", "GOARCH=arm64\n", "CGO_ENABLED=0\n"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("%q is not in the environment once:\n%s", want, got)
		}
	}
	for _, not := range []string{"GOFLAGS", "plan9", "CGO_ENABLED=1"} {
		if strings.Contains(got, not) {
			t.Errorf("%s is in the environment", not)
		}
	}
}
