package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// memory is what the process holds, in bytes.
type memory struct {
	// heap is what is in use on the Go heap and on its stacks.
	heap int64
	// resident is all of it that is in memory, mapped memory included.
	resident    int64
	descriptors int
}

// held measures it, after collections that give back what is free: what a pool kept is
// free only after the second.
func held() (m memory, err error) {
	runtime.GC()
	runtime.GC()
	debug.FreeOSMemory()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	m.heap = int64(stats.HeapAlloc + stats.StackInuse)
	if m.resident, err = resident(); err != nil {
		return m, err
	}
	descriptors, err := os.ReadDir("/proc/self/fd")
	m.descriptors = len(descriptors)
	return m, err
}

// resident is the memory of the process that is not swapped out or given back, in
// bytes.
func resident() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if rest, found := strings.CutPrefix(line, "VmRSS:"); found {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/self/status does not tell VmRSS")
}

// kibEach is a difference in bytes as KiB for each of n.
func kibEach(after, before int64, n int) float64 { return float64(after-before) / 1024 / float64(n) }
