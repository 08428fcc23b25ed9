package containers

import (
	"bufio"
	"context"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// version is the build argument that the tests give.
const version = "1.2.3-containers"

// TestWhatTheDockerfileBuilds runs the file's own build command on a copy of the tree and
// tries what it made the way a container would.
func TestWhatTheDockerfileBuilds(t *testing.T) {
	d := readDockerfile(t)
	out := build(t, d)
	program := filepath.Join(out, "felixd")

	t.Run("is linked statically, so that an image without anything runs it", func(t *testing.T) { wantStatic(t, program) })
	t.Run("says the version of the build argument", func(t *testing.T) {
		said, err := exec.CommandContext(t.Context(), program, "version", "--json").Output()
		if err != nil || !strings.Contains(string(said), `"version":"`+version+`"`) {
			t.Errorf("%v: %s", err, said)
		}
	})
	t.Run("knows no path of the machine that built it", func(t *testing.T) {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(info.Settings, isTrimmed) {
			t.Errorf("it was built with %v", info.Settings)
		}
	})
	t.Run("is all that the image copies, with its data directory", func(t *testing.T) {
		for _, line := range d.image().all("COPY") {
			fields := strings.Fields(line)
			from := fields[len(fields)-2]
			if _, err := os.Stat(filepath.Join(out, strings.TrimPrefix(from, "/out"))); err != nil {
				t.Errorf("COPY %s: %v", line, err)
			}
		}
		if info, err := os.Stat(filepath.Join(out, "data")); err != nil || info.Mode().Perm() != 0o750 {
			t.Errorf("the data directory: %v, %v", info, err)
		}
	})
	t.Run("serves, is found healthy, and ends in order on SIGTERM", func(t *testing.T) { wantHealthy(t, d, program) })
}

func isTrimmed(s debug.BuildSetting) bool { return s.Key == "-trimpath" && s.Value == "true" }

// build gives the directory of what the command made.
func build(t *testing.T, d dockerfile) (out string) {
	t.Helper()
	commands := d.build().all("RUN")
	if len(commands) != 2 || commands[0] != "go mod download" || d.build().one(t, "WORKDIR") != "/src" {
		t.Fatalf("the stage that builds runs %q", commands)
	}
	dir := t.TempDir()
	source, out := filepath.Join(dir, "src"), filepath.Join(dir, "out")
	if err := os.Mkdir(out, 0o750); err != nil {
		t.Fatal(err)
	}
	copyTree(t, root, source)
	shell := exec.CommandContext(t.Context(), "sh", "-ec", strings.ReplaceAll(commands[1], "/out", out))
	shell.Dir = source
	shell.Env = append(os.Environ(), "VERSION="+version)
	if text, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", commands[1], err, text)
	}
	return out
}

// copyTree copies a tree without what .dockerignore leaves out of an image's source, and
// without its history.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	ignored := ignoredByDocker(t)
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		switch {
		case name == ".git" || ignored.has(name):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case entry.IsDir():
			return os.MkdirAll(target, 0o750)
		case !entry.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, text, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestACopyOfTheTreeHasNothingThatBuildsLeave(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	for _, name := range []string{"go.mod", "cmd/felixd/main.go", "felixd", "bin/felixd", "dist/felixd.deb", ".cache/kernel", ".git/HEAD", "device/device.test", "cpu.prof"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(from, name)), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(from, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	copyTree(t, from, to)
	var copied []string
	err := fs.WalkDir(os.DirFS(to), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			copied = append(copied, name)
		}
		return err
	})
	if want := []string{"cmd/felixd/main.go", "go.mod"}; err != nil || !slices.Equal(copied, want) {
		t.Errorf("%v is copied, want %v: %v", copied, want, err)
	}
}

// wantStatic holds that a program asks for no loader and no library.
func wantStatic(t *testing.T, program string) {
	t.Helper()
	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("it has a segment %v", p.Type)
		}
	}
	if section := file.Section(".dynamic"); section != nil {
		t.Error("it has a dynamic section")
	}
	if file.Section(".symtab") != nil {
		t.Error("it has symbols, which nothing uses and which cost space")
	}
}

// wantHealthy starts what the image starts, with other addresses, and asks what its health
// check asks.
func wantHealthy(t *testing.T, d dockerfile, program string) {
	t.Helper()
	start := append(words(t, d.image().one(t, "ENTRYPOINT")), words(t, d.image().one(t, "CMD"))...)
	check := d.health(t)
	for _, command := range [][]string{start, check.command} {
		if command[0] != "/usr/local/bin/felixd" {
			t.Fatalf("%v is not what the image holds", command)
		}
	}
	if check.options["start-period"] == "" || check.options["timeout"] == "" || check.options["interval"] == "" {
		t.Errorf("the health check has only the options %v", check.options)
	}
	data := t.TempDir()
	server := exec.CommandContext(t.Context(), program, start[1:]...)
	server.Dir = data
	server.Env = append(os.Environ(), "FELIX_HTTP_ADDR=127.0.0.1:0", "FELIX_KAFKA_ADDR=off", "FELIX_ADMIN_ADDR=127.0.0.1:0")
	for name, value := range d.environment(t) {
		server.Env = append(server.Env, name+"="+strings.ReplaceAll(value, "/data", data))
	}
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	events := bufio.NewScanner(stdout)
	ready := next(t, events, "ready")
	healthy := func(admin string) error {
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, check.command[1:]...)
		cmd.Env = append(os.Environ(), "FELIX_ADMIN="+admin)
		return cmd.Run()
	}
	if err := healthy("http://" + ready.Admin); err != nil {
		t.Errorf("a server that is ready is found unhealthy: %v", err)
	}
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if stopped := next(t, events, "stopped"); !stopped.OK {
		t.Errorf("it left something: %+v", stopped)
	}
	if err := server.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if healthy("http://"+ready.Admin) == nil {
		t.Error("a server that is gone is found healthy")
	}
}

// event is what the tests want from the lines that a server prints.
type event struct {
	Event string `json:"event"`
	Admin string `json:"admin"`
	OK    bool   `json:"ok"`
}

// next reads on to an event.
func next(t *testing.T, lines *bufio.Scanner, kind string) (e event) {
	t.Helper()
	for lines.Scan() {
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%v: %s", err, lines.Bytes())
		}
		if e.Event == kind {
			return e
		}
	}
	t.Fatalf("the server ended without the event %s: %v", kind, lines.Err())
	return e
}
