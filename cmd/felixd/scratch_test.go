package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAScratchDirectoryInUseIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	const prefix = ".felix-test-"
	used, err := newScratch(dir, prefix)
	if err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(dir, prefix+"left")
	other := filepath.Join(dir, "other")
	for _, path := range []string{filepath.Join(left, "store"), filepath.Join(other, "store")} {
		if err := os.MkdirAll(path, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	if err := removeAbandoned(dir, prefix); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{used.path: true, left: false, other: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: there is %v, want %v", path, err == nil, want)
		}
	}
	if err := used.remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(used.path); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", used.path, err)
	}
	if err := removeAbandoned(filepath.Join(dir, "nowhere"), prefix); err != nil {
		t.Errorf("a directory that does not exist: %v", err)
	}
}
