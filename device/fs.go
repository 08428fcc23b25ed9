package device

import (
	"io"
	"io/fs"
)

// OpenMode says how OpenFile opens.
type OpenMode uint8

// The open modes.
const (
	// ReadOnly opens an existing regular file for reading.
	ReadOnly OpenMode = iota
	// ReadWrite opens an existing regular file for reading and writing.
	ReadWrite
	// CreateNew makes the file, for reading and writing, and fails with
	// fs.ErrExist when the name is taken.
	CreateNew
	// OpenOrCreate opens an existing regular file for reading and writing or
	// makes it.
	OpenOrCreate
	// ReadWriteDirect opens an existing regular file past the page cache: the
	// memory, position and length of reads and writes are multiples of
	// DirectBlockBytes. Filesystems that do not have that answer EINVAL, at the open
	// or at the first write.
	ReadWriteDirect
)

// DirectBlockBytes is what ReadWriteDirect asks positions, lengths and memory to be
// multiples of: no device here has larger sectors, and no page is smaller.
const DirectBlockBytes = 4096

// FS is the namespace half of a disk. Paths are as the os package takes them.
// Every error is an *Error.
type FS interface {
	// OpenFile opens a regular file. A symbolic link, FIFO, device or
	// directory under that name is refused with ErrNotRegular, without
	// blocking and without following it. perm is used when a file is made,
	// and set exactly, whatever the umask.
	OpenFile(path string, mode OpenMode, perm fs.FileMode) (File, error)
	// OpenDir opens a directory so that a Queue can flush it.
	OpenDir(path string) (File, error)
	// Mkdir makes one directory, with exactly perm.
	Mkdir(path string, perm fs.FileMode) error
	// Rename replaces newPath by oldPath. The change is durable only after the
	// directories were flushed.
	Rename(oldPath, newPath string) error
	// Remove unlinks a file or an empty directory.
	Remove(path string) error
	// ReadDir lists a directory, sorted by name.
	ReadDir(path string) ([]Entry, error)
	// Lstat describes a name without following a link.
	Lstat(path string) (Info, error)
	// Lock takes the advisory lock of a directory and keeps it until
	// the result is closed. Removing any file does not undo it. A lock held
	// elsewhere, or by this process, is a *LockedError.
	//
	// A shared lock excludes exclusive ones only.
	Lock(dir string, shared bool) (io.Closer, error)
	// Space reports the filesystem that holds path.
	Space(path string) (Space, error)
}

// File is an open file or directory.
type File interface {
	// Name is the path the file was opened with.
	Name() string
	// ReadAt follows io.ReaderAt.
	ReadAt(p []byte, pos int64) (int, error)
	// Size is the file's length in bytes.
	Size() (int64, error)
	// Truncate sets the length. It drops reserved blocks past it. It is
	// durable only after a flush.
	Truncate(size int64) error
	// DropCache asks that clean cached pages from pos on be forgotten, so that
	// the next read comes from the device.
	DropCache(pos int64) error
	// Linked reports whether the file still has a name, wherever that is. A record
	// in a file without one does not survive the process.
	Linked() (bool, error)
	// Named reports whether the file is what its path leads to: neither it nor a
	// directory above it was removed, moved away or replaced. A record in a file that
	// is elsewhere is not found by the next process. It costs more than Linked
	// (BenchmarkLook).
	Named() (bool, error)
	// TakesWrites fails where the filesystem has stopped taking writes, as after an
	// error of its own. A flush that was under way when it stopped may have succeeded
	// for bytes that are gone: whoever relies on one asks this after it.
	TakesWrites() error
	// Perform runs op on the calling goroutine, blocking, and returns bytes
	// written and an *Error. It sets op.Pieces. Pool workers and the inline
	// route use it.
	Perform(op *Op) (int, error)
	// Close releases the file. The caller has made sure that no op names it.
	Close() error
}

// Descriptor is implemented by files that have a kernel descriptor.
type Descriptor interface{ FD() int }

// Unwrapper is implemented by files that wrap another.
type Unwrapper interface{ Unwrap() File }

// FD returns the kernel descriptor behind f, looking through wrappers.
func FD(f File) (int, bool) {
	for f != nil {
		if d, ok := f.(Descriptor); ok {
			return d.FD(), true
		}
		u, ok := f.(Unwrapper)
		if !ok {
			return -1, false
		}
		f = u.Unwrap()
	}
	return -1, false
}

// Entry is one name in a directory.
type Entry struct {
	Name string
	// Type holds the type bits only; 0 is a regular file.
	Type fs.FileMode
}

// Info describes a name.
type Info struct {
	Mode fs.FileMode
	// Size is in bytes.
	Size int64
	// Dev and Ino identify the file behind the name.
	Dev, Ino uint64
}

// Space describes a filesystem.
type Space struct {
	// Type is the filesystem's name ("ext4", "xfs", "tmpfs", …), or
	// "0x…" for an unknown magic number.
	Type string
	// FreeBytes and FreeInodes are what an unprivileged writer may still take.
	// FreeInodes is -1 where the filesystem does not count them.
	FreeBytes, FreeInodes int64
	// TotalBytes is the filesystem's size.
	TotalBytes int64
}
