package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAFileWithoutPrincipalsFailsTheCheckAndTheStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(path, []byte("# nobody yet\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if code := run([]string{"credentials", "check", "--file", path}, &stdout, &stderr); code != exitVerify || !strings.Contains(stdout.String(), "no principal") || !strings.Contains(stdout.String(), `"problems":1`) {
		t.Errorf("the check exits %d: %s", code, stdout.String())
	}
	if code := run(append([]string{"serve", "--credentials-file", path}, serveFlags(t)...), &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), "no principal") {
		t.Errorf("the start exits %d: %s", code, stderr.String())
	}
}
