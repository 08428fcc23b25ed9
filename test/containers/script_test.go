package containers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// runScript runs test/docker.sh with a path that has what the script needs, and programs
// that the test gives as shell scripts, but no engine.
func runScript(t *testing.T, programs map[string]string, args ...string) (out string, err error) {
	t.Helper()
	tools := t.TempDir()
	link := func(name string) string {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skip("the script needs a program:", err)
		}
		if err := os.Symlink(path, filepath.Join(tools, name)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	bash := link("bash")
	for _, name := range []string{"awk", "cat", "cp", "dirname", "grep", "head", "id", "mkdir", "mktemp", "nproc", "rm", "sed", "seq", "sleep", "sort", "tail", "timeout", "uname", "xargs"} {
		if programs[name] == "" {
			link(name)
		}
	}
	for name, script := range programs {
		if err := os.WriteFile(filepath.Join(tools, name), []byte("#!"+bash+"\n"+script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	work := t.TempDir()
	cmd := exec.CommandContext(t.Context(), bash, append([]string{filepath.Join(root, "test", "docker.sh")}, args...)...)
	cmd.Env = []string{"PATH=" + tools, "TMPDIR=" + work}
	text, err := cmd.CombinedOutput()
	if left, globErr := filepath.Glob(filepath.Join(work, "*")); globErr != nil || len(left) > 0 {
		t.Errorf("the script leaves %v, %v", left, globErr)
	}
	return string(text), err
}

func TestTheScriptForRealContainersSaysWhyItSkips(t *testing.T) {
	const (
		silent = "echo Client:; echo 'no daemon answers' >&2; echo 'errors pretty printing info'; exit 1"
		user   = "echo 1000"
	)
	for name, c := range map[string]struct {
		programs map[string]string
		args     []string
		reason   string
	}{
		"no engine":                {nil, nil, "docker: command not found; podman info: "},
		"no engine answers":        {map[string]string{"docker": silent}, nil, "(docker info: no daemon answers; podman info: "},
		"how one is started":       {nil, nil, "); test/docker.sh --start starts one as root where dockerd is installed"},
		"no dockerd to start":      {map[string]string{"docker": silent}, []string{"--start"}, "); dockerd is not installed"},
		"no client":                {map[string]string{"dockerd": "exit 1"}, []string{"--start"}, "); docker is not installed"},
		"an ordinary user's start": {map[string]string{"docker": silent, "dockerd": "exit 1", "id": user}, []string{"--start"}, "); only root starts dockerd"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := runScript(t, c.programs, c.args...)
			if err != nil || !strings.HasPrefix(out, "skipped: no container engine runs here (docker info: ") || !strings.Contains(out, c.reason) {
				t.Errorf("%v: %s\nwant %s", err, out, c.reason)
			}
		})
	}
}

func TestAnEngineThatIsToBeStartedAndDoesNotStartIsAFailure(t *testing.T) {
	out, err := runScript(t, map[string]string{
		"docker": "exit 1", "id": "echo 0", "podman": "exit 0",
		"dockerd": "echo 'failed to mount overlay' >&2; exit 1",
	}, "--start")
	if err == nil || strings.Contains(out, "skipped") || !strings.Contains(out, "FAILED dockerd starts") || !strings.Contains(out, "failed to mount overlay") {
		t.Errorf("%v: %s", err, out)
	}
}

// An engine that is killed can leave a mount behind, and below it what is not the
// script's.
func TestTheScriptEmptiesNothingThatIsMounted(t *testing.T) {
	calls := filepath.Join(t.TempDir(), "calls")
	rm, err := exec.LookPath("rm")
	if err != nil {
		t.Skip("the script needs a program:", err)
	}
	if out, err := runScript(t, map[string]string{"rm": `echo "$*" >>` + calls + "; exec " + rm + ` "$@"`}); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(calls)
	if err != nil || strings.Count(string(text), "\n") != 1 || !strings.HasPrefix(string(text), "-rf --one-file-system ") {
		t.Errorf("it calls rm %s, %v", text, err)
	}
}

// The engine is the user's: what is in it besides stays.
func TestTheScriptRemovesWhatItMadeInTheEngineAndNothingElse(t *testing.T) {
	calls := filepath.Join(t.TempDir(), "calls")
	// It knows of the test's container alone, builds, and runs nothing.
	engine := `echo "$*" >>` + calls + `
case $1 in
buildx | run) exit 1 ;;
ps) echo c0ffee ;;
volume) [ "$2" != ls ] || echo felix-docker-test-data-of-mine ;;
esac
`
	program := filepath.Join(t.TempDir(), "felixd")
	if err := os.WriteFile(program, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args    []string
		removed string
	}{
		"what it built":      {[]string{"--binary", program}, "image rm felix-docker-test felix-docker-test:build"},
		"a name of its own":  {[]string{"--image", "felix"}, "image rm felix-docker-test"},
		"no image of a user": {[]string{"--image", "felix-docker-test"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.RemoveAll(calls); err != nil {
				t.Fatal(err)
			}
			if out, err := runScript(t, map[string]string{"docker": engine}, c.args...); err == nil {
				t.Errorf("an engine that runs nothing is enough: %s", out)
			}
			text, err := os.ReadFile(calls)
			if err != nil {
				t.Fatal(err)
			}
			removed := ""
			for line := range strings.Lines(string(text)) {
				if strings.Contains(line, "rm ") && !strings.Contains(line, "run ") {
					removed += line
				}
			}
			want := "rm -f -v c0ffee\nvolume rm -f felix-docker-test-data\n"
			if c.removed != "" {
				want += c.removed + "\n"
			}
			if removed != want {
				t.Errorf("removed:\n%s\nwant:\n%s", removed, want)
			}
		})
	}
}
