package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestTheBackupDocumentDoesWhatItSays runs every command of docs/backup.md, as one
// session of a shell. Only the ports are others.
func TestTheBackupDocumentDoesWhatItSays(t *testing.T) {
	document, err := os.ReadFile("../../docs/backup.md")
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for _, m := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(string(document), -1) {
		commands = append(commands, m[1])
	}
	if len(commands) != 3 {
		t.Fatalf("the document has %d blocks of commands", len(commands))
	}
	printed, dir := readmeSession(t, strings.Join(commands, "")+"rm felixd.pid; echo 0 > felixd.pid; trap - EXIT\n")
	for _, want := range []string{
		"\n1000\n", `"event":"backed_up"`, `"event":"restored"`, `"file":"run-state"`, `"tail_offset":1000,"verdict":"clean"`,
		`"dry_run":true,"base_before":0,"tail_before":1000,"base_offset":0,"tail_offset":900,"dropped":100`,
		`"cut":"restore",`, `"base_offset":5000,"tail_offset":5000,"dropped":800`,
	} {
		if !strings.Contains(printed, want) {
			t.Errorf("nothing printed has %s:\n%s", want, printed)
		}
	}
	if _, err := os.Stat(dir + "/monday.partial"); err == nil {
		t.Error("the unfinished copy is left")
	}
}
