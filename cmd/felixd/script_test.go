package main

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes the test binary the tool too: called by the name felixd, it is felixd,
// under a filter of system calls if it is told one.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"felixd": underFilter})
}

// backends are the values of FELIX_STORAGE_IO_URING everything is tried with. On
// a machine without io_uring both mean the pool.
func backends() map[string]string { return map[string]string{"ring": "1", "pool": "0"} }

func TestScripts(t *testing.T) {
	for name, setting := range backends() {
		t.Run(name, func(t *testing.T) {
			testscript.Run(t, testscript.Params{
				Dir:                 "testdata/script",
				RequireExplicitExec: true,
				Setup: func(env *testscript.Env) error {
					env.Setenv("FELIX_STORAGE_IO_URING", setting)
					env.Setenv("TMPDIR", env.WorkDir)
					return nil
				},
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"exits":    scriptExits,
					"patch":    scriptPatch,
					"resize":   scriptResize,
					"event":    scriptEvent,
					"lines":    scriptLines,
					"samedirs": scriptSameDirs,
				},
			})
		})
	}
}

// scriptExits runs a command and wants exactly this exit code:
//
//	exits 7 felixd log inspect dir
func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code command [args...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var ended *exec.ExitError
		if !errors.As(err, &ended) {
			ts.Fatalf("%v", err)
		}
		code = ended.ExitCode()
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}

// scriptPatch overwrites bytes, at a position from the end when negative:
//
//	patch file -4 deadbeef
func scriptPatch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: patch file position hex")
	}
	path := ts.MkAbs(args[0])
	data, err := os.ReadFile(path)
	ts.Check(err)
	at, err := strconv.Atoi(args[1])
	ts.Check(err)
	if at < 0 {
		at += len(data)
	}
	patch, err := hex.DecodeString(args[2])
	ts.Check(err)
	copy(data[at:at+len(patch)], patch)
	ts.Check(os.WriteFile(path, data, 0o640))
}

// scriptResize cuts bytes off a file, or adds zeros:
//
//	resize file -5
func scriptResize(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: resize file bytes-more-or-less")
	}
	by, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), info.Size()+by))
}

// scriptEvent wants an event on standard output with exactly these fields; a
// field may demand a value:
//
//	event done durable_offset tail_offset=100
func scriptEvent(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: event kind [field[=value]...]")
	}
	var reasons []string
	for line := range strings.Lines(ts.ReadFile("stdout")) {
		var fields map[string]json.RawMessage
		ts.Check(json.Unmarshal([]byte(line), &fields))
		if string(fields["event"]) != strconv.Quote(args[0]) {
			continue
		}
		delete(fields, "event")
		reason := mismatch(fields, args[1:])
		if reason == "" {
			if neg {
				ts.Fatalf("there is such an event: %s", line)
			}
			return
		}
		reasons = append(reasons, reason)
	}
	if !neg {
		ts.Fatalf("no such event; those of this kind: %s", strings.Join(reasons, "; "))
	}
}

func mismatch(fields map[string]json.RawMessage, want []string) string {
	names := make([]string, 0, len(want))
	for _, w := range want {
		name, value, valued := strings.Cut(w, "=")
		names = append(names, name)
		if got := strings.Trim(string(fields[name]), `"`); valued && got != value {
			return name + " is " + got + ", not " + value
		}
	}
	slices.Sort(names)
	if got := slices.Sorted(maps.Keys(fields)); !slices.Equal(got, names) {
		return "fields are " + strings.Join(got, " ")
	}
	return ""
}

// scriptLines wants this many lines in a file, "stdout" or "stderr":
//
//	lines stderr 1
func scriptLines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: lines file number")
	}
	text := ts.ReadFile(args[0])
	if got := strings.Count(text, "\n"); strconv.Itoa(got) != args[1] {
		ts.Fatalf("%d lines, want %s:\n%s", got, args[1], text)
	}
}

// scriptSameDirs wants two directories to hold the same.
func scriptSameDirs(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: samedirs a b")
	}
	a, err := directoryDigest(ts.MkAbs(args[0]))
	ts.Check(err)
	b, err := directoryDigest(ts.MkAbs(args[1]))
	ts.Check(err)
	if (a == b) == neg {
		ts.Fatalf("same: %v", a == b)
	}
}
