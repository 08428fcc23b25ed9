package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"felix.local/felix/internal/seccomptest"
)

const profilePath = deployDir + "/seccomp-felixd.json"

// ringCalls are the calls of the profile that a runtime's own profile denies.
func ringCalls() []string { return []string{"io_uring_setup", "io_uring_enter", "io_uring_register"} }

// profileFile writes a variant of the profile in deploy and gives its path.
func profileFile(t *testing.T, change func(p seccomptest.Profile) seccomptest.Profile) string {
	t.Helper()
	p, err := seccomptest.ReadProfile(profilePath)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(change(p))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "profile.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// killing is the profile under which a call that it does not name ends the process, so
// that none goes unnoticed. What is delivered is linked statically; what loads the
// libraries of a test that is not may call what it likes.
func killing(p seccomptest.Profile) seccomptest.Profile {
	p.DefaultAction, p.DefaultErrno = seccomptest.Kill, 0
	p.Rules = append(p.Rules, seccomptest.Rule{Names: []string{"access"}, Action: seccomptest.Fail, Errno: uint16(syscall.ENOENT)})
	return p
}

// asDelivered is the profile as a container has it.
func asDelivered(p seccomptest.Profile) seccomptest.Profile { return p }

func withoutRing(p seccomptest.Profile) seccomptest.Profile { return p.Without(ringCalls()...) }

func TestTheDemoRunsOnTheRingUnderTheProfileInDeploy(t *testing.T) {
	needRing(t)
	for name, variant := range map[string]func(seccomptest.Profile) seccomptest.Profile{"as delivered": asDelivered, "with death for every other call": killing} {
		t.Run(name, func(t *testing.T) {
			stdout, _ := felixdUnder(t, profileFile(t, variant), "demo", "--dir", t.TempDir())
			if last := lastLine(stdout); !strings.Contains(last, `"failed":0`) || !strings.Contains(last, `"backend":"ring/`) {
				t.Errorf("the demo ends with %s", last)
			}
		})
	}
}

func TestTheDemoRunsOnThePoolUnderTheProfileWithoutTheRingsEntry(t *testing.T) {
	needRing(t)
	stdout, stderr := felixdUnder(t, profileFile(t, withoutRing), "demo", "--dir", t.TempDir())
	if last := lastLine(stdout); !strings.Contains(last, `"failed":0`) || !strings.Contains(last, `"backend":"pool"`) {
		t.Errorf("the demo ends with %s", last)
	}
	if !strings.Contains(stderr, "a seccomp filter forbids it: "+profileText) {
		t.Errorf("nobody is told what to change:\n%s", stderr)
	}
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// TestAServerDoesAllOfItsWorkUnderTheProfile goes through what a server is asked for, its
// profiles of itself among it. A call that the profile lacks ends it.
func TestAServerDoesAllOfItsWorkUnderTheProfile(t *testing.T) {
	needRing(t)
	dir := t.TempDir()
	profile := profileFile(t, killing)
	p, stderr := spawnFiltered(t, profile, "--dir", filepath.Join(dir, "data"), "--segment-bytes", "4096", "--retention-bytes", "20000",
		"--fsync", "on_commit", "--http-addr", "127.0.0.1:0", "--kafka-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0")
	if e := storageSaid(t, p); backendOf(e.Backend) != "ring" || e.Remedy != "" {
		t.Errorf("said %+v", e)
	}
	c := processClient(t, p)
	name := stream("orders")
	if _, err := c.create(t.Context(), name, definitionDocument{Durable: new(true), Shards: new(1), Format: "raw"}); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(100) {
		publishText(t, c, name, strings.Repeat("order", 200), i)
	}
	server, admin := "http://"+p.ready.HTTP, "http://"+p.ready.Admin
	felixdUnder(t, profile, "ready", "--admin", admin)
	felixdUnder(t, profile, "subscribe", name.String(), "--server", server, "--from", "90", "--count", "10", "--resume-file", filepath.Join(dir, "resume"))
	felixdUnder(t, profile, "backup", "--dir", filepath.Join(dir, "data"), "--to", filepath.Join(dir, "copy"))
	felixdUnder(t, profile, "restore", "--from", filepath.Join(dir, "copy"), "--dir", filepath.Join(dir, "restored"))
	felixdUnder(t, profile, "credentials", "add", "--file", filepath.Join(dir, "credentials"), "--name", "n", "--grant", "read:health",
		"--token-file", filepath.Join(dir, "token"))
	felixdUnder(t, profile, "bench", "run", "--dir", t.TempDir(), "--duration", "100ms", "--warmup", "10ms", "--through", "server", "--server", server, "--publishers", "4", "--logs", "2")
	felixdUnder(t, profile, "doctor", "--dir", t.TempDir(), "--samples", "4")
	for _, path := range []string{"/metrics", "/ready", "/debug/pprof/profile?seconds=1", "/debug/pprof/heap", "/debug/pprof/trace?seconds=1"} {
		if status := answered(t, admin+path); status != http.StatusOK {
			t.Errorf("%s answers %d", path, status)
		}
	}
	if err := p.child.Process.Signal(syscall.SIGHUP); err != nil {
		t.Error(err)
	}
	felixdUnder(t, profile, "streams", "delete", name.String(), "--server", server)
	if stopped, err := p.stop(); err != nil || !stopped.OK {
		t.Errorf("stopped %+v, %v\n%s", stopped, err, stderr)
	}
}

func answered(t *testing.T, url string) int {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Error(err)
	}
	return answer.StatusCode
}
