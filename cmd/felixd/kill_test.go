package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"felix.local/felix/bench"
	"felix.local/felix/engine"
)

// killCycles is how often a writer is killed per fsync mode and backend.
func killCycles() int {
	if os.Getenv("FELIX_LONG_TESTS") == "1" {
		return 50
	}
	return 5
}

// TestAKilledWriterLosesNothingAcknowledged kills a writer again and again on one
// log. A kill leaves the page cache alone, so nothing acknowledged may be lost in
// any mode; after each, the log is a whole, verified prefix, and opening it again
// changes no byte.
func TestAKilledWriterLosesNothingAcknowledged(t *testing.T) {
	for backend, setting := range backends() {
		for _, mode := range []string{"none", "periodic", "on_commit"} {
			t.Run(backend+" "+mode, func(t *testing.T) {
				t.Parallel()
				killLoop(t, setting, mode)
			})
		}
	}
}

func killLoop(t *testing.T, ioURing, mode string) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := filepath.Join(t.TempDir(), "log")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for cycle := range killCycles() {
		stderr := new(bytes.Buffer)
		v := victim{
			program: self, acks: 1 + random.IntN(150), stderr: stderr,
			env: append(os.Environ(), "FELIX_STORAGE_IO_URING="+ioURing),
			flags: []string{
				"--dir", dir, "--fsync", mode, "--fsync-interval-ms", "5", "--segment-bytes", "50000",
				"--batch", fmt.Sprint(1 + random.IntN(12)),
				"--rollover-threshold-percent", []string{"100", "70"}[random.IntN(2)],
			},
		}
		acked, err := v.run(t.Context())
		if err != nil {
			t.Fatalf("cycle %d: %v\n%s", cycle, err, stderr)
		}
		checkPrefix(t, cycle, dir, ioURing, acked)
		checkUnchanged(t, cycle, dir, ioURing)
		if t.Failed() {
			return
		}
	}
}

// open opens the log as any program would.
func open(t *testing.T, dir, ioURing string) (*engine.Store, *engine.Log) {
	t.Helper()
	config, err := engine.ParseConfig(map[string]string{
		"FELIX_STORAGE_IO_URING": ioURing, "FELIX_DURABLE_FSYNC_MODE": "on_commit", "FELIX_DURABLE_SEGMENT_BYTES": "50000",
	})
	if err != nil {
		t.Fatal(err)
	}
	config.Logger = slog.New(slog.DiscardHandler)
	store, log, err := engine.OpenSingle(t.Context(), dir, logLabel, config)
	if err != nil {
		t.Fatal(err)
	}
	return store, log
}

func closeStore(t *testing.T, store *engine.Store) {
	t.Helper()
	if err := store.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}

func checkPrefix(t *testing.T, cycle int, dir, ioURing string, acked uint64) {
	t.Helper()
	store, log := open(t, dir, ioURing)
	defer closeStore(t, store)
	a := &app{ctx: t.Context()}
	read := uint64(0)
	err := records(a, log, func(offset uint64, payload []byte) error {
		read++
		return bench.CheckPayload(payload, offset, 128)
	})
	if err != nil || log.BaseOffset() != 0 || read != log.TailOffset() {
		t.Errorf("cycle %d: base %d, tail %d, %d records verified: %v", cycle, log.BaseOffset(), log.TailOffset(), read, err)
	}
	if log.TailOffset() <= acked {
		t.Errorf("cycle %d: offset %d was acknowledged, the tail is %d", cycle, acked, log.TailOffset())
	}
}

func checkUnchanged(t *testing.T, cycle int, dir, ioURing string) {
	t.Helper()
	before, err := directoryDigest(dir)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		store, _ := open(t, dir, ioURing)
		closeStore(t, store)
		after, err := directoryDigest(dir)
		if err != nil {
			t.Fatal(err)
		}
		if after != before {
			t.Errorf("cycle %d: opening the recovered log again changed it", cycle)
		}
	}
}

// writer starts an endless writer and returns once its log is open.
func writer(t *testing.T, dir string, flags ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), self)
	child.Args = append([]string{"felixd", "log", "write", "--dir", dir, "--json"}, flags...)
	events, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(events)
	if !lines.Scan() || !strings.Contains(lines.Text(), `"opened"`) {
		t.Fatalf("the writer began with %q", lines.Text())
	}
	return child, lines
}

func TestALogInUseHasItsOwnExitCode(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	child, _ := writer(t, dir)
	defer func() { _, _ = child.Process.Kill(), child.Wait() }()

	var stdout, stderr bytes.Buffer
	if code := run([]string{"log", "verify", "--dir", dir}, &stdout, &stderr); code != exitLocked {
		t.Errorf("verify exits %d, want %d", code, exitLocked)
	}
	if want := fmt.Sprintf("locked by process %d", child.Process.Pid); !strings.Contains(stderr.String(), want) {
		t.Errorf("%q does not say %q", stderr.String(), want)
	}
	stderr.Reset()
	if code := run([]string{"log", "inspect", dir}, &stdout, &stderr); code != exitOK && code != exitRepairs {
		t.Errorf("inspect exits %d", code)
	}
	if !strings.Contains(stderr.String(), "warning: ") {
		t.Errorf("inspect does not warn that the log is in use: %q", stderr.String())
	}
}

func TestAnInterruptedEndlessWriterEndsInOrder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	child, lines := writer(t, dir, "--report-acks", "--clean-shutdown")
	if !lines.Scan() {
		t.Fatal("no acknowledgement")
	}
	if err := child.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var last struct {
		Event string `json:"event"`
		doneEvent
	}
	for lines.Scan() {
		if err := json.Unmarshal(lines.Bytes(), &last); err != nil {
			t.Fatal(err)
		}
	}
	if err := child.Wait(); err != nil {
		t.Errorf("the writer failed: %v", err)
	}
	if last.Event != "done" || last.TailOffset == 0 {
		t.Errorf("the last event is %+v", last)
	}
}
