package device

import (
	"errors"
	"io"
	"io/fs"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// osFile is a file or directory of the operating system. It keeps a bare
// descriptor instead of an os.File: the ring needs the number, and nothing may
// close it behind a running op, as a finalizer would.
type osFile struct {
	path   string
	fd     int
	closed atomic.Bool
	place  atomic.Pointer[place]
}

// place is a path as system calls take it, and what tells the file that was opened
// there from any other.
type place struct {
	path         []byte
	major, minor uint32
	ino          uint64
}

var (
	_ File       = (*osFile)(nil)
	_ Descriptor = (*osFile)(nil)
)

// Name is the path the file was opened with.
func (f *osFile) Name() string { return f.path }

// FD is the descriptor; -1 after Close, so that a late op fails instead of
// reaching whatever file got the number next.
func (f *osFile) FD() int {
	if f.closed.Load() {
		return -1
	}
	return f.fd
}

// descriptor is FD with an error for a closed file.
func (f *osFile) descriptor() (int, error) {
	if fd := f.FD(); fd >= 0 {
		return fd, nil
	}
	return -1, fs.ErrClosed
}

func (f *osFile) fail(op string, pos int64, err error) error {
	return NewError(op, f.path, pos, err)
}

// ReadAt follows io.ReaderAt: fewer bytes than asked for come with an error,
// io.EOF at the end of the file.
func (f *osFile) ReadAt(p []byte, pos int64) (int, error) {
	fd, err := f.descriptor()
	if err != nil {
		return 0, f.fail("read", pos, err)
	}
	read, repeats := 0, 0
	for read < len(p) {
		n, err := unix.Pread(fd, p[read:], pos+int64(read))
		switch {
		case err == nil && n == 0:
			return read, io.EOF
		case err == nil:
			read += n
		case repeatable(err) && repeats < repeatsMax:
			repeats++
		default:
			return read, f.fail("read", pos+int64(read), err)
		}
	}
	return read, nil
}

// Size is the file's length in bytes.
func (f *osFile) Size() (int64, error) {
	st, err := f.stat()
	if err != nil {
		return 0, f.fail("size", -1, err)
	}
	return st.Size, nil
}

// Linked reports whether the file still has a name.
func (f *osFile) Linked() (bool, error) {
	names, err := f.names()
	if err != nil {
		return false, f.fail("linked", -1, err)
	}
	return names > 0, nil
}

// names is how many names the file has. Nothing else is asked for: since Linux 6.13 a
// file whose times were looked at gets new ones with its next write, and a dsync write
// then waits for the metadata too (BenchmarkDsyncWriteAfterALook).
func (f *osFile) names() (uint32, error) {
	fd, err := f.descriptor()
	if err != nil {
		return 0, err
	}
	var st unix.Statx_t
	err = statx(fd, []byte{0}, unix.AT_EMPTY_PATH, unix.STATX_NLINK, &st)
	return st.Nlink, err
}

// TakesWrites writes nothing, which a filesystem that has stopped refuses: ext4, btrfs
// and f2fs look at their state before they look at the length. XFS does not, but does
// when it is asked for the file's attributes. ext4 before Linux 6.6 says so of a
// shutdown, and not of an error after which it remounted itself read-only.
func (f *osFile) TakesWrites() error {
	if _, err := f.names(); err != nil {
		return f.fail("look for writes", -1, err)
	}
	fd, err := f.descriptor()
	if err == nil {
		err = ignoreInterrupts(func() error {
			_, err := unix.Pwrite(fd, nil, 0)
			return err
		})
	}
	return f.fail("look for writes", -1, err)
}

// Named asks for no times either.
func (f *osFile) Named() (bool, error) {
	own, err := f.whatItIs()
	if err != nil {
		return false, f.fail("named", -1, err)
	}
	var st unix.Statx_t
	err = statx(unix.AT_FDCWD, own.path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO, &st)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return false, nil
	case err != nil:
		return false, f.fail("named", -1, err)
	}
	return st.Ino == own.ino && st.Dev_major == own.major && st.Dev_minor == own.minor, nil
}

// whatItIs gives the file's path and number, which it keeps.
func (f *osFile) whatItIs() (*place, error) {
	if own := f.place.Load(); own != nil && !f.closed.Load() {
		return own, nil
	}
	fd, err := f.descriptor()
	if err != nil {
		return nil, err
	}
	var st unix.Statx_t
	if err := statx(fd, []byte{0}, unix.AT_EMPTY_PATH, unix.STATX_INO, &st); err != nil {
		return nil, err
	}
	own := &place{path: append([]byte(f.path), 0), major: st.Dev_major, minor: st.Dev_minor, ino: st.Ino}
	f.place.Store(own)
	return own, nil
}

// statx is unix.Statx without its copy of the path, which is allocated; path ends with
// a zero byte. Behind a filter that has the older calls alone those are made.
func statx(fd int, path []byte, flags, mask int, st *unix.Statx_t) error {
	for {
		_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(fd), uintptr(unsafe.Pointer(&path[0])),
			uintptr(flags), uintptr(mask), uintptr(unsafe.Pointer(st)), 0)
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		case unix.ENOSYS, unix.EPERM:
			return olderStat(fd, path, flags, st)
		default:
			return errno
		}
	}
}

func olderStat(fd int, path []byte, flags int, st *unix.Statx_t) error {
	var old unix.Stat_t
	err := ignoreInterrupts(func() error {
		if flags&unix.AT_EMPTY_PATH != 0 {
			return unix.Fstat(fd, &old)
		}
		return unix.Lstat(unix.ByteSliceToString(path), &old)
	})
	if err != nil {
		return err
	}
	st.Nlink, st.Ino = uint32(old.Nlink), old.Ino
	st.Dev_major, st.Dev_minor = unix.Major(old.Dev), unix.Minor(old.Dev)
	return nil
}

func (f *osFile) stat() (unix.Stat_t, error) {
	var st unix.Stat_t
	fd, err := f.descriptor()
	if err == nil {
		err = ignoreInterrupts(func() error { return unix.Fstat(fd, &st) })
	}
	return st, err
}

// Truncate sets the length. Blocks reserved past the new end are freed even
// when the length stays as it is.
func (f *osFile) Truncate(size int64) error {
	fd, err := f.descriptor()
	if err == nil {
		err = ignoreInterrupts(func() error { return unix.Ftruncate(fd, size) })
	}
	return f.fail("truncate", size, err)
}

// largestFolioPages is the most pages the kernel keeps as one unit of its cache.
const largestFolioPages = 1 << 11

// DropCache asks that clean cached pages from pos on be forgotten. The kernel
// skips a unit of its cache that only partly lies in the range, so the range
// starts at a boundary that all units share; forgetting more than asked only
// costs a read.
func (f *osFile) DropCache(pos int64) error {
	fd, err := f.descriptor()
	if err == nil {
		start := pos - pos%(int64(pageBytes)*largestFolioPages)
		err = ignoreInterrupts(func() error { return unix.Fadvise(fd, start, 0, unix.FADV_DONTNEED) })
	}
	return f.fail("drop_cache", pos, err)
}

// Close releases the descriptor. Closing twice is an error, because by then the
// number may belong to another file.
func (f *osFile) Close() error {
	if f.closed.Swap(true) {
		return f.fail("close", -1, fs.ErrClosed)
	}
	// Linux frees the descriptor even when close is interrupted; repeating it
	// could close a stranger's.
	if err := unix.Close(f.fd); err != nil && !errors.Is(err, unix.EINTR) {
		return f.fail("close", -1, err)
	}
	return nil
}
