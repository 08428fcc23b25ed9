package uring

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"felix.local/felix/device"
	"felix.local/felix/fallback"
)

// The benchmarks of this file put a number beside each choice in how the ring is
// used, and beside what was not chosen:
//
//	FELIX_BENCH_DIR=DIR go test -run '^$' -bench Tuning -benchtime 2000x ./uring
//
// DIR lies on the filesystem to measure; files in it are removed again. What depends on
// the filesystem is measured on XFS too, where root may mount one. Unset, the
// directory for temporary files is taken. A row that the kernel or the filesystem
// does not allow is skipped; -v prints why. cpu-ns/op is the processor time of the
// whole process, and ops/enter is how many operations one io_uring_enter carried.

// BenchmarkTuningLink makes 4 KiB durable as one write with RWF_DSYNC, as a write
// and a linked fdatasync in one submission, and as a write with an fdatasync
// submitted after its completion. One goroutine submits and reaps.
func BenchmarkTuningLink(b *testing.B) {
	for _, s := range []shape{growing, overwritten} {
		for _, files := range []int{1, 16} {
			for _, way := range []string{"dsync", "link", "wait"} {
				b.Run(fmt.Sprintf("%s/files=%d/%s", s, files, way), func(b *testing.B) {
					lanes := openLanes(b, s, files, tuningBlock)
					drive(b, openRaw(b, tuned{}), lanes, func(_ int, l *lane) chain { return durableChain(l, way) })
				})
			}
		}
	}
}

func durableChain(l *lane, way string) chain {
	write, flush := rawWrite(l, way == "dsync"), flushEntry(l.file.FD(), true)
	switch way {
	case "link":
		write.flags |= entryLink
		return chain{{write, flush}}
	case "wait":
		return chain{{write}, {flush}}
	default:
		return chain{{write}}
	}
}

func rawWrite(l *lane, dsync bool) sqe {
	return writeEntry(l.file.FD(), unsafe.Pointer(&l.buf[0]), uint32(len(l.buf)), 0, dsync)
}

// BenchmarkTuningSetup makes 4 KiB durable with one RWF_DSYNC write, on rings with
// different setup flags: through the Ring, whose loop runs beside the publishers,
// and raw, where one goroutine submits and reaps. That goroutine is locked to its
// thread or free; SINGLE_ISSUER and with it DEFER_TASKRUN forbid the latter.
func BenchmarkTuningSetup(b *testing.B) {
	for _, t := range []tuned{
		{name: "plain"},
		{name: "plain", locked: true},
		{name: "coop", flags: setupCoopTaskrun},
		{name: "coop", flags: setupCoopTaskrun, locked: true},
		{name: "single", flags: setupSingleIssuer, locked: true},
		{name: "single+coop", flags: setupSingleIssuer | setupCoopTaskrun, locked: true},
		{name: "single+defer", flags: setupSingleIssuer | setupDeferTaskrun, locked: true},
	} {
		for _, s := range []shape{overwritten, growing} {
			for _, files := range []int{1, 64} {
				b.Run(fmt.Sprintf("%s/%s/files=%d/ring", t, s, files), func(b *testing.B) {
					lanes := openLanes(b, s, files, tuningBlock)
					r := openTuned(b, t)
					publish(b, lanes, through(r, device.WriteDsync)).report(r.Stats().Enters)
				})
				b.Run(fmt.Sprintf("%s/%s/files=%d/raw", t, s, files), func(b *testing.B) {
					lanes := openLanes(b, s, files, tuningBlock)
					if t.locked {
						runtime.LockOSThread()
						defer runtime.UnlockOSThread()
					}
					drive(b, openRaw(b, t), lanes, func(_ int, l *lane) chain { return durableChain(l, "dsync") })
				})
			}
		}
	}
}

// BenchmarkTuningRegistered overwrites and reads 4 KiB blocks of 64 files, with
// files and buffers registered in the ring and without. One goroutine submits and
// reaps.
func BenchmarkTuningRegistered(b *testing.B) {
	for _, kind := range []string{"write", "read"} {
		for _, files := range []string{"plain", "registered"} {
			for _, buffers := range []string{"plain", "registered"} {
				b.Run(fmt.Sprintf("%s/files=%s/buffers=%s", kind, files, buffers), func(b *testing.B) {
					lanes := openLanes(b, overwritten, 64, tuningBlock)
					d := openRaw(b, tuned{})
					if files == "registered" {
						registerAllFiles(b, d, lanes)
					}
					if buffers == "registered" {
						registerAllBuffers(b, d, lanes)
					}
					drive(b, d, lanes, func(i int, l *lane) chain {
						return registeredChain(i, l, kind == "read", files == "registered", buffers == "registered")
					})
				})
			}
		}
	}
}

// registeredChain names file and buffer by their place among the lanes where they
// are registered.
func registeredChain(index int, l *lane, read, fixedFile, fixedBuffer bool) chain {
	e := rawWrite(l, !read)
	switch {
	case read && fixedBuffer:
		e.opcode = opReadFixed
	case read:
		e.opcode = opRead
	case fixedBuffer:
		e.opcode = opWriteFixed
	}
	if fixedBuffer {
		e.bufIndex = uint16(index)
	}
	if fixedFile {
		e.fd = int32(index)
		e.flags |= entryFixedFile
	}
	return chain{{e}}
}

func registerAllFiles(b *testing.B, d driver, lanes []*lane) {
	b.Helper()
	var fds []int32
	for _, l := range lanes {
		fds = append(fds, int32(l.file.FD()))
	}
	if errno := d.register(registerFiles, unsafe.Pointer(&fds[0]), uint32(len(fds))); errno != 0 {
		b.Skipf("the kernel registers no files: %v", errno)
	}
	runtime.KeepAlive(fds)
}

func registerAllBuffers(b *testing.B, d driver, lanes []*lane) {
	b.Helper()
	var buffers []unix.Iovec
	for _, l := range lanes {
		v := unix.Iovec{Base: &l.buf[0]}
		v.SetLen(len(l.buf))
		buffers = append(buffers, v)
	}
	if errno := d.register(registerBuffers, unsafe.Pointer(&buffers[0]), uint32(len(buffers))); errno != 0 {
		b.Skipf("the kernel registers no buffers (it counts them against RLIMIT_MEMLOCK): %v", errno)
	}
	runtime.KeepAlive(buffers)
}

// BenchmarkTuningWorkers appends 4 KiB with RWF_DSYNC to 64 growing files, with
// different maxima of kernel workers. threads-peak is the most threads the process
// had, workers and the Go runtime's together. The maximum is one of each thread that
// submits: a free loop may end up with as many on every thread it ran on.
func BenchmarkTuningWorkers(b *testing.B) {
	for _, locked := range []bool{false, true} {
		for _, workers := range []int{1, 2, 4, 8, 16, 64} {
			t := tuned{name: "plain", locked: locked, workers: workers}
			b.Run(fmt.Sprintf("%s/workers=%d", t, workers), func(b *testing.B) {
				if !alone(b) {
					return
				}
				lanes := openLanes(b, growing, 64, tuningBlock)
				r := openTuned(b, t)
				if errno := r.Info().WorkersRefused; errno != 0 {
					b.Skipf("the kernel takes no maximum of workers: %v", errno)
				}
				peak := watchThreads(b)
				m := publish(b, lanes, through(r, device.WriteDsync))
				b.ReportMetric(float64(peak()), "threads-peak")
				m.report(r.Stats().Enters)
			})
		}
	}
}

// alone carries out the row in a process of its own, where it is true, and reports
// what that process measured. Here, threads of the Go runtime would bring the
// maximum of a former row's ring along: the kernel does not apply a ring's maximum to
// a thread that has used another ring before.
func alone(b *testing.B) bool {
	b.Helper()
	if os.Getenv(childVariable) != "" {
		return true
	}
	row := "^" + strings.ReplaceAll(regexp.QuoteMeta(b.Name()), "/", "$/^") + "$"
	c := exec.Command(os.Args[0], "-test.run=^$", "-test.bench="+row, fmt.Sprintf("-test.benchtime=%dx", b.N), "-test.v")
	c.Env = append(os.Environ(), childVariable+"=1")
	out, err := c.CombinedOutput()
	if err != nil {
		b.Fatalf("in a process of its own: %v\n%s", err, out)
	}
	if strings.Contains(string(out), "--- SKIP") {
		b.Skipf("in a process of its own:\n%s", out)
	}
	_, figures, _ := strings.Cut(string(out), fmt.Sprintf("\t%8d\t", b.N))
	figures, _, _ = strings.Cut(figures, "\n")
	for figure := range strings.SplitSeq(figures, "\t") {
		var value float64
		var unit string
		if _, err := fmt.Sscan(figure, &value, &unit); err != nil {
			b.Fatalf("a row of a process of its own: %v\n%s", err, out)
		}
		b.ReportMetric(value, unit)
	}
	return false
}

// watchThreads looks at the number of threads now and then, until the function it
// returns is called for the most there were. Kernel workers stay for five idle
// seconds, so it need not look often.
func watchThreads(b *testing.B) (peak func() int) {
	b.Helper()
	count := func() int {
		var s unix.Stat_t
		if err := unix.Stat("/proc/self/task", &s); err != nil {
			b.Error(err)
		}
		return int(s.Nlink) - 2 // a directory for each thread
	}
	stop, most := make(chan struct{}), make(chan int)
	go func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		seen := count()
		for {
			select {
			case <-tick.C:
				seen = max(seen, count())
			case <-stop:
				most <- max(seen, count())
				return
			}
		}
	}()
	peak = sync.OnceValue(func() int {
		close(stop)
		return <-most
	})
	b.Cleanup(func() { peak() }) // also where the row fails
	return peak
}

// BenchmarkTuningIdleSubmit makes 4 KiB durable, one write after the other: by a
// caller that enters the kernel ring itself and waits in the same call, through the
// Ring, and with a blocking pwritev2. The first is the least that a Ring could take
// whose callers submit while nothing is in flight; it leaves out their exclusion.
func BenchmarkTuningIdleSubmit(b *testing.B) {
	for _, s := range []shape{overwritten, growing} {
		for _, route := range []string{"enter", "ring", "pwritev2"} {
			b.Run(fmt.Sprintf("%s/%s", s, route), func(b *testing.B) {
				lanes := openLanes(b, s, 1, tuningBlock)
				switch route {
				case "enter":
					drive(b, openRaw(b, tuned{}), lanes, func(_ int, l *lane) chain { return durableChain(l, "dsync") })
				case "ring":
					r := openTuned(b, tuned{})
					publish(b, lanes, through(r, device.WriteDsync)).report(r.Stats().Enters)
				default:
					publish(b, lanes, byCaller(device.WriteDsync)).report(0)
				}
			})
		}
	}
}

// BenchmarkTuningInline appends to the page cache, without making it durable: with
// a pwrite of the caller and through the Ring.
func BenchmarkTuningInline(b *testing.B) {
	for _, bytes := range []int{200, tuningBlock} {
		for _, files := range []int{1, 16} {
			b.Run(fmt.Sprintf("bytes=%d/files=%d/pwrite", bytes, files), func(b *testing.B) {
				publish(b, openLanes(b, growing, files, bytes), byCaller(device.Write)).report(0)
			})
			b.Run(fmt.Sprintf("bytes=%d/files=%d/ring", bytes, files), func(b *testing.B) {
				lanes := openLanes(b, growing, files, bytes)
				r := openTuned(b, tuned{})
				publish(b, lanes, through(r, device.Write)).report(r.Stats().Enters)
			})
		}
	}
}

// BenchmarkTuningFlush appends 4 KiB to each of 64 files and flushes them, all in one
// submission or one after the other. An op is the flush of one file; the appends are
// not measured.
func BenchmarkTuningFlush(b *testing.B) {
	for _, backend := range []string{"ring", "pool"} {
		for _, order := range []string{"together", "one-by-one"} {
			b.Run(fmt.Sprintf("%s/%s", backend, order), func(b *testing.B) {
				lanes := openLanes(b, growing, 64, tuningBlock)
				q := openQueue(b, backend)
				flushRounds(b, q, lanes, order == "together").report(q.Stats().Enters)
			})
		}
	}
}

// What the ring is for: 64 files that are written durably, each by a goroutine, through
// the ring and through the pool.
func BenchmarkTuningBackend(b *testing.B) {
	for _, s := range []shape{overwritten, growing} {
		for _, backend := range []string{"ring", "pool"} {
			b.Run(fmt.Sprintf("%s/files=64/%s", s, backend), func(b *testing.B) {
				lanes := openLanes(b, s, 64, tuningBlock)
				q := openQueue(b, backend)
				publish(b, lanes, through(q, device.WriteDsync)).report(q.Stats().Enters)
			})
		}
	}
}

func openQueue(b *testing.B, backend string) device.Queue {
	b.Helper()
	if backend == "ring" {
		return openTuned(b, tuned{})
	}
	p := fallback.Open(fallback.Options{})
	b.Cleanup(func() {
		if err := p.Close(); err != nil {
			b.Error(err)
		}
	})
	return p
}

// flushRounds dirties and flushes the lanes until b.N flushes were made.
func flushRounds(b *testing.B, q device.Queue, lanes []*lane, together bool) *meter {
	b.Helper()
	m := newMeter(b)
	for left := b.N; left > 0; left -= len(lanes) {
		lanes = lanes[:min(left, len(lanes))]
		var ops []*device.Op
		for _, l := range lanes {
			mustWork(b, byCaller(device.Write)(l))
			ops = append(ops, &device.Op{Kind: device.Flush, File: l.file})
		}
		m.start()
		err := flushAll(q, ops, together)
		m.stop()
		mustWork(b, err)
	}
	return m
}

// flushAll returns the last error there was, when every flush has completed.
func flushAll(q device.Queue, ops []*device.Op, together bool) (last error) {
	if together {
		q.Submit(ops...)
	}
	for _, op := range ops {
		if !together {
			q.Submit(op)
		}
		if err := op.Wait(); err != nil {
			last = err
		}
	}
	return last
}
