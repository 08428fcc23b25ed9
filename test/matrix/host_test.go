package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAHostWhoseRowIsNotBegunIsOneError(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "guest"), []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	row, err := runHost(t.Context(), programs{dir: dir}, dir, say)
	if err == nil || !strings.Contains(err.Error(), "not begun: exit status 1") || len(row.failures()) > 0 {
		t.Errorf("got %v and %q", err, row.failures())
	}
}
