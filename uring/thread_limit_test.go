package uring

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"felix.local/felix/device"
)

// TestALimitOnThreadsIsSurvivedOrNamed runs on the kernel's own limit, with not one
// thread to be had for a worker: an operation fails with the reason, and one that
// is still being tried again when the limit is raised succeeds.
func TestALimitOnThreadsIsSurvivedOrNamed(t *testing.T) {
	for name, row := range map[string]struct {
		retryTime time.Duration
		raise     bool
	}{
		"the limit stays":     {50 * time.Millisecond, false},
		"the limit is raised": {time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			if !inChild(t) {
				return
			}
			file := newFile(t)
			raise := noMoreThreads(t)
			seen := new(atomic.Int32)
			var r *Ring
			opened := make(chan struct{})
			o := Options{RetryTime: row.retryTime, Retries: 10}
			o.Hooks.Gather = func() {
				<-opened
				// The first pause has begun when more came back than are tried at once.
				if row.raise && r.Stats().ResubmitCanceled > retriesAtOnce && seen.CompareAndSwap(0, 1) {
					raise()
				}
			}
			r = openRing(t, o)
			close(opened)
			op := &device.Op{Kind: device.Flush, File: file}
			err := device.Do(r, op)
			back := r.Stats().ResubmitCanceled
			closeRing(t, r)
			t.Logf("given back %d times, then %v", back, err)
			if back == 0 && err == nil {
				t.Skip("the limit does not bind here")
			}
			var starved *WorkerError
			switch {
			case row.raise && (err != nil || seen.Load() == 0):
				t.Errorf("the limit was raised, and the flush ends with %v", err)
			case !row.raise && (!errors.As(err, &starved) || !errors.Is(err, syscall.ECANCELED)):
				t.Errorf("got %v, want the reason", err)
			}
		})
	}
}

// noMoreThreads makes this process one of a user whose threads are limited to those
// there are, until raise is called. The Go runtime gets enough idle threads before,
// because it ends the process when it cannot start one.
func noMoreThreads(t *testing.T) (raise func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root: how many threads this user has elsewhere is not known")
	}
	var ready, all sync.WaitGroup
	release := make(chan struct{})
	for range 24 {
		ready.Add(1)
		all.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ready.Done()
			<-release
		})
	}
	ready.Wait()
	close(release)
	all.Wait()
	// The runtime does not start a thread from a locked one: a thread of its own does
	// that, and may not have come to it. Stopping the world waits for it.
	var stopped runtime.MemStats
	runtime.ReadMemStats(&stopped)

	// Root is not limited, and keeps the way back for removing the test's files.
	const nobodyElse = 1_987_654_321
	if err := syscall.Setresuid(nobodyElse, nobodyElse, 0); err != nil {
		t.Skip("no other user to be had:", err)
	}
	t.Cleanup(func() {
		if err := syscall.Setresuid(0, 0, 0); err != nil {
			t.Error(err)
		}
	})
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &before); err != nil {
		t.Fatal(err)
	}
	set := func(soft uint64) {
		if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: soft, Max: before.Max}); err != nil {
			t.Error(err)
		}
	}
	set(uint64(len(tasks)))
	return func() { set(before.Cur) }
}
