package main

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"felix.local/felix/engine"
	"felix.local/felix/uring"
)

// kernelReport is what the kernel says of itself.
type kernelReport struct {
	Release string `json:"release"`
	CPUs    int    `json:"cpus"`
	// IOURingDisabled is the sysctl kernel.io_uring_disabled: 0 everyone may,
	// 1 only a group and the privileged, 2 nobody; empty where it does not exist.
	IOURingDisabled string `json:"io_uring_disabled"`
	// Seccomp is "none", "strict" or "filter": a filter may deny io_uring.
	Seccomp string `json:"seccomp"`
}

func (d *doctor) kernel() kernelReport {
	report := kernelReport{CPUs: runtime.NumCPU(), Seccomp: seccomp()}
	var name unix.Utsname
	if err := unix.Uname(&name); err == nil {
		report.Release = unix.ByteSliceToString(name.Release[:])
	}
	if text, err := os.ReadFile("/proc/sys/kernel/io_uring_disabled"); err == nil {
		report.IOURingDisabled = strings.TrimSpace(string(text))
	}
	return report
}

func seccomp() string {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(status)) {
		if mode, found := strings.CutPrefix(line, "Seccomp:"); found {
			switch strings.TrimSpace(mode) {
			case "0":
				return "none"
			case "1":
				return "strict"
			case "2":
				return "filter"
			}
		}
	}
	return "unknown"
}

// ringReport is what opening a ring showed, whatever backend the store chooses.
type ringReport struct {
	Available bool   `json:"available"`
	Refused   string `json:"refused,omitempty"`
	Driver    string `json:"driver"`
	Entries   int    `json:"entries,omitempty"`
	CQEntries int    `json:"cq_entries,omitempty"`
	// Features and SetupFlags are names; bits without one are in hexadecimal.
	Features    []string `json:"features"`
	SetupFlags  string   `json:"setup_flags,omitempty"`
	Opcodes     []string `json:"opcodes"`
	OpcodeCount int      `json:"opcode_count,omitempty"`
	// The kernel's worker threads for file operations, as bounded here and as
	// the kernel would have it.
	WorkersMax           int    `json:"workers_max,omitempty"`
	WorkersKernelDefault int    `json:"workers_kernel_default,omitempty"`
	WorkersRefused       string `json:"workers_refused,omitempty"`
	ProbeRefused         string `json:"probe_refused,omitempty"`
}

func (r ringReport) text() string {
	if !r.Available {
		return "not available: " + r.Refused
	}
	return fmt.Sprintf("driver %s, %d entries, %d completions, at most %d kernel workers (kernel default %d)",
		r.Driver, r.Entries, r.CQEntries, r.WorkersMax, r.WorkersKernelDefault)
}

// ring opens a ring and leaves it open for measuring; nil when there is none.
func (d *doctor) ring(report *ringReport) *uring.Ring {
	report.Driver = uring.DriverName
	report.Features, report.Opcodes = []string{}, []string{}
	ring, err := uring.Open(uring.Options{Entries: d.config.RingEntries, Workers: d.config.RingWorkersMax})
	if err != nil {
		report.Refused = err.Error()
		return nil
	}
	info := ring.Info()
	report.Available = true
	report.Entries, report.CQEntries = info.Entries, info.CQEntries
	report.Features, report.SetupFlags = ringFeatures(info.Features), fmt.Sprintf("%#x", info.SetupFlags)
	report.Opcodes, report.OpcodeCount = listed(info.Opcodes), info.OpcodeCount
	report.WorkersMax, report.WorkersKernelDefault = info.WorkersBounded, info.WorkersBoundedBefore
	if info.WorkersRefused != 0 {
		report.WorkersRefused = info.WorkersRefused.Error()
		d.warn("the kernel refused a bound on its worker threads (%v); many logs flushing at once may be slower", info.WorkersRefused)
	}
	if info.ProbeRefused != 0 {
		report.ProbeRefused = info.ProbeRefused.Error()
	}
	return ring
}

// ringFeatures names the kernel's feature bits, lowest first.
func ringFeatures(bits uint32) []string {
	names := [...]string{
		"single_mmap", "nodrop", "submit_stable", "rw_cur_pos", "cur_personality", "fast_poll", "poll_32bits",
		"sqpoll_nonfixed", "ext_arg", "native_workers", "rsrc_tags", "cqe_skip", "linked_file", "reg_reg_ring",
		"recvsend_bundle", "min_timeout", "rw_attr", "no_iowait",
	}
	features := []string{}
	for i, name := range names {
		if bits&(1<<i) != 0 {
			features = append(features, name)
		}
	}
	if rest := bits >> len(names) << len(names); rest != 0 {
		features = append(features, fmt.Sprintf("%#x", rest))
	}
	return features
}

// limitsReport are the process's limits, soft/hard.
type limitsReport struct {
	OpenFiles         string `json:"open_files"`
	LockedMemoryBytes string `json:"locked_memory_bytes"`
	// Threads is for all threads of the user, CgroupThreads for those of the
	// control groups around this process (pids.max).
	Threads       string `json:"threads"`
	CgroupThreads string `json:"cgroup_threads"`
}

func (r limitsReport) text() string {
	return fmt.Sprintf("open files %s, locked memory %s, threads %s, pids.max %s",
		r.OpenFiles, r.LockedMemoryBytes, r.Threads, r.CgroupThreads)
}

const (
	// openFilesLow is below what a store with a few hundred shards is comfortable with.
	openFilesLow = 1024
	// threadsLow is below what the workers of either backend come to by default
	// with what the program needs for itself.
	threadsLow = 256
)

func (d *doctor) limits() limitsReport {
	var files, locked, threads unix.Rlimit
	report := limitsReport{OpenFiles: "unknown", LockedMemoryBytes: "unknown", Threads: "unknown"}
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err == nil {
		report.OpenFiles = limitText(files)
		if files.Cur < openFilesLow {
			d.warn("at most %d open files; raise the limit (ulimit -n) to serve many shards at once", files.Cur)
		}
	}
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &locked); err == nil {
		report.LockedMemoryBytes = limitText(locked)
	}
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &threads); err == nil {
		report.Threads = limitText(threads)
	}
	found := engine.FindThreadLimits()
	report.CgroupThreads = limitNumber(found.Cgroup)
	d.judgeThreads(found)
	return report
}

// judgeThreads warns of a limit that leaves the store few workers.
func (d *doctor) judgeThreads(l engine.ThreadLimits) {
	if l.Least() < threadsLow {
		d.warn("at most %d threads (%v), the kernel's workers behind the ring among them; "+
			"raise ulimit -u and pids.max, or writes and flushes wait for each other", l.Least(), l)
	}
}

func limitText(l unix.Rlimit) string { return limitNumber(l.Cur) + "/" + limitNumber(l.Max) }

func limitNumber(n uint64) string {
	if n == math.MaxUint64 {
		return "unlimited"
	}
	return fmt.Sprint(n)
}

func environ() []string { return os.Environ() }
