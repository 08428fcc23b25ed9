package device

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Lock locks the directory itself, not a file in it: a lock file that somebody
// deletes lets the next process in. The kernel drops the lock with the process,
// so it never goes stale.
func (OSFS) Lock(dir string, shared bool) (io.Closer, error) {
	for range repeatsMax {
		fd, err := openDirectory(dir)
		if err != nil {
			return nil, NewError("lock", dir, -1, err)
		}
		held, err := lockDescriptor(fd, dir, shared)
		if err != nil {
			unix.Close(fd)
			return nil, err
		}
		if held {
			return &dirLock{dir: dir, fd: fd}, nil
		}
		unix.Close(fd) // the name moved to another directory meanwhile
	}
	return nil, NewError("lock", dir, -1, errors.New("the directory keeps being replaced"))
}

// lockDescriptor takes the lock and reports whether dir still names what was
// locked.
func lockDescriptor(fd int, dir string, shared bool) (bool, error) {
	how := unix.LOCK_EX | unix.LOCK_NB
	if shared {
		how = unix.LOCK_SH | unix.LOCK_NB
	}
	var mine, named unix.Stat_t
	if err := unix.Fstat(fd, &mine); err != nil {
		return false, NewError("lock", dir, -1, err)
	}
	err := ignoreInterrupts(func() error { return unix.Flock(fd, how) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		pid := lockHolder(uint64(mine.Dev), mine.Ino, os.Getpid())
		return false, &LockedError{Dir: dir, PID: pid, Self: pid == os.Getpid()}
	}
	if err != nil {
		return false, NewError("lock", dir, -1, err)
	}
	if err := unix.Stat(dir, &named); err != nil {
		return false, NewError("lock", dir, -1, err)
	}
	return named.Dev == mine.Dev && named.Ino == mine.Ino, nil
}

type dirLock struct {
	dir    string
	fd     int
	closed atomic.Bool
}

// Close unlocks explicitly: a child process between fork and exec still has a
// copy of the descriptor, and closing ours alone would leave the lock to it.
func (l *dirLock) Close() error {
	if l.closed.Swap(true) {
		return NewError("unlock", l.dir, -1, fs.ErrClosed)
	}
	err := ignoreInterrupts(func() error { return unix.Flock(l.fd, unix.LOCK_UN) })
	if closeErr := unix.Close(l.fd); err == nil && !errors.Is(closeErr, unix.EINTR) {
		err = closeErr
	}
	return NewError("unlock", l.dir, -1, err)
}

// LockHolder names who holds the lock of a directory without taking it: a process
// id, as the kernel lists it, or 0 when nobody does or the kernel does not say.
// It is a hint; the answer may be old by the time it is read.
func LockHolder(dir string) int {
	var st unix.Stat_t
	if err := ignoreInterrupts(func() error { return unix.Stat(dir, &st) }); err != nil {
		return 0
	}
	return lockHolder(uint64(st.Dev), st.Ino, os.Getpid())
}

// lockHolder looks up who holds a flock on an inode: self when this process is
// among the holders, else the first one listed, else 0.
func lockHolder(dev, ino uint64, self int) int {
	f, err := os.Open("/proc/locks")
	if err != nil {
		return 0
	}
	defer f.Close()
	return findHolder(f, fmt.Sprintf("%02x:%02x:%d", unix.Major(dev), unix.Minor(dev), ino), self)
}

// findHolder reads lines such as
//
//	3: FLOCK  ADVISORY  WRITE 4711 fe:00:2097153 0 EOF
//
// A waiter has "->" in front of FLOCK and is no holder.
func findHolder(locks io.Reader, file string, self int) int {
	holder := 0
	lines := bufio.NewScanner(locks)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || fields[1] != "FLOCK" || fields[5] != file {
			continue
		}
		pid, err := strconv.Atoi(fields[4])
		if err != nil || pid <= 0 {
			continue // held from another pid namespace
		}
		if pid == self {
			return pid
		}
		if holder == 0 {
			holder = pid
		}
	}
	return holder
}
