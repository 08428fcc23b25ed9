package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestTheSecurityDocumentDoesWhatItSays runs every command of docs/security.md, as
// one session of a shell. Only the ports are others.
func TestTheSecurityDocumentDoesWhatItSays(t *testing.T) {
	blocks := shellBlocks(t, "../../docs/security.md")
	if len(blocks) < 6 {
		t.Fatalf("the document has %d blocks of commands", len(blocks))
	}
	// The clients that may not be installed, each with what it needs of the others.
	for name, tools := range map[string][]string{"curl": {"openssl", "curl"}, "kcat": {"openssl", "curl", "kcat"}} {
		t.Run(name, func(t *testing.T) {
			var commands []string
			for _, tool := range tools {
				if _, err := exec.LookPath(tool); err != nil {
					t.Skipf("%s is not installed", tool)
				}
			}
			for _, block := range blocks {
				if name == "kcat" || !strings.Contains(block, "kcat") {
					commands = append(commands, block)
				}
			}
			checkSecurity(t, strings.Join(commands, ""))
		})
	}
}

// checkSecurity runs commands. A line that ends in "# 401" has to print a line 401.
func checkSecurity(t *testing.T, commands string) {
	var wanted, printed []string
	for _, m := range regexp.MustCompile(`(?m)   # (\d+)$`).FindAllStringSubmatch(commands, -1) {
		wanted = append(wanted, m[1])
	}
	s := shellSession(t, commands)
	for line := range strings.Lines(s.stdout) {
		if line = strings.TrimSpace(line); regexp.MustCompile(`^\d{3}$`).MatchString(line) {
			printed = append(printed, line)
		}
	}
	if fmt.Sprint(printed) != fmt.Sprint(wanted) || len(wanted) == 0 {
		t.Errorf("printed %v, want %v\n%s", printed, wanted, s.stderr)
	}
	if strings.Contains(commands, "kcat") && !strings.Contains(s.stdout, "order-0001\norder-0002\norder-0003\n") {
		t.Errorf("kcat read something else:\n%s", s.stdout)
	}
}
