package device

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// OSFS is the operating system's namespace. It holds nothing; every value is
// the same disk.
type OSFS struct{}

var _ FS = OSFS{}

// OS returns the operating system's disk.
func OS() FS { return OSFS{} }

// Mkdir makes one directory. Permission bits are set exactly; a set-group-id
// bit that the parent passes down is kept, since who owns the files is the
// operator's decision.
func (OSFS) Mkdir(path string, perm fs.FileMode) error {
	want := uint32(perm.Perm())
	err := ignoreInterrupts(func() error { return unix.Mkdir(path, want) })
	if err != nil {
		return NewError("mkdir", path, -1, err)
	}
	if err := chmodExactly(path, want); err != nil {
		// A directory with other permissions than asked for must not stay.
		_ = unix.Rmdir(path)
		return NewError("mkdir", path, -1, err)
	}
	return nil
}

func chmodExactly(path string, want uint32) error {
	var st unix.Stat_t
	if err := ignoreInterrupts(func() error { return unix.Lstat(path, &st) }); err != nil {
		return err
	}
	if st.Mode&0o777 == want {
		return nil
	}
	return ignoreInterrupts(func() error { return unix.Chmod(path, st.Mode&0o7000|want) })
}

// Rename replaces newPath by oldPath.
func (OSFS) Rename(oldPath, newPath string) error {
	err := ignoreInterrupts(func() error { return unix.Rename(oldPath, newPath) })
	if err != nil {
		return NewError("rename", oldPath, -1, fmt.Errorf("to %s: %w", newPath, err))
	}
	return nil
}

// Remove unlinks a file or an empty directory.
func (OSFS) Remove(path string) error {
	return NewError("remove", path, -1, cause(os.Remove(path)))
}

// ReadDir lists a directory, sorted by name. An error part of the way through
// gives no entries: half a listing would look like missing segments.
func (OSFS) ReadDir(path string) ([]Entry, error) {
	listed, err := os.ReadDir(path)
	if err != nil {
		return nil, NewError("read_dir", path, -1, cause(err))
	}
	entries := make([]Entry, len(listed))
	for i, e := range listed {
		entries[i] = Entry{Name: e.Name(), Type: e.Type()}
	}
	return entries, nil
}

// Lstat describes a name without following a link.
func (OSFS) Lstat(path string) (Info, error) {
	st, err := os.Lstat(path)
	if err != nil {
		return Info{}, NewError("lstat", path, -1, cause(err))
	}
	info := Info{Mode: st.Mode(), Size: st.Size()}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		info.Dev, info.Ino = uint64(sys.Dev), sys.Ino
	}
	return info, nil
}

// cause strips the os package's own naming of operation and path, which Error
// carries already.
func cause(err error) error {
	var named *fs.PathError
	if errors.As(err, &named) {
		return named.Err
	}
	return err
}

// repeatsMax bounds how often a call that was interrupted, or told to try again,
// is repeated. Nothing on a local filesystem comes near it; a filesystem that
// answers like that for ever must not hang a worker.
const repeatsMax = 1000

// ignoreInterrupts repeats a namespace call that a signal interrupted. The Go
// runtime sends signals to its own threads to preempt them; network and
// user-space filesystems let those through.
func ignoreInterrupts(call func() error) error {
	var err error
	for range repeatsMax {
		if err = call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	return err
}
