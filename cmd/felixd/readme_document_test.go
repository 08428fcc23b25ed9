package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheReadmeDoesWhatItSays runs the README's commands for a server as one session
// of a shell. Only the ports are others.
func TestTheReadmeDoesWhatItSays(t *testing.T) {
	blocks := shellBlocks(t, "../../README.md")
	if len(blocks) != 3 {
		t.Fatalf("the README has %d blocks of commands, want 3: HTTP, a kill, Kafka", len(blocks))
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	t.Run("http", func(t *testing.T) { readmeHTTP(t, blocks[0]) })
	t.Run("kill", func(t *testing.T) { readmeKill(t, blocks[0]+blocks[1]) })
	t.Run("kafka", func(t *testing.T) {
		if _, err := exec.LookPath("kcat"); err != nil {
			t.Skip("kcat is not installed")
		}
		printed := shellSession(t, strings.Join(strings.SplitN(blocks[0], "\n", 3)[:2], "\n")+"\n"+blocks[2]).stdout
		if !strings.Contains(printed, "0 k1 hello\n1 k2 world\n") {
			t.Errorf("kcat read something else:\n%s", printed)
		}
	})
}

func readmeHTTP(t *testing.T, commands string) {
	printed := shellSession(t, commands).stdout
	for _, want := range []string{
		`"durable":true`, `"fsync":"on_commit"`,
		`{"shard":0,"first_offset":0,"last_offset":0}`, `{"shard":0,"first_offset":1,"last_offset":2}`,
		`"offset":2,`, "id: 0\nevent: record\n", "id: 2\nevent: record\n",
	} {
		if !strings.Contains(printed, want) {
			t.Errorf("nothing printed has %q:\n%s", want, printed)
		}
	}
	if n := strings.Count(printed, "id: 1\n"); n != 1 {
		t.Errorf("offset 1 was delivered %d times; the second subscription resumes behind it", n)
	}
}

// readmeKill checks by content what the README says of a kill.
func readmeKill(t *testing.T, commands string) {
	s := shellSession(t, commands+
		"next=0; while :; do curl -sf \"${orders}/records?shard=0&from=$next\" > page; test -s page || break; cat page >> stored; next=$(wc -l < stored); done\n")
	stored := make(map[uint64]string)
	for i, line := range readLines(t, filepath.Join(s.dir, "stored")) {
		var record struct {
			Offset uint64
			Text   string
		}
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("order-%0*d", 4+2*min(1, i/3), i+1); record.Offset != uint64(i) || record.Text != want {
			t.Fatalf("record %d is %d %q, want %q: nothing may be missing or come twice", i, record.Offset, record.Text, want)
		}
		stored[record.Offset] = record.Text
	}
	acknowledged := readLines(t, filepath.Join(s.dir, "acknowledged"))
	for _, line := range acknowledged {
		var answer struct {
			First uint64 `json:"first_offset"`
			Last  uint64 `json:"last_offset"`
		}
		if err := json.Unmarshal([]byte(line), &answer); err != nil {
			t.Fatal(err)
		}
		for offset := answer.First; offset <= answer.Last; offset++ {
			if _, there := stored[offset]; !there {
				t.Errorf("offset %d was acknowledged and is gone", offset)
			}
		}
	}
	if len(acknowledged) < 10 {
		t.Errorf("%d publishes were acknowledged before the kill", len(acknowledged))
	}
	for offset := range 103 {
		if !strings.Contains(s.stdout, fmt.Sprintf(`"offset":%d,`, offset)) {
			t.Errorf("the subscription did not print offset %d", offset)
		}
	}
}

func readLines(t *testing.T, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}
