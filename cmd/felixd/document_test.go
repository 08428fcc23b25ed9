package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shellBlocks gives the blocks of commands in a document.
func shellBlocks(t *testing.T, path string) (blocks []string) {
	t.Helper()
	document, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(string(document), -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// session is what a shell left.
type session struct {
	stdout, stderr, dir string
}

// shellSession runs a document's commands as one session of a shell that ends at the
// first failure, in a directory of its own. Of the server's ports others are used, in
// the commands and where they name none. The server that felixd.pid names in the end
// is stopped.
func shellSession(t *testing.T, commands string) session {
	t.Helper()
	env := os.Environ()
	for fixed, variable := range map[string]string{":8080": "FELIX_HTTP_ADDR", ":9092": "FELIX_KAFKA_ADDR", ":9644": "FELIX_ADMIN_ADDR"} {
		addr := unusedAddr(t)
		env = append(env, variable+"="+addr)
		if variable == "FELIX_HTTP_ADDR" {
			env = append(env, "FELIX_SERVER=http://"+addr)
		}
		commands = strings.ReplaceAll(commands, fixed, addr[strings.LastIndex(addr, ":"):])
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "sh", "-eu")
	shell.Dir, shell.Env = t.TempDir(), env
	shell.Stdin = strings.NewReader("trap 'kill $(cat felixd.pid); wait' EXIT\nset -x\n" + commands)
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	shell.Cancel = func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) }
	shell.WaitDelay = 10 * time.Second
	var stdout, stderr bytes.Buffer
	shell.Stdout, shell.Stderr = &stdout, &stderr
	if err := shell.Run(); err != nil {
		log, _ := os.ReadFile(shell.Dir + "/felixd.log") // there is none before the server was started
		t.Fatalf("%v\n%s\n%s\n%s", err, stdout.String(), stderr.String(), log)
	}
	return session{stdout.String(), stderr.String(), shell.Dir}
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
