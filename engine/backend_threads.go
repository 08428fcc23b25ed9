package engine

import (
	"fmt"
	"math"
	"os"
	"path"
	"runtime"
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

// goThreads is how many threads this program comes to without the workers of either
// backend, under load: those that run Go code, those inside inline operations, and some
// that wait in the kernel for other reasons.
func goThreads() uint64 { return uint64(runtime.GOMAXPROCS(0) + inlineMax + threadsBeside) }

// threadsBeside are the timer of the runtime, the poller, signals, and files that are
// opened, read and removed.
const threadsBeside = 6

// beyondGo is what the limit leaves when this program has its threads.
func (l ThreadLimits) beyondGo() uint64 { return l.Least() - min(l.Least(), goThreads()) }

// ringWorkers is how many kernel workers each thread that submits to a ring may
// have, at most most; 0 is no room. The loop of the ring moves between the threads
// that run Go code, whichever those are, and every one it was on keeps its workers
// for some seconds. So there is room for as many on each.
func (l ThreadLimits) ringWorkers(most int) int { return atMost(most, l.beyondGo()/goThreads()) }

// kernelWorkers is how many workers the kernel gives each thread that submits where
// nobody bounds them: four for each processor that is online, by many kernels on each
// NUMA node, and never more than there are entries.
func (s backendSystem) kernelWorkers(entries int) int {
	processors, known := s.countOnline("/sys/devices/system/cpu/online")
	if !known {
		return entries
	}
	nodes, known := s.countOnline("/sys/devices/system/node/online")
	if !known {
		nodes = 1 // a kernel that has none
	}
	return min(entries, 4*processors*nodes)
}

// countOnline counts the numbers of a list such as 0-3,8.
func (s backendSystem) countOnline(path string) (n int, ok bool) {
	text, err := s.readFile(path)
	if err != nil {
		return 0, false
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 16)
		if err != nil {
			return 0, false
		}
		to, err := strconv.ParseUint(last, 10, 16)
		if err != nil || to < from {
			return 0, false
		}
		n += int(to-from) + 1
	}
	return n, true
}

// threadsFor is the least limit that leaves room for so many workers behind a ring.
func threadsFor(workers int) uint64 { return uint64(workers+1) * goThreads() }

// poolWorkers is how many threads the pool may block, at most most: half of what the
// limit leaves.
func (l ThreadLimits) poolWorkers(most int) int { return max(1, atMost(most, l.beyondGo()/2)) }

func atMost(most int, n uint64) int { return int(min(uint64(max(most, 0)), n)) }
