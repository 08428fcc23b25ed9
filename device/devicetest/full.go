package devicetest

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"felix.local/felix/device"
)

var fullFacts = []fact{
	{"a write that does not fit tells how far it got", func(e *env) { e.onSmallDisk(writeUntilFull) }},
	{"a reservation that does not fit is refused as full", func(e *env) { e.onSmallDisk(reserveUntilFull) }},
	{"a disk without inodes makes no file", func(e *env) { e.onSmallDisk(createUntilFull) }},
	{"a read-only disk is told as such", func(e *env) { e.onSmallDisk(refuseReadOnly) }},
}

const smallDiskBytes = 1 << 20

// onSmallDisk runs check with a directory on a filesystem of one mebibyte that
// only check's own goroutine sees: it is mounted in a mount namespace of one
// thread, and that thread ends with the goroutine. Ops go by descriptor, so the
// queue's threads need not see it.
func (e *env) onSmallDisk(check func(e *env, dir string) error) {
	e.Helper()
	e.needKernel("mounted filesystem")
	if os.Geteuid() != 0 {
		e.Skip("mounting a small filesystem needs root")
	}
	dir := e.path("small")
	e.must(os.Mkdir(dir, 0o700))
	type verdict struct{ skip, fail error }
	result := make(chan verdict)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread dies with its namespace
		if err := mountSmall(dir); err != nil {
			result <- verdict{skip: err}
			return
		}
		fail := check(e, dir)
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil && fail == nil {
			fail = err
		}
		result <- verdict{fail: fail}
	}()
	v := <-result
	if v.skip != nil {
		e.Skip("this process may not mount a small filesystem:", v.skip)
	}
	e.must(v.fail)
}

func mountSmall(dir string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	options := fmt.Sprintf("size=%d,nr_inodes=8", smallDiskBytes)
	if err := unix.Mount("devicetest", dir, "tmpfs", 0, options); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	return nil
}

// The checks below run off the test's goroutine and so return what they find.

func writeUntilFull(e *env, dir string) error {
	f, err := e.FS.OpenFile(filepath.Join(dir, "f"), device.CreateNew, 0o640)
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, 3*smallDiskBytes)
	fill(b, 1)
	for _, kind := range []device.Kind{device.Write, device.WriteDsync} {
		op := &device.Op{Kind: kind, File: f, Buf: b}
		if err := device.Do(e.Queue, op); device.ClassOf(err) != device.ClassFull {
			return fmt.Errorf("%v: want a full disk, got %v", kind, err)
		}
		size, err := f.Size()
		if err != nil {
			return err
		}
		if op.N <= 0 || op.N > smallDiskBytes || int64(op.N) != size || op.Pieces < 2 {
			return fmt.Errorf("%v: %d bytes in %d pieces, the file has %d", kind, op.N, op.Pieces, size)
		}
		got := make([]byte, size)
		if _, err := f.ReadAt(got, 0); err != nil {
			return err
		}
		if !bytes.Equal(got, b[:op.N]) {
			return fmt.Errorf("%v: what landed is not what was written", kind)
		}
		// Cutting back gives the space back, and the file goes on.
		if err := f.Truncate(100); err != nil {
			return err
		}
		if err := device.Do(e.Queue, &device.Op{Kind: kind, File: f, Buf: b[:1000], Pos: 100}); err != nil {
			return err
		}
		if err := f.Truncate(0); err != nil {
			return err
		}
	}
	return nil
}

func reserveUntilFull(e *env, dir string) error {
	f, err := e.FS.OpenFile(filepath.Join(dir, "f"), device.CreateNew, 0o640)
	if err != nil {
		return err
	}
	defer f.Close()
	op := &device.Op{Kind: device.Allocate, File: f, Len: 3 * smallDiskBytes}
	if err := device.Do(e.Queue, op); device.ClassOf(err) != device.ClassFull {
		return fmt.Errorf("want a full disk, got %v", err)
	}
	if size, err := f.Size(); err != nil || size != 0 {
		return fmt.Errorf("size %d, %v", size, err)
	}
	return device.Do(e.Queue, &device.Op{Kind: device.Allocate, File: f, Len: smallDiskBytes / 2})
}

func createUntilFull(e *env, dir string) error {
	for i := range 20 {
		f, err := e.FS.OpenFile(filepath.Join(dir, fmt.Sprint(i)), device.CreateNew, 0o640)
		if err != nil {
			if i == 0 || device.ClassOf(err) != device.ClassFull {
				return fmt.Errorf("file %d: %w", i, err)
			}
			if err := e.FS.Mkdir(filepath.Join(dir, "d"), 0o750); device.ClassOf(err) != device.ClassFull {
				return fmt.Errorf("mkdir: %v", err)
			}
			return nil
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return fmt.Errorf("no end of inodes")
}

func refuseReadOnly(e *env, dir string) error {
	path := filepath.Join(dir, "f")
	f, err := e.FS.OpenFile(path, device.CreateNew, 0o640)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return err
	}
	for name, try := range map[string]func() error{
		"create": func() error {
			_, err := e.FS.OpenFile(filepath.Join(dir, "g"), device.CreateNew, 0o640)
			return err
		},
		"open for writing": func() error { _, err := e.FS.OpenFile(path, device.ReadWrite, 0); return err },
		"mkdir":            func() error { return e.FS.Mkdir(filepath.Join(dir, "d"), fs.FileMode(0o750)) },
		"remove":           func() error { return e.FS.Remove(path) },
		"rename":           func() error { return e.FS.Rename(path, filepath.Join(dir, "h")) },
	} {
		if err := try(); device.ClassOf(err) != device.ClassReadOnly {
			return fmt.Errorf("%s: want read-only, got %v", name, err)
		}
	}
	return nil
}
