package recovery

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/segment"
)

// An open that waits for the other end of a FIFO hangs the test, which the
// runner's timeout reports.
func TestNamesThatAreNoRegularFilesAreErrors(t *testing.T) {
	makers := map[string]func(path string) error{
		"FIFO":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"link to a segment outside": func(path string) error {
			outside := filepath.Join(filepath.Dir(filepath.Dir(path)), "outside.log")
			return errors.Join(os.WriteFile(outside, segmentBytes(10, 1), 0o600), os.Symlink(outside, path))
		},
		"dangling link": func(path string) error { return os.Symlink("nowhere", path) },
	}
	for kind, make := range makers {
		for _, name := range []string{segment.LogName(1), segment.LogName(2), segment.IndexName(1), MarkName} {
			t.Run("C219 a "+kind+" named "+name, func(t *testing.T) {
				s := newShard(t)
				s.sealed(2)
				if name != segment.LogName(2) && name != MarkName {
					s.remove(name)
				}
				s.must(make(s.path(name)))
				for what, open := range map[string]func() error{
					"inspect": func() error { _, err := Inspect(device.OS(), s.dir, "orders/0", testPolicy()); return err },
					"open":    func() error { _, err := Open(osDisk(), s.dir, "orders/0", testPolicy()); return err },
				} {
					err := open()
					if !errors.Is(err, device.ErrNotRegular) || !strings.Contains(err.Error(), s.path(name)) {
						t.Errorf("%s: %v, want the path and that it is no regular file", what, err)
					}
				}
			})
		}
	}
}

func TestNumberBeyondAnIDIsATypedError(t *testing.T) {
	for _, name := range []string{"99999999999999999999.log", "18446744073709551616.log", "99999999999999999999.index"} {
		t.Run("C225 "+name, func(t *testing.T) {
			s := newShard(t)
			s.sealed(1)
			s.write(name, nil)
			_, err := Open(osDisk(), s.dir, "orders/0", testPolicy())
			var bad *NameError
			if !errors.As(err, &bad) || bad.Path != s.path(name) {
				t.Errorf("got %v, want a NameError for the path", err)
			}
		})
	}
}

func TestUnreadableDirectoryNamesPathAndOperation(t *testing.T) {
	s := newShard(t)
	s.write("not-a-directory", nil)
	path := s.path("not-a-directory")
	_, err := Open(osDisk(), path, "orders/0", testPolicy())
	if err == nil || !strings.Contains(err.Error(), path) || !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("C220: got %v", err)
	}
	if os.Getuid() == 0 {
		t.Skip("permissions do not bind root")
	}
	s.sealed(1)
	s.must(os.Chmod(s.path(segment.LogName(0)), 0o400))
	_, err = Open(osDisk(), s.dir, "orders/0", testPolicy())
	if !errors.Is(err, device.ErrReadOnly) || !strings.Contains(err.Error(), s.path(segment.LogName(0))) {
		t.Errorf("C220: got %v", err)
	}
}

func TestPolicyOutOfBoundsIsRefusedWhole(t *testing.T) {
	_, err := Open(osDisk(), "/nowhere", "orders/0", Policy{IndexSpacingBytes: -1, SideCopiesKept: -2})
	if err == nil || !strings.Contains(err.Error(), "-1 bytes") || !strings.Contains(err.Error(), "-2") {
		t.Errorf("got %v, want both problems", err)
	}
}
