package engine

import (
	"math"
	"os"
	"strings"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/fallback"
	"felix.local/felix/uring"
)

func TestTheLeastLimitOfControlGroupsIsFound(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  uint64
	}{
		"no control groups": {nil, math.MaxUint64},
		"version 2": {
			map[string]string{"/proc/self/cgroup": "0::/app/worker", "/sys/fs/cgroup/app/worker/pids.max": "200"},
			200,
		},
		"a group above is stricter": {
			map[string]string{
				"/proc/self/cgroup":                  "0::/app/worker",
				"/sys/fs/cgroup/app/worker/pids.max": "max", "/sys/fs/cgroup/app/pids.max": "70",
			},
			70,
		},
		"no limit": {
			map[string]string{"/proc/self/cgroup": "0::/app", "/sys/fs/cgroup/app/pids.max": "max"},
			math.MaxUint64,
		},
		"a container that sees its group as the root": {
			map[string]string{"/proc/self/cgroup": "0::/", "/sys/fs/cgroup/pids.max": "100"},
			100,
		},
		"version 1 with the host's path": {
			map[string]string{
				"/proc/self/cgroup":            "9:name=systemd:/x\n8:pids:/docker/f00\n0::/",
				"/sys/fs/cgroup/pids/pids.max": "50",
			},
			50,
		},
		"a path with a colon": {
			map[string]string{"/proc/self/cgroup": "0::/a:b", "/sys/fs/cgroup/a:b/pids.max": "9"},
			9,
		},
		"a line of another kind": {map[string]string{"/proc/self/cgroup": "nothing"}, math.MaxUint64},
	} {
		t.Run(name, func(t *testing.T) {
			got := findThreadLimits(func(path string) (string, error) {
				if text, ok := test.files[path]; ok {
					return text, nil
				}
				return "", os.ErrNotExist
			})
			if got.Cgroup != test.want {
				t.Errorf("got %d, want %d", got.Cgroup, test.want)
			}
			if got.User == 0 || got.Least() > got.User {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestWorkersThatNobodyBoundsFollowTheProcessors(t *testing.T) {
	for _, test := range []struct {
		cpus, nodes string
		entries     int
		want        int
	}{
		{"0", "0", 256, 4},
		{"0-1", "", 256, 8},
		{"0-3,8,10-11", "0", 256, 28},
		{"0-15", "0-1", 256, 128},
		{"0-63", "0", 128, 128},
		{"", "0", 256, 256},
		{"0-", "0", 256, 256},
		{"3-0", "0", 256, 256},
		{"all", "0", 256, 256},
		{"0-1", "?", 256, 8},
	} {
		files := map[string]string{"/sys/devices/system/cpu/online": test.cpus, "/sys/devices/system/node/online": test.nodes}
		s := backendSystem{readFile: func(path string) (string, error) { return files[path], nil }}
		if got := s.kernelWorkers(test.entries); got != test.want {
			t.Errorf("processors %q, nodes %q, %d entries: %d workers, want %d", test.cpus, test.nodes, test.entries, got, test.want)
		}
	}
}

// TestWorkersLeaveRoomForTheProcess: a Go program that cannot start a thread ends.
func TestWorkersLeaveRoomForTheProcess(t *testing.T) {
	own := goThreads()
	for _, limit := range []uint64{1, 2, own, own + 3, 2*own - 1, 2 * own, 100, 1000, 32768, math.MaxUint64} {
		for _, l := range []ThreadLimits{{User: limit, Cgroup: math.MaxUint64}, {User: math.MaxUint64, Cgroup: limit}} {
			ring, pool := l.ringWorkers(64), l.poolWorkers(32)
			if ring > 0 && own+uint64(ring)*own > limit {
				t.Errorf("%v: %d kernel workers on each of %d threads", l, ring, own)
			}
			if pool > 1 && own+uint64(pool) > limit {
				t.Errorf("%v: %d pool workers", l, pool)
			}
			if pool < 1 || ring > 64 || pool > 32 || (ring > 0) != (limit >= 2*own) {
				t.Errorf("%v: %d pool workers, %d kernel workers", l, pool, ring)
			}
		}
	}
	for workers := 1; workers <= 64; workers++ {
		enough := ThreadLimits{User: threadsFor(workers), Cgroup: math.MaxUint64}
		short := ThreadLimits{User: threadsFor(workers) - 1, Cgroup: math.MaxUint64}
		if enough.ringWorkers(64) != workers || short.ringWorkers(64) != workers-1 {
			t.Errorf("a limit of %d is said to be enough for %d workers and gives %d", enough.User, workers, enough.ringWorkers(64))
		}
	}
	none := ThreadLimits{User: math.MaxUint64, Cgroup: math.MaxUint64}
	if none.ringWorkers(64) != 64 || none.poolWorkers(32) != 32 {
		t.Error("without a limit there are fewer workers than asked for")
	}
}

func TestBothBackendsObeyTheLimitOfThreads(t *testing.T) {
	limits := ThreadLimits{User: threadsFor(3), Cgroup: math.MaxUint64}
	asked := 0
	system := backendSystem{
		kernel:  func() kernelID { return kernelID{release: "6.12.0"} },
		threads: func() ThreadLimits { return limits },
		openRing: func(o uring.Options) (ringQueue, error) {
			asked = o.Workers
			return fakeRing{fallback.Open(fallback.Options{Workers: 1}), on(nil)}, nil
		},
	}
	ring, b, err := selectBackend(device.OS(), t.TempDir(), IOURingRequire, backendOptions{system: system})
	if err != nil {
		t.Fatal(err)
	}
	if err := ring.Close(); err != nil {
		t.Error(err)
	}
	if asked != 3 || !strings.HasPrefix(b.Name, "ring") {
		t.Errorf("%v was opened with %d workers, want 3", b, asked)
	}
	pool, _, err := selectBackend(device.OS(), t.TempDir(), IOURingOff, backendOptions{system: system})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := pool.Stats().InFlightMax, min(DefaultPoolWorkers, int(limits.beyondGo()/2)); got != want {
		t.Errorf("the pool has %d workers, want %d", got, want)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
}
