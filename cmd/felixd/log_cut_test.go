package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is in use is neither cut nor restored into, a dry run included.
func TestADirectoryInUseIsNotCut(t *testing.T) {
	r := newBackupRig(t)
	l := r.open(0)
	r.append(l, 30)
	commands := [][]string{{"restore", "--from", copyOf(t, r.root), "--dir", r.root}}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(l.Dir(), link); err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"truncate", "reset", "restore"} {
		commands = append(commands, []string{"log", how, link, "--to", "10"})
		command := []string{"log", how, l.Dir(), "--to", "10"}
		commands = append(commands, command, append(command[:len(command):len(command)], "--dry-run"))
	}
	for _, command := range commands {
		var out, stderr bytes.Buffer
		if code := run(command, &out, &stderr); code != exitLocked || !strings.Contains(stderr.String(), filepath.Base(r.root)) {
			t.Errorf("%v: exit code %d, %s%s", command, code, &out, &stderr)
		}
	}
	if l.TailOffset() != 30 {
		t.Errorf("the log ends at %d", l.TailOffset())
	}
	r.append(l, 1)
}

// People are told what happened in one line.
func TestACutIsToldInOneLine(t *testing.T) {
	e := cutEvent{Cut: "truncate", Dir: "d", DryRun: true, TailBefore: 10, TailOffset: 7, Dropped: 3}
	if got := e.text(); !strings.HasPrefix(got, "dry run, nothing was changed; it would be: truncate of d: offsets 0 to 10 are now 0 to 7, 3 records are gone") {
		t.Error(got)
	}
	e = cutEvent{Cut: "truncate", Dir: "d", To: 99, TailBefore: 10, TailOffset: 10}
	if got, want := e.text(), "truncate of d to 99: no record is dropped, the log ends at offset 10"; got != want {
		t.Error(got)
	}
	for _, text := range []string{
		copiedEvent{Shard: "s", Verdict: "clean", Attempts: 2}.text(), backedUpEvent{Refused: 1}.text(), restoredEvent{Refused: 1}.text(),
	} {
		if text == "" || strings.Contains(text, "\n") {
			t.Errorf("%q", text)
		}
	}
}
