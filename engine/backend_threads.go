package engine

import (
	"fmt"
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ThreadLimits are what the threads of this process count against, together with
// those of other processes. math.MaxUint64 is no limit.
//
// The kernel's worker threads behind a ring count too. Where they take the last
// place, the Go runtime cannot start a thread and ends the process, so the worker
// counts of both backends are kept well below.
type ThreadLimits struct {
	// User is RLIMIT_NPROC, for all threads of the user. It does not bind root.
	User uint64
	// Cgroup is the least pids.max of the control groups around this process.
	Cgroup uint64
}

// FindThreadLimits asks the system.
func FindThreadLimits() ThreadLimits { return findThreadLimits(readTrimmed) }

func findThreadLimits(readFile func(path string) (string, error)) ThreadLimits {
	l := ThreadLimits{User: math.MaxUint64, Cgroup: math.MaxUint64}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &limit); err == nil {
		l.User = limit.Cur // RLIM_INFINITY is the largest number
	}
	groups, err := readFile("/proc/self/cgroup")
	if err != nil {
		return l
	}
	for line := range strings.Lines(groups) {
		// hierarchy:controllers:path, with no controllers in version 2.
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		switch fields[1] {
		case "":
			l.Cgroup = min(l.Cgroup, leastPids(readFile, "/sys/fs/cgroup", fields[2]))
		case "pids":
			l.Cgroup = min(l.Cgroup, leastPids(readFile, "/sys/fs/cgroup/pids", fields[2]))
		}
	}
	return l
}

// leastPids reads the limit of a group and of all above it. In a container the
// path may be that of the host, and only a group above it be there.
func leastPids(readFile func(path string) (string, error), mount, group string) uint64 {
	least := uint64(math.MaxUint64)
	for group = path.Clean("/" + group); ; group = path.Dir(group) {
		if text, err := readFile(path.Join(mount, group, "pids.max")); err == nil {
			if n, err := strconv.ParseUint(text, 10, 64); err == nil { // not a number: "max"
				least = min(least, n)
			}
		}
		if group == "/" {
			return least
		}
	}
}

func readTrimmed(path string) (string, error) {
	b, err := os.ReadFile(path)
	return strings.TrimSpace(string(b)), err
}

// Least is the limit that binds first.
func (l ThreadLimits) Least() uint64 { return min(l.User, l.Cgroup) }

// String names both limits.
func (l ThreadLimits) String() string {
	return fmt.Sprintf("ulimit -u %s, pids.max %s", threadCount(l.User), threadCount(l.Cgroup))
}

func threadCount(n uint64) string {
	if n == math.MaxUint64 {
		return "unlimited"
	}
	return strconv.FormatUint(n, 10)
}

const (
	// workersShare: one part of so many of the limit is for the kernel's workers.
	workersShare = 3
	// threadsBeside are threads that the loop of a ring may come by besides those
	// that run Go code at once.
	threadsBeside = 2
)

// ringWorkers is how many kernel workers each thread that submits to a ring may
// have, at most most; 0 is no room. A third of the limit is for them. The loop of the ring moves
// between the threads that run Go code, and every one it was on keeps its workers.
func (l ThreadLimits) ringWorkers(most int) int {
	return atMost(most, l.Least()/threadsFor(1))
}

// poolWorkers is how many threads the pool may block, at most most: a quarter of
// the limit.
func (l ThreadLimits) poolWorkers(most int) int {
	return max(1, atMost(most, l.Least()/4))
}

func atMost(most int, n uint64) int { return int(min(uint64(max(most, 0)), n)) }
