package engine_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
)

// failedKinds are the operations that are made to fail, each in its own runs; the
// workload makes every one of them in every mode.
var failedKinds = []faultdisk.Kinds{
	faultdisk.Write, faultdisk.WriteDsync, faultdisk.Flush, faultdisk.FlushDir, faultdisk.Allocate,
	faultdisk.Create, faultdisk.Open, faultdisk.OpenDir, faultdisk.Truncate, faultdisk.Remove, faultdisk.Mkdir,
}

var failedErrnos = []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EMFILE, syscall.EROFS}

// stride is how many operations lie between two that fail with this errno, so that
// the table takes seconds. Each operation still fails with at least one errno, and
// with two unless the race detector, which makes every cell slow, watches. The
// first two decide between what an I/O error and what a full disk means; the others
// have meanings of their own for a few operations only. FELIX_LONG_TESTS runs every
// cell.
func stride(errno int) int {
	switch {
	case long():
		return 1
	case raceDetector:
		return len(failedErrnos)
	case errno < 2:
		return 1
	default:
		return 4
	}
}

// landings are the ways in which a write can fail; other operations have one.
func landings(kind faultdisk.Kinds) []faultdisk.Lands {
	if kind&faultdisk.Writes != 0 {
		return []faultdisk.Lands{faultdisk.Nothing, faultdisk.Half, faultdisk.Everything}
	}
	return []faultdisk.Lands{faultdisk.Nothing}
}

// faultConfig rolls every few records, reserves ahead and leaves the timers
// nothing to do while a run lasts.
func faultConfig(mode engine.FsyncMode, background bool) engine.Config {
	c := testConfig()
	c.FsyncMode, c.FsyncInterval = mode, 1<<40
	c.SegmentBytes, c.IndexSpacingBytes = 1024, 128
	c.MarkSyncInterval = 0
	c.RetentionBytes, c.RetentionInterval = 1500, 1<<40
	if background {
		c.RolloverThresholdPercent = 50
	}
	return c
}

// The k-th operation of each kind fails, for every k until a run has fewer, with
// each errno, in every mode and with both ways of rolling: no acknowledgement
// without durability, typed errors, usable or poisoned as the table says, and
// the directory opens again with everything acknowledged.
func TestEveryFailureOfEveryOperationKeepsWhatWasPromised(t *testing.T) {
	var total atomic.Int64
	t.Cleanup(func() { t.Logf("%d cells", total.Load()) })
	for _, mode := range []engine.FsyncMode{engine.FsyncNone, engine.FsyncPeriodic, engine.FsyncOnCommit} {
		for _, background := range []bool{false, true} {
			name := mode.String() + " inline rolls"
			if background {
				name = mode.String() + " background rolls"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f := &faultMatrix{T: t, dir: fastDir(t), pool: sharedPool(t), mode: mode, background: background}
				for _, kind := range failedKinds {
					cells := f.kind(kind)
					t.Logf("%v: %d cells", kind, cells)
					if cells == 0 {
						t.Errorf("the workload makes no %v that could fail", kind)
					}
					total.Add(int64(cells))
				}
				t.Logf("outcomes: %v", f.outcomes)
			})
		}
	}
}

// faultMatrix runs the cells of one mode.
type faultMatrix struct {
	*testing.T
	dir        string
	pool       device.Queue
	mode       engine.FsyncMode
	background bool
	runs       int
	outcomes   map[string]int
}

func (f *faultMatrix) kind(kind faultdisk.Kinds) (cells int) {
	for i, errno := range failedErrnos {
		for _, lands := range landings(kind) {
			// Each errno begins at another operation, so that they share them out.
			for k := 1 + i%stride(i); f.cell(faultdisk.Fault{Kinds: kind, Errno: errno, Lands: lands, At: k}); k += stride(i) {
				cells++
			}
		}
	}
	if kind == faultdisk.Flush {
		// After a failed flush the kernel may drop what it could not write.
		for k := 1; f.cell(faultdisk.Fault{Kinds: kind, Errno: syscall.EIO, DropDirty: true, At: k}); k++ {
			cells++
		}
	}
	return cells
}

// cell runs the workload with one fault and reports whether the fault hit.
func (f *faultMatrix) cell(fault faultdisk.Fault) bool {
	f.runs++
	root := filepath.Join(f.dir, fmt.Sprint(f.runs))
	defer os.RemoveAll(root)
	w := newFaultWorld(root, f.pool, faultConfig(f.mode, f.background), faultdisk.Options{TrackDirty: fault.DropDirty})
	r := newFaultRun(context.Background(), w)
	injected := w.disk.Inject(fault)
	r.hit = func() bool { return injected.Hits() > 0 }
	r.workload()
	if injected.Hits() == 0 && len(r.errs) > 0 {
		r.problem("errors without a fault: %v", r.errs)
	}
	hit, found := hitOf(w.disk.Log(faultdisk.All), fault.Errno, r.hitStep)
	got := r.judge(fault.Errno)
	r.faults = append(r.faults, w.mark.problems()...)
	r.verify(f.pool, fault.DropDirty)
	if found {
		r.step = "verdict"
		if want, ok := hit.expected(f.background); !ok || want&got == 0 {
			r.problem("%v, want %v", got, want)
		}
		if f.outcomes == nil {
			f.outcomes = make(map[string]int)
		}
		f.outcomes[got.String()]++
	}
	if len(r.faults) > 0 {
		f.Errorf("%v %v of %v (%v, landed %d, dropped %v) in step %q, number %d: %v\nerrors: %v",
			fault.Errno, hit.event, hit.role, hit.reserving, fault.Lands, fault.DropDirty, hit.step, fault.At, r.faults, r.errs)
	}
	return injected.Hits() > 0
}
