package device_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"felix.local/felix/device"
)

func TestOpenRefusesWhatIsNoRegularFile(t *testing.T) {
	dir := t.TempDir()
	regular := filepath.Join(dir, "regular")
	if err := os.WriteFile(regular, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	made := map[string]error{
		"FIFO":          unix.Mkfifo(filepath.Join(dir, "FIFO"), 0o600),
		"directory":     os.Mkdir(filepath.Join(dir, "directory"), 0o700),
		"symbolic link": os.Symlink(regular, filepath.Join(dir, "symbolic link")),
		"socket":        unix.Mknod(filepath.Join(dir, "socket"), unix.S_IFSOCK|0o600, 0),
	}
	for kind, err := range made {
		if err != nil {
			t.Fatal(kind, err)
		}
		for _, mode := range []device.OpenMode{device.ReadOnly, device.ReadWrite, device.OpenOrCreate} {
			_, err := device.OS().OpenFile(filepath.Join(dir, kind), mode, 0o600)
			var typed *device.Error
			if !errors.Is(err, device.ErrNotRegular) || !errors.As(err, &typed) || !strings.Contains(err.Error(), kind) {
				t.Errorf("%s in mode %d: %v", kind, mode, err)
			}
		}
	}
}

func TestPermissionsAreExactWhateverTheUmask(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	dir := t.TempDir()
	for _, perm := range []fs.FileMode{0o640, 0o666, 0o400} {
		path := filepath.Join(dir, perm.String())
		f, err := device.OS().OpenFile(path, device.CreateNew, perm)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if info, _ := os.Lstat(path); info.Mode() != perm {
			t.Errorf("asked for %v, got %v", perm, info.Mode())
		}
	}
	sub := filepath.Join(dir, "sub")
	if err := device.OS().Mkdir(sub, 0o775); err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Lstat(sub); info.Mode().Perm() != 0o775 {
		t.Errorf("directory has %v", info.Mode())
	}
}

func TestAnOpenFileDoesNotCarryNonblock(t *testing.T) {
	f, err := device.OS().OpenFile(filepath.Join(t.TempDir(), "f"), device.CreateNew, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd, ok := device.FD(f)
	if !ok {
		t.Fatal("no descriptor")
	}
	status, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil || status&unix.O_NONBLOCK != 0 {
		t.Fatalf("status flags %#x, %v", status, err)
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Fatalf("descriptor flags %#x, %v", flags, err)
	}
}

func TestTruncateToTheSameLengthFreesReservedBlocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	f, err := device.OS().OpenFile(path, device.CreateNew, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Perform(&device.Op{Kind: device.Allocate, File: f, Len: 1 << 20}); err != nil {
		if device.ClassOf(err) == device.ClassUnsupported {
			t.Skip("this filesystem reserves no blocks:", err)
		}
		t.Fatal(err)
	}
	blocks := func() int64 {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			t.Fatal(err)
		}
		return st.Blocks
	}
	if blocks() == 0 {
		t.Skip("this filesystem does not count reserved blocks")
	}
	if err := f.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if n := blocks(); n != 0 {
		t.Fatalf("%d blocks stay reserved", n)
	}
}

func TestSpaceNamesTheFilesystem(t *testing.T) {
	space, err := device.OS().Space(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if space.Type == "" || space.TotalBytes <= 0 || space.FreeBytes > space.TotalBytes {
		t.Fatalf("%+v", space)
	}
	if _, err := device.OS().Space("/nowhere/at/all"); !device.IsNotExist(err) {
		t.Fatal(err)
	}
}
