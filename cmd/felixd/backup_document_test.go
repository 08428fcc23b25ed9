package main

import (
	"os"
	"strings"
	"testing"
)

// TestTheBackupDocumentDoesWhatItSays runs every command of docs/backup.md, as one
// session of a shell. Only the ports are others.
func TestTheBackupDocumentDoesWhatItSays(t *testing.T) {
	commands := shellBlocks(t, "../../docs/backup.md")
	if len(commands) != 3 {
		t.Fatalf("the document has %d blocks of commands", len(commands))
	}
	s := shellSession(t, strings.Join(commands, "")+"rm felixd.pid; echo 0 > felixd.pid; trap - EXIT\n")
	for _, want := range []string{
		"\n1000\n", `"event":"backed_up"`, `"event":"restored"`, `"file":"run-state"`, `"tail_offset":1000,"verdict":"clean"`,
		`"dry_run":true,"to":900,"base_before":0,"tail_before":1000,"base_offset":0,"tail_offset":900,"dropped":100`,
		`"cut":"restore",`, `"base_offset":5000,"tail_offset":5000,"dropped":800`,
	} {
		if !strings.Contains(s.stdout, want) {
			t.Errorf("nothing printed has %s:\n%s", want, s.stdout)
		}
	}
	if _, err := os.Stat(s.dir + "/monday.partial"); err == nil {
		t.Error("the unfinished copy is left")
	}
}
