package uring

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"felix.local/felix/device"
)

const stressFor = 2500 * time.Millisecond

// load runs durable buffered writes and flushes of several files until stop is
// closed, checks every result, and then the bytes.
func load(t *testing.T, r *Ring, stop <-chan struct{}) {
	var all sync.WaitGroup
	var total atomic.Int64
	for p := range 16 {
		file := newFile(t)
		all.Go(func() {
			const blocks = 32
			last := make([][]byte, blocks)
			for round := 0; ; round++ {
				select {
				case <-stop:
					for i, want := range last {
						got := make([]byte, len(want))
						if _, err := file.ReadAt(got, int64(i)*4096); len(want) > 0 && (err != nil || string(got) != string(want)) {
							t.Errorf("publisher %d: block %d differs (%v)", p, i, err)
						}
					}
					return
				default:
				}
				at := round % blocks
				op := &device.Op{Kind: device.WriteDsync, File: file, Buf: pattern(4096, byte(round+p)), Pos: int64(at) * 4096}
				if err := device.Do(r, op); err != nil {
					t.Errorf("publisher %d: %v", p, err)
					return
				}
				last[at] = op.Buf
				if round%8 == 0 {
					if err := device.Do(r, &device.Op{Kind: device.Flush, File: file}); err != nil {
						t.Errorf("publisher %d: %v", p, err)
						return
					}
				}
				total.Add(1)
			}
		})
	}
	all.Wait()
	s := r.Stats()
	t.Logf("%d durable writes, given back by the kernel: %d again, %d cancelled, %.1f entries per call",
		total.Load(), s.ResubmitAgain, s.ResubmitCanceled, float64(s.EnterOps)/float64(s.Enters))
}

// stopAfter is closed when d has passed.
func stopAfter(d time.Duration) <-chan struct{} {
	stop := make(chan struct{})
	time.AfterFunc(d, func() { close(stop) })
	return stop
}

// TestThreadsThatEndTakeNoOpWithThem ends threads all the time, among them those
// the loop has just submitted from. What the kernel cancels for that is issued
// again, and every caller gets success.
func TestThreadsThatEndTakeNoOpWithThem(t *testing.T) {
	threads := make(map[int]bool) // the loop's; looked at after Close
	move := new(atomic.Bool)
	r := openRing(t, Options{Hooks: Hooks{Gather: func() {
		threads[unix.Gettid()] = true
		if !move.CompareAndSwap(true, false) {
			return
		}
		// End the very thread the loop has submitted from: a goroutine that is
		// locked to it and returns takes it along. The loop goes on elsewhere.
		here := unix.Gettid()
		ended := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			if unix.Gettid() != here {
				runtime.UnlockOSThread() // the scheduler chose another thread
			}
			close(ended)
		}()
		<-ended
	}}})
	stop := stopAfter(stressFor)
	var killers sync.WaitGroup
	var killed atomic.Int64
	killers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			ended := make(chan struct{})
			go func() {
				runtime.LockOSThread() // and never unlock: the thread ends
				runtime.Gosched()
				killed.Add(1)
				close(ended)
			}()
			<-ended
			move.Store(true)
		}
	})
	load(t, r, stop)
	killers.Wait()
	closeRing(t, r)
	t.Logf("%d threads ended; the loop ran on %d", killed.Load(), len(threads))
	if len(threads) < 2 || killed.Load() < 100 {
		t.Errorf("too few: %d threads ended; the loop ran on %d", killed.Load(), len(threads))
	}
}

// TestCollectionsAndSignalsDisturbNothing collects garbage and sends the process
// the scheduler's own signal all the time.
func TestCollectionsAndSignalsDisturbNothing(t *testing.T) {
	r := openRing(t, Options{})
	stop := stopAfter(stressFor)
	var noise sync.WaitGroup
	noise.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	})
	noise.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				t.Logf("%d rounds of signals", n)
				return
			default:
			}
			tasks, err := os.ReadDir("/proc/self/task")
			if err != nil {
				t.Error(err)
				return
			}
			for _, task := range tasks {
				var tid int
				if _, err := fmt.Sscan(task.Name(), &tid); err == nil {
					// A thread may have ended; and kernel workers take no signals.
					_ = unix.Tgkill(os.Getpid(), tid, syscall.SIGURG)
				}
			}
			runtime.Gosched()
		}
	})
	load(t, r, stop)
	noise.Wait()
	closeRing(t, r)
}

// TestKernelWorkersStayUnderTheirBound counts kernel workers by the thread they
// work for while many flushes are under way. A thread keeps its idle workers, and
// the maximum of the ring it used first, so no other ring may have been there.
func TestKernelWorkersStayUnderTheirBound(t *testing.T) {
	if !inChild(t) {
		return
	}
	const bound = 3
	r := openRing(t, Options{Workers: bound})
	defer closeRing(t, r)
	if errno := r.Info().WorkersRefused; errno != 0 {
		t.Skipf("this kernel takes no worker maximum: %v", errno)
	}
	if got := r.Info().WorkersBounded; got != bound {
		t.Errorf("the kernel says %d workers, want %d", got, bound)
	}
	files := make([]device.File, 16)
	for i := range files {
		files[i] = newFile(t)
	}
	most := 0
	for range 20 {
		var ops []*device.Op
		for _, f := range files {
			ops = append(ops, &device.Op{Kind: device.WriteDsync, File: f, Buf: pattern(8192, 1)}, &device.Op{Kind: device.Flush, File: f})
		}
		r.Submit(ops...)
		for _, op := range ops {
			most = max(most, mostWorkers(t))
			if err := op.Wait(); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("at most %d workers for one thread", most)
	// A worker that is ending may still be listed while its successor starts.
	if most > bound+1 {
		t.Errorf("%d workers for one thread, want at most %d", most, bound)
	}
}

// mostWorkers returns the largest number of kernel workers any thread has.
func mostWorkers(t *testing.T) int {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	owners := make(map[string]int)
	for _, task := range tasks {
		name, err := os.ReadFile("/proc/self/task/" + task.Name() + "/comm")
		if owner, ok := strings.CutPrefix(string(name), "iou-wrk-"); err == nil && ok {
			owners[owner]++
		}
	}
	most := 0
	for _, n := range owners {
		most = max(most, n)
	}
	return most
}

func TestManyRingsComeAndGo(t *testing.T) {
	before := descriptors(t)
	for range 50 {
		r := openRing(t, Options{Entries: 32})
		op := &device.Op{Kind: device.Write, File: newFile(t), Buf: []byte("x")}
		if err := device.Do(r, op); err != nil {
			t.Fatal(err)
		}
		closeRing(t, r)
	}
	for _, target := range descriptors(t) {
		if strings.Contains(target, "io_uring") && !slices.Contains(before, target) {
			t.Errorf("left open: %s", target)
		}
	}
}

func descriptors(t *testing.T) (targets []string) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			targets = append(targets, e.Name()+" "+target)
		}
	}
	return targets
}
