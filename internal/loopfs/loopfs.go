package loopfs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Disk is a filesystem in a file.
type Disk struct {
	// Type is the kernel's name of the filesystem, At the directory where it is
	// mounted, and Device the loop device behind it, "" while it is not mounted.
	Type, At, Device string

	image string
}

// mkfsPrograms says, per filesystem, which package of Debian makes it and how to have
// it made without questions.
var mkfsPrograms = map[string]struct {
	debian  string
	options []string
}{
	"ext4":  {"e2fsprogs", []string{"-q", "-F", "-b", "4096"}},
	"xfs":   {"xfsprogs", []string{"-q"}},
	"btrfs": {"btrfs-progs", []string{"-q"}},
}

// Missing says what keeps this process from making and mounting such a filesystem, as
// far as that can be told before it is tried; "" for nothing.
func Missing(kind string) string {
	if os.Geteuid() != 0 {
		return "only root mounts a loop device"
	}
	if _, err := exec.LookPath("mkfs." + kind); err != nil {
		return fmt.Sprintf("there is no mkfs.%s (Debian: %s)", kind, mkfsPrograms[kind].debian)
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return "there are no loop devices: " + err.Error()
	}
	return ""
}

// Make makes a filesystem of so many bytes in a new file below dir; options are
// further ones for its mkfs. It is not mounted yet.
func Make(t testing.TB, dir, kind string, bytes int64, options ...string) *Disk {
	t.Helper()
	program, known := mkfsPrograms[kind]
	if !known {
		t.Fatalf("it is not known how to make %s", kind)
	}
	if missing := Missing(kind); missing != "" {
		t.Skip(missing)
	}
	own, err := os.MkdirTemp(dir, kind+"-")
	if err != nil {
		t.Fatal(err)
	}
	d := &Disk{Type: kind, image: filepath.Join(own, "image"), At: filepath.Join(own, "mounted")}
	t.Cleanup(func() { d.release(t, own) })
	// Other users may go through it: what they may do is the filesystem's to say.
	if err := errors.Join(os.Chmod(own, 0o755), os.Mkdir(d.At, 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(d.image, nil, 0o600), os.Truncate(d.image, bytes)); err != nil {
		t.Fatal(err)
	}
	arguments := append(append([]string{}, program.options...), options...)
	if out, err := exec.Command("mkfs."+kind, append(arguments, d.image)...).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.%s: %v: %s", kind, err, out)
	}
	return d
}

// MustMount mounts the disk, or skips the test when this kernel or container cannot.
func (d *Disk) MustMount(t testing.TB, options string) {
	t.Helper()
	if err := d.Mount(options); err != nil {
		t.Skipf("%s cannot be mounted here: %v", d.Type, err)
	}
}

// Mount mounts the disk with the filesystem's own options, separated by commas.
func (d *Disk) Mount(options string) error {
	image, err := os.OpenFile(d.image, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer image.Close()
	device, err := attach(image)
	if err != nil {
		return fmt.Errorf("attach a loop device: %w", err)
	}
	// The mount holds the device from here on; closed without one, it frees itself.
	defer device.Close()
	if err := unix.Mount(device.Name(), d.At, d.Type, 0, options); err != nil {
		return fmt.Errorf("mount with %q: %w", options, err)
	}
	d.Device = device.Name()
	return nil
}

// attachTries bounds how often another process may take the device that was free.
const attachTries = 64

// attach gives a loop device with the image behind it.
func attach(image *os.File) (*os.File, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	for range attachTries {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, err
		}
		device, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", n), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		err = unix.IoctlLoopConfigure(int(device.Fd()), &unix.LoopConfig{
			Fd:   uint32(image.Fd()),
			Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR},
		})
		if err == nil {
			return device, nil
		}
		device.Close()
		if !errors.Is(err, unix.EBUSY) {
			return nil, err
		}
	}
	return nil, unix.EBUSY
}

// busyTime is how long an unmount waits for what the kernel still holds: after a
// process was killed its ring is taken down in the background, and no event tells
// when that is done.
const busyTime = 15 * time.Second

// Unmount unmounts the disk. One that stays busy is an error.
func (d *Disk) Unmount() error {
	for began := time.Now(); ; time.Sleep(2 * time.Millisecond) {
		err := unix.Unmount(d.At, 0)
		if err == nil {
			d.Device = ""
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || time.Since(began) > busyTime {
			return fmt.Errorf("unmount %s: %w", d.At, err)
		}
	}
}

// Repair mends the filesystem of a disk that is not mounted; ext4 alone has that.
func (d *Disk) Repair() error {
	out, err := exec.Command("e2fsck", "-f", "-y", d.image).CombinedOutput()
	var failed *exec.ExitError
	if errors.As(err, &failed) && failed.ExitCode() == 1 { // mended
		return nil
	}
	if err != nil {
		return fmt.Errorf("e2fsck: %w: %s", err, out)
	}
	return nil
}

// release gives everything back, also of a disk that is busy: then the kernel
// unmounts it when its last user is gone.
func (d *Disk) release(t testing.TB, own string) {
	if d.Device != "" {
		if err := unix.Unmount(d.At, 0); err != nil {
			err = unix.Unmount(d.At, unix.MNT_DETACH)
			if err != nil {
				t.Errorf("unmount %s: %v", d.At, err)
				return // removing would remove what is on it
			}
		}
	}
	if err := os.RemoveAll(own); err != nil {
		t.Error(err)
	}
}
