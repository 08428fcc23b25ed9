package device

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// openFlags are common to all opens of regular files. O_NONBLOCK is what keeps
// the open of a FIFO, which may lie under any name, from waiting for a peer.
const openFlags = unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK

// OpenFile opens a regular file.
func (OSFS) OpenFile(path string, mode OpenMode, perm fs.FileMode) (File, error) {
	fd, err := openRegular(path, mode, perm)
	if err != nil {
		return nil, NewError("open", path, -1, err)
	}
	return &osFile{path: path, fd: fd}, nil
}

// OpenDir opens a directory, following a link: an operator may link a data
// root to another volume.
func (OSFS) OpenDir(path string) (File, error) {
	fd, err := openDirectory(path)
	if err != nil {
		return nil, NewError("open_dir", path, -1, err)
	}
	return &osFile{path: path, fd: fd}, nil
}

func openDirectory(path string) (int, error) {
	return openDescriptor(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

func openRegular(path string, mode OpenMode, perm fs.FileMode) (int, error) {
	switch mode {
	case ReadOnly:
		return openExisting(path, unix.O_RDONLY)
	case ReadWrite:
		return openExisting(path, unix.O_RDWR)
	case CreateNew:
		return createNew(path, perm)
	case OpenOrCreate:
		return openOrCreate(path, perm)
	case ReadWriteDirect:
		return openExisting(path, unix.O_RDWR|unix.O_DIRECT)
	default:
		panic(fmt.Sprintf("device: open mode %d does not exist", mode))
	}
}

// openOrCreate does not use O_CREAT alone, because that does not tell whether
// the file was made, and only a file that was made gets its permissions set.
func openOrCreate(path string, perm fs.FileMode) (int, error) {
	var err error
	for range repeatsMax {
		var fd int
		if fd, err = openExisting(path, unix.O_RDWR); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return fd, err
		}
		if fd, err = createNew(path, perm); err == nil || !errors.Is(err, fs.ErrExist) {
			return fd, err
		}
	}
	return -1, err // someone makes and removes the name all the time
}

func openExisting(path string, access int) (int, error) {
	fd, err := openDescriptor(path, access|openFlags, 0)
	if err != nil {
		return -1, explainOpen(path, err)
	}
	if err := adopt(fd, nil); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func createNew(path string, perm fs.FileMode) (int, error) {
	want := uint32(perm.Perm())
	fd, err := openDescriptor(path, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|openFlags, want)
	if err != nil {
		return -1, err
	}
	if err := adopt(fd, &want); err != nil {
		unix.Close(fd)
		_ = unix.Unlink(path)
		return -1, err
	}
	return fd, nil
}

// adopt refuses a descriptor of anything but a regular file, sets permissions
// when the file was just made, and takes O_NONBLOCK off again: with it, io_uring
// would rather fail a write with EAGAIN than hand it to a kernel worker.
func adopt(fd int, perm *uint32) error {
	var st unix.Stat_t
	if err := ignoreInterrupts(func() error { return unix.Fstat(fd, &st) }); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("%w, it is a %s", ErrNotRegular, fileKind(st.Mode))
	}
	if perm != nil && st.Mode&0o777 != *perm {
		if err := ignoreInterrupts(func() error { return unix.Fchmod(fd, *perm) }); err != nil {
			return err
		}
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags&unix.O_DIRECT)
	}
	return err
}

// explainOpen turns the errors that the kernel gives for names that are no
// regular files into ErrNotRegular.
func explainOpen(path string, err error) error {
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENXIO):
	default:
		return err
	}
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil || st.Mode&unix.S_IFMT == unix.S_IFREG {
		return err // a loop of links further up, or the name changed meanwhile
	}
	return fmt.Errorf("%w, it is a %s", ErrNotRegular, fileKind(st.Mode))
}

func fileKind(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return "directory"
	case unix.S_IFLNK:
		return "symbolic link"
	case unix.S_IFIFO:
		return "FIFO"
	case unix.S_IFSOCK:
		return "socket"
	case unix.S_IFBLK, unix.S_IFCHR:
		return "device"
	default:
		return fmt.Sprintf("file of type %#o", mode&unix.S_IFMT)
	}
}

func openDescriptor(path string, flags int, perm uint32) (int, error) {
	fd := -1
	err := ignoreInterrupts(func() error {
		var err error
		fd, err = unix.Open(path, flags, perm)
		return err
	})
	return fd, err
}
