package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestTheSecurityDocumentDoesWhatItSays runs every command of docs/security.md, as
// one session of a shell. Only the ports are others.
func TestTheSecurityDocumentDoesWhatItSays(t *testing.T) {
	document, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, m := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(string(document), -1) {
		blocks = append(blocks, m[1])
	}
	if len(blocks) < 6 {
		t.Fatalf("the document has %d blocks of commands", len(blocks))
	}
	// The clients that may not be installed, each with what it needs of the others.
	for name, tools := range map[string][]string{"curl": {"openssl", "curl"}, "kcat": {"openssl", "curl", "kcat"}} {
		t.Run(name, func(t *testing.T) {
			var session []string
			for _, tool := range tools {
				if _, err := exec.LookPath(tool); err != nil {
					t.Skipf("%s is not installed", tool)
				}
			}
			for _, block := range blocks {
				if name == "kcat" || !strings.Contains(block, "kcat") {
					session = append(session, block)
				}
			}
			runSession(t, strings.Join(session, ""))
		})
	}
}

// runSession runs commands with ports of its own. A line that ends in "# 401" has
// to print a line 401.
func runSession(t *testing.T, commands string) {
	admin := unusedAddr(t)
	for fixed, free := range map[string]string{":8080": unusedAddr(t), ":9092": unusedAddr(t), ":9644": admin} {
		commands = strings.ReplaceAll(commands, fixed, free[strings.LastIndex(free, ":"):])
	}
	var wanted []string
	for _, m := range regexp.MustCompile(`(?m)   # (\d+)$`).FindAllStringSubmatch(commands, -1) {
		wanted = append(wanted, m[1])
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "sh", "-eu")
	shell.Dir = t.TempDir()
	shell.Env = append(os.Environ(), "FELIX_ADMIN_ADDR="+admin)
	shell.Stdin = strings.NewReader("trap 'kill $(cat felixd.pid); wait' EXIT\nset -x\n" + commands)
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	shell.Cancel = func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) }
	shell.WaitDelay = 10 * time.Second
	var stdout, stderr bytes.Buffer
	shell.Stdout, shell.Stderr = &stdout, &stderr
	if err := shell.Run(); err != nil {
		log, _ := os.ReadFile(shell.Dir + "/felixd.log")
		t.Fatalf("%v\n%s\n%s\n%s", err, stdout.String(), stderr.String(), log)
	}
	var printed []string
	for line := range strings.Lines(stdout.String()) {
		if line = strings.TrimSpace(line); regexp.MustCompile(`^\d{3}$`).MatchString(line) {
			printed = append(printed, line)
		}
	}
	if fmt.Sprint(printed) != fmt.Sprint(wanted) || len(wanted) == 0 {
		t.Errorf("printed %v, want %v\n%s", printed, wanted, stderr.String())
	}
	if strings.Contains(commands, "kcat") && !strings.Contains(stdout.String(), "order-0001\norder-0002\norder-0003\n") {
		t.Errorf("kcat read something else:\n%s", stdout.String())
	}
}

// unusedAddr is an address that nothing listens on.
func unusedAddr(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
