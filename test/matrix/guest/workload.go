package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"felix.local/felix/test/matrix/plan"
)

// writeRun is one "felixd log write".
type writeRun struct {
	dir                     string
	records, batch, payload int
	segmentBytes            int
	fsync                   string
}

// writeRuns fill a directory for each mode, with batches and records of several sizes, and
// roll segments many times. There are few of them: under emulation a start of felixd takes
// seconds. All records of a directory have one length, which is how "felixd log verify"
// knows them.
func writeRuns() []writeRun {
	return []writeRun{
		{"on_commit", 200, 7, 128, 4096, "on_commit"},
		{"on_commit", 60, 1, 128, 8192, "on_commit"},
		{"none", 300, 16, 700, 32768, "none"},
		{"periodic", 200, 1, 34, 4096, "periodic"},
	}
}

// workload is the mode "workload": it writes with felixd and with the engine itself,
// verifies, and prints what it wrote.
func workload(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errors.New("workload takes the path of felixd and a directory")
	}
	felixd, dir := args[0], args[1]
	out := plan.Written{Digests: make(map[string]string), Missing: make(map[string]string)}
	if err := writeLogs(ctx, felixd, filepath.Join(dir, "logs"), &out); err != nil {
		return err
	}
	if err := writeStores(ctx, dir, &out); err != nil {
		return err
	}
	slices.Sort(out.Backends)
	out.Backends = slices.Compact(out.Backends)
	return json.NewEncoder(os.Stdout).Encode(out)
}

// writeLogs runs felixd, and has it verify some of what it wrote.
func writeLogs(ctx context.Context, felixd, dir string, out *plan.Written) error {
	for _, w := range writeRuns() {
		if err := w.write(ctx, felixd, dir, out); err != nil {
			return err
		}
	}
	if err := verifyLog(ctx, felixd, dir, writeRuns()[0].dir); err != nil {
		return err
	}
	t := newTree()
	if err := t.add(dir, nothing, withoutTimes); err != nil {
		return err
	}
	out.Digests["felixd log write"] = t.digest()
	out.Files, out.Bytes = out.Files+t.files, out.Bytes+t.bytes
	return nil
}

func (w writeRun) write(ctx context.Context, felixd, dir string, out *plan.Written) error {
	args := []string{
		"log", "write", "--json", "--clean-shutdown", "--dir", filepath.Join(dir, w.dir),
		"--records", strconv.Itoa(w.records), "--batch", strconv.Itoa(w.batch), "--payload-bytes", strconv.Itoa(w.payload),
		"--segment-bytes", strconv.Itoa(w.segmentBytes), "--fsync", w.fsync,
	}
	if w.fsync == "periodic" {
		args = append(args, "--fsync-interval-ms", "3")
	}
	if err := os.MkdirAll(filepath.Join(dir, w.dir), 0o755); err != nil {
		return err
	}
	said, err := run(ctx, felixd, args...)
	if err != nil {
		return err
	}
	backend, err := backendIn(said)
	out.Backends = append(out.Backends, backend)
	return err
}

// verifyLog has felixd read every record of one of the directories.
func verifyLog(ctx context.Context, felixd, dir, name string) error {
	records, payload := 0, 0
	for _, w := range writeRuns() {
		if w.dir == name {
			records, payload = records+w.records, w.payload
		}
	}
	said, err := run(ctx, felixd, "log", "verify", "--json", "--dir", filepath.Join(dir, name),
		"--payload-bytes", strconv.Itoa(payload), "--expect-at-least", strconv.Itoa(records))
	if err != nil {
		return err
	}
	if want := fmt.Sprintf(`"records":%d,`, records); !strings.Contains(said, want) {
		return fmt.Errorf("felixd log verify of %s: %s, want %s", name, said, want)
	}
	return nil
}

// backendIn finds in felixd's output which backend carried the run.
func backendIn(said string) (string, error) {
	for line := range strings.Lines(said) {
		var opened struct{ Event, Backend string }
		if err := json.Unmarshal([]byte(line), &opened); err == nil && opened.Event == "opened" {
			name, _, _ := strings.Cut(opened.Backend, "/") // the driver is behind
			return name, nil
		}
	}
	return "", fmt.Errorf("felixd does not say which backend it took: %s", said)
}

// run runs a program and returns what it said.
func run(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", filepath.Base(program), strings.Join(args, " "), err, strings.TrimSpace(complaints.String()))
	}
	return out.String(), nil
}
