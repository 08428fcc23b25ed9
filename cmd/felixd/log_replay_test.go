package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"felix.local/felix/engine"
	"felix.local/felix/journal"
	"felix.local/felix/segment"
)

// killedRoot is a data directory of a store with a journal that was killed: what was
// acknowledged last is in the journal alone.
func killedRoot(t *testing.T, shards int) (r *backupRig, root string) {
	t.Helper()
	r = newJournaledRig(t, roomy)
	for shard := range shards {
		r.append(r.open(shard), 30)
	}
	root = copyOf(t, r.root)
	if r.pending(root) == 0 {
		t.Fatal("the segments have everything already")
	}
	return r, root
}

// tool runs a command and gives its output.
func tool(args ...string) (stdout, stderr string, code int) {
	var out, problems bytes.Buffer
	code = run(args, &out, &problems)
	return out.String(), problems.String(), code
}

// eventOf finds an event of a kind in the output.
func eventOf(t *testing.T, stdout, kind string) map[string]any {
	t.Helper()
	for line := range strings.Lines(stdout) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err, line)
		}
		if e["event"] == kind {
			return e
		}
	}
	return nil
}

func TestInspectSaysWhatOnlyTheJournalHolds(t *testing.T) {
	r, root := killedRoot(t, 2)
	missing := float64(r.pending(root))
	out, _, code := tool("log", "inspect", root)
	plan, sum := eventOf(t, out, "journal"), eventOf(t, out, "inspected")
	if code != exitRepairs || plan["verdict"] != "replay" || plan["bytes_missing"] != missing {
		t.Errorf("exit code %d, %v", code, plan)
	}
	if sum["bytes_in_journal"] != missing || sum["repairs"] != 2.0 || sum["clean"] != 0.0 {
		t.Errorf("%v", sum)
	}
	// Of a shard alone, that its root's journal holds more.
	shard := filepath.Join(root, backupKey(0).DirName())
	out, _, code = tool("log", "inspect", shard)
	pending := eventOf(t, out, "journal_pending")
	if code != exitRepairs || pending["root"] != root || pending["dir"] != shard || pending["bytes_missing"] == 0.0 || eventOf(t, out, "journal") != nil {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	// What was killed while it wrote to a segment is not damaged.
	path := filepath.Join(shard, "00000000000000000000.log")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(bytes.Repeat([]byte{0xff}, 200)); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if out, _, code = tool("log", "inspect", root); code != exitRepairs {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if err := os.WriteFile(filepath.Join(root, journal.DirName, journal.CurrentName), []byte("no"), 0o640); err != nil {
		t.Fatal(err)
	}
	if out, _, code = tool("log", "inspect", root); code != exitRefused || eventOf(t, out, "journal")["verdict"] != "refuse" {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if out, _, code = tool("log", "inspect", shard); code != exitRefused || eventOf(t, out, "journal_pending")["refused"] != true {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

// A command that is about one shard must not pass the rest of it over in silence, nor
// put something else in its place.
func TestCommandsAboutOneShardSayWhatTheJournalHolds(t *testing.T) {
	_, root := killedRoot(t, 1)
	shard := filepath.Join(root, backupKey(0).DirName())
	path := filepath.Join(shard, "00000000000000000000.log")
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	remedy := "felixd log replay --dir " + root
	for _, args := range [][]string{
		{"log", "verify", "--dir", shard},
		{"log", "write", "--dir", shard, "--records", "1"},
		{"log", "truncate", shard, "--to", "0"},
		{"log", "truncate", shard, "--to", "0", "--dry-run"},
		{"log", "reset", shard, "--to", "7"},
		{"log", "restore", shard, "--to", "0"},
	} {
		out, problems, code := tool(args...)
		if code != exitRefused || !strings.Contains(problems, remedy) {
			t.Errorf("%v: exit code %d: %s%s", args, code, out, problems)
		}
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Error("the segment was changed", err)
	}
}

// bringBeginning writes the first records that the journal of a root holds to their
// segment, and says how many bytes that was.
func bringBeginning(t *testing.T, root, path string, records uint64) int64 {
	t.Helper()
	whole := copyOf(t, root)
	if out, problems, code := tool("log", "replay", "--dir", whole, "--min-free-bytes", "0"); code != exitOK {
		t.Fatal(code, out, problems)
	}
	below, err := filepath.Rel(root, path)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(whole, below))
	if err != nil {
		t.Fatal(err)
	}
	end := int64(0)
	_, err = segment.Scan(bytes.NewReader(content), int64(len(content)), segment.ScanOptions{Each: func(position int64, r segment.Record) error {
		if r.Offset == records {
			end = position
		}
		return nil
	}})
	if err != nil || end == 0 {
		t.Fatal(end, err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(content[segment.HeaderSize:end], segment.HeaderSize); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return end - segment.HeaderSize
}

// A dump is the records that somebody wants to have: one that lacks some ends as verify
// does, after those that there are.
func TestADumpWithoutWhatTheJournalHoldsIsNoSuccess(t *testing.T) {
	r, root := killedRoot(t, 1)
	missing := float64(r.pending(root))
	shard := filepath.Join(root, backupKey(0).DirName())
	path := filepath.Join(shard, "00000000000000000000.log")
	remedy := "felixd log replay --dir " + root
	// The segment gets its beginning, as a checkpoint that was killed leaves it.
	const held = 10
	missing -= float64(bringBeginning(t, root, path, held))
	for _, c := range []struct {
		args    []string
		records uint64
		missing float64
		code    int
	}{
		{[]string{shard}, held, missing, exitRefused},
		{[]string{path}, held, missing, exitRefused},
		{[]string{shard, "--skip-damaged"}, held, missing, exitRefused},
		{[]string{shard, "--from", "29"}, 0, missing, exitRefused},
		{[]string{shard, "--to", "10"}, held, missing, exitRefused},
		{[]string{shard, "--to", "9"}, held, 0, exitOK},
		{[]string{shard, "--from", "30"}, 0, 0, exitOK},
	} {
		out, problems, code := tool(append([]string{"log", "dump"}, c.args...)...)
		sum := eventOf(t, out, "dumped")
		if code != c.code || sum["records"] != float64(c.records) || sum["bytes_in_journal"] != c.missing || sum["gaps"] != 0.0 {
			t.Errorf("dump %v: exit code %d, %v", c.args, code, sum)
		}
		if !strings.Contains(problems, "warning: "+shard+": segment 0 lacks") {
			t.Errorf("dump %v warns: %s", c.args, problems)
		}
		if said := fmt.Sprintf("felixd: %d records exported; %.0f bytes of acknowledged records are in the commit journal of %s alone: %s\n",
			c.records, c.missing, root, remedy); c.code != exitOK && !strings.HasSuffix(problems, said) {
			t.Errorf("dump %v ends with: %s", c.args, problems)
		}
	}

	if out, problems, code := tool("log", "replay", "--dir", root, "--min-free-bytes", "0"); code != exitOK {
		t.Fatal(code, out, problems)
	}
	out, problems, code := tool("log", "dump", shard)
	if sum := eventOf(t, out, "dumped"); code != exitOK || sum["records"] != 30.0 || sum["bytes_in_journal"] != 0.0 {
		t.Errorf("exit code %d, %v: %s", code, sum, problems)
	}
}

// The setting is the root's: it keeps no command from a shard that lacks nothing.
func TestCommandsAboutOneShardNeedNoJournal(t *testing.T) {
	t.Setenv("FELIX_DURABLE_COMMIT_JOURNAL", "require")
	dir := filepath.Join(t.TempDir(), "shard")
	for _, args := range [][]string{
		{"log", "write", "--dir", dir, "--records", "5", "--fsync", "none", "--no-preallocate", "--min-free-bytes", "0"}, {"log", "verify", "--dir", dir, "--min-free-bytes", "0"},
	} {
		if args[1] == "write" {
			args = append(args, "--clean-shutdown")
		}
		if out, problems, code := tool(args...); code != exitOK {
			t.Errorf("%v: exit code %d: %s%s", args, code, out, problems)
		}
	}
}

func TestReplayBringsADirectoryToWhatAnyFelixMayOpen(t *testing.T) {
	r, root := killedRoot(t, 2)
	missing := float64(r.pending(root))
	if out, _, code := tool("log", "replay", "--dir", root, "--dry-run"); code != exitOK || eventOf(t, out, "journal")["bytes_missing"] != missing {
		t.Errorf("exit code %d: %s", code, out)
	}
	if float64(r.pending(root)) != missing {
		t.Fatal("a dry run changed something")
	}
	out, problems, code := tool("log", "replay", "--dir", root, "--min-free-bytes", "0")
	if e := eventOf(t, out, "replayed"); code != exitOK || e["bytes"] != missing || e["shards"] != 2.0 || e["entries"] == 0.0 {
		t.Errorf("exit code %d: %s%s", code, out, problems)
	}
	if out, _, code := tool("log", "inspect", root); code != exitOK || eventOf(t, out, "journal") != nil {
		t.Errorf("exit code %d: %s", code, out)
	}
	for shard := range 2 {
		r.check(root, shard, 0, 30)
	}
	if out, _, code := tool("log", "replay", "--dir", root, "--min-free-bytes", "0"); code != exitOK || eventOf(t, out, "replayed")["entries"] != 0.0 {
		t.Errorf("a second one: exit code %d: %s", code, out)
	}
}

func TestReplayLeavesAloneWhatItMustNotOpen(t *testing.T) {
	r, root := killedRoot(t, 1)
	for name, c := range map[string]struct {
		dir  string
		code int
	}{
		"a server runs on it": {r.root, exitLocked}, "a shard": {filepath.Join(root, backupKey(0).DirName()), exitUsage},
		"nothing": {filepath.Join(root, "nothing"), exitFailure}, "no store": {t.TempDir(), exitFailure},
	} {
		for _, dry := range [][]string{nil, {"--dry-run"}} {
			out, problems, code := tool(append([]string{"log", "replay", "--dir", c.dir}, dry...)...)
			if code != c.code {
				t.Errorf("%s: exit code %d, want %d: %s%s", name, code, c.code, out, problems)
			}
		}
	}
	shard := filepath.Join(root, backupKey(0).DirName())
	if err := os.RemoveAll(shard); err != nil {
		t.Fatal(err)
	}
	out, _, code := tool("log", "replay", "--dir", root)
	if code != exitRefused || eventOf(t, out, "journal")["verdict"] != "refuse" {
		t.Errorf("exit code %d: %s", code, out)
	}
	if _, err := engine.OpenStore(r.ctx, root, r.cfg); exitCode(err) != exitRefused {
		t.Errorf("a start says %v", err)
	}
}
