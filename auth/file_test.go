package auth

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestAFileThatOthersCouldReadOrChangeIsRefused(t *testing.T) {
	path := fileOf(t, lineOf(t, "a", "read:*"))
	for mode, allowed := range map[fs.FileMode]bool{
		0o600: true, 0o400: true, 0o640: true, 0o440: true,
		0o644: false, 0o604: false, 0o660: false, 0o620: false, 0o602: false, 0o666: false, 0o641: false, 0o650: false,
	} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := Load(path)
		var problem *FileError
		switch {
		case allowed && err != nil:
			t.Errorf("%04o: %v", mode, err)
		case !allowed && !errors.As(err, &problem):
			t.Errorf("%04o is accepted: %v", mode, err)
		case !allowed && !strings.Contains(err.Error(), "chmod 0640 "+path):
			t.Errorf("%04o: %v does not say what to do", mode, err)
		}
	}
}

func TestASymbolicLinkIsJudgedByWhatItLeadsTo(t *testing.T) {
	path := fileOf(t, lineOf(t, "a", "read:*"))
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(link); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(link); err == nil || !strings.Contains(err.Error(), "chmod 0640 "+path) {
		t.Errorf("the link hides the mode: %v", err)
	}
}

func TestWhatIsNoCredentialsFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	principal := lineOf(t, "a", "read:*")
	pipe, large, loop := filepath.Join(dir, "pipe"), filepath.Join(dir, "large"), filepath.Join(dir, "loop")
	for _, err := range []error{
		syscall.Mkfifo(pipe, 0o600),
		os.WriteFile(large, []byte(principal+strings.Repeat("#", FileBytesMax+1-len(principal))), 0o600),
		os.Symlink(loop, loop),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		pipe:                          "no regular file",
		dir:                           "no regular file",
		large:                         "more than the 1048576 bytes",
		filepath.Join(dir, "missing"): "felixd credentials add makes it",
		loop:                          "too many links",
		"":                            "its path is empty",
		"a\x00b":                      "invalid argument",
	} {
		_, err := Load(path)
		var problem *FileError
		if !errors.As(err, &problem) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
	}
	if err := os.Truncate(large, FileBytesMax); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(large); err != nil {
		t.Errorf("the largest file: %v", err)
	}
}
