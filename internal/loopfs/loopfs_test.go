package loopfs_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"felix.local/felix/internal/loopfs"
)

func TestADiskKeepsItsFilesWhileItIsNotMounted(t *testing.T) {
	disk := loopfs.Make(t, t.TempDir(), "ext4", 16<<20)
	disk.MustMount(t, "")
	name := filepath.Join(disk.At, "file")
	if err := os.WriteFile(name, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	device := disk.Device
	if err := disk.Unmount(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is seen without its disk: %v", err)
	}
	if device == "" || disk.Device != "" {
		t.Errorf("the device was %q and is %q", device, disk.Device)
	}
	disk.MustMount(t, "noload")
	if b, err := os.ReadFile(name); err != nil || string(b) != "kept" {
		t.Errorf("read back %q, %v", b, err)
	}
}

func TestADiskIsGivenBackWhenItsTestEnds(t *testing.T) {
	dir := t.TempDir()
	var device string
	t.Run("inner", func(t *testing.T) {
		disk := loopfs.Make(t, dir, "ext4", 16<<20)
		disk.MustMount(t, "")
		device = disk.Device
	})
	if device == "" {
		t.Skip("no disk could be had; the inner test has the reason")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("something below %s is still mounted, %v", dir, err)
	}
}
