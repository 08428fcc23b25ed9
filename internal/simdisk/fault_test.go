package simdisk_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/internal/simdisk"
)

// failing is a file with one durable page of a, overwritten with a page of b and
// one more behind it, whose next flush fails.
func failing(t *testing.T, fault simdisk.SyncFault) (*rig, device.File) {
	r := newRig(t)
	f := r.created("f")
	r.writeDsync(f, 0, fill('a', page))
	r.write(f, 0, fill('b', 2*page))
	r.FailSync(fault)
	return r, f
}

func flushFails(t *testing.T, r *rig, f device.File, want error) {
	t.Helper()
	err := device.Do(r.queue, &device.Op{Kind: device.Flush, File: f})
	var typed *device.Error
	if !errors.As(err, &typed) || !errors.Is(err, want) || typed.Path != f.Name() || typed.Op != "flush" {
		t.Fatal(err)
	}
}

func TestAFailedFlushThatKeepsThePagesShowsThemUntilTheCacheIsDropped(t *testing.T) {
	r, f := failing(t, simdisk.SyncFault{})
	flushFails(t, r, f, syscall.EIO)
	if got := summary(t, r.Disk, "f"); got != "b16" {
		t.Fatal(got)
	}
	r.flush(f) // succeeds: the pages count as clean
	r.must(f.DropCache(0))
	if got := summary(t, r.Disk, "f"); got != "a8 .8" {
		t.Fatal(got)
	}
}

func TestAFailedFlushThatRevertsShowsWhatTheDeviceHolds(t *testing.T) {
	r, f := failing(t, simdisk.SyncFault{Revert: true, Errno: syscall.ENOSPC})
	flushFails(t, r, f, device.ErrFull)
	if got := summary(t, r.Disk, "f"); got != "a8 .8" {
		t.Fatal(got)
	}
}

func TestAFlushAfterAFailedOneSucceedsWithoutTheData(t *testing.T) {
	for _, revert := range []bool{false, true} {
		r, f := failing(t, simdisk.SyncFault{Revert: revert})
		flushFails(t, r, f, syscall.EIO)
		r.flush(f)
		for state := range outcomes(t, r.Disk, func(d *simdisk.Disk) string { return summary(t, d, "f") }) {
			if state != "a8 .8" { // the length is durable, the bytes are not
				t.Fatalf("reverted %v: %s", revert, state)
			}
		}
	}
}

func TestWritingAPageAgainMakesItDirtyAfterAFailedFlush(t *testing.T) {
	r, f := failing(t, simdisk.SyncFault{})
	flushFails(t, r, f, syscall.EIO)
	r.write(f, 0, fill('c', 1))
	r.flush(f)
	r.must(f.DropCache(0))
	// The whole page went, with bytes that the failed flush was to write; the
	// other page did not.
	if got := summary(t, r.Disk, "f"); got != "c1b b4095b .8" {
		t.Fatal(got)
	}
}

func TestAFailedFlushMayHaveWrittenSomePages(t *testing.T) {
	seen := map[string]bool{}
	for seed := uint64(1); seed < 50; seed++ {
		r, f := failing(t, simdisk.SyncFault{Partly: seed})
		flushFails(t, r, f, syscall.EIO)
		r.flush(f)
		r.must(f.DropCache(0))
		seen[summary(t, r.Disk, "f")] = true
	}
	if len(seen) != 4 {
		t.Fatal(seen)
	}
}

func TestADsyncWriteWhoseSyncFailsLandsAndCountsAsClean(t *testing.T) {
	for _, revert := range []bool{false, true} {
		r := newRig(t)
		f := r.created("f")
		r.writeDsync(f, 0, fill('a', page))
		r.FailSync(simdisk.SyncFault{Revert: revert, Kinds: []device.Kind{device.WriteDsync}})
		op := &device.Op{Kind: device.WriteDsync, File: f, Buf: fill('b', page), Pos: 0}
		if err := device.Do(r.queue, op); !errors.Is(err, syscall.EIO) || op.N != 0 {
			t.Fatal(op.N, err)
		}
		want := "b8"
		if revert {
			want = "a8"
		}
		if got := summary(t, r.Disk, "f"); got != want {
			t.Fatalf("reverted %v: %s", revert, got)
		}
		r.flush(f)
		if got := summary(t, r.Crash(simdisk.CrashOptions{}), "f"); got != "a8" {
			t.Fatalf("reverted %v, after a power loss: %s", revert, got)
		}
	}
}

func TestAFailedDirectoryFlushLeavesTheNamesOpenForGood(t *testing.T) {
	r := newRig(t)
	r.create("f")
	r.FailSync(simdisk.SyncFault{Dirs: true})
	dir, err := r.OpenDir(root)
	r.must(err)
	op := &device.Op{Kind: device.FlushAll, File: dir}
	if err := device.Do(r.queue, op); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	r.do(op) // succeeds and proves nothing
	if got := outcomes(t, r.Disk, func(d *simdisk.Disk) string { return summary(t, d, "f") }); got["gone"] == 0 || got[""] == 0 {
		t.Fatal(got)
	}
	r.create("g")
	r.do(op)
	images(r.Disk, func(seed uint64, image *simdisk.Disk) {
		if summary(t, image, "g") == "gone" {
			t.Fatalf("seed %d: a name made after the failure is gone", seed)
		}
	})
}

func TestASyncFaultHitsOnlyWhatMatches(t *testing.T) {
	r := newRig(t)
	f, g := r.created("f"), r.created("g")
	r.FailSync(simdisk.SyncFault{
		Files: true, At: 2, Times: 2, Path: func(path string) bool { return strings.HasSuffix(path, "/g") },
	})
	results := ""
	for range 4 {
		for _, file := range []device.File{f, g} {
			if device.Do(r.queue, &device.Op{Kind: device.Flush, File: file}) == nil {
				results += "."
			} else {
				results += "x"
			}
		}
		r.flushDir(root)
	}
	if results != "...x.x.." {
		t.Fatal(results)
	}
	if n := r.Counts().FailedSyncs; n != 2 {
		t.Fatal(n)
	}
}

func TestDropCacheKeepsDirtyPages(t *testing.T) {
	r := newRig(t)
	f := r.created("f")
	r.writeDsync(f, 0, fill('a', 2*page))
	r.write(f, page, fill('b', page))
	r.must(f.DropCache(0))
	if got := summary(t, r.Disk, "f"); got != "a8 b8" {
		t.Fatal(got)
	}
}

func TestDropCacheDoesNotBringBackWhatWasCutOff(t *testing.T) {
	r := newRig(t)
	f := r.created("f")
	r.writeDsync(f, 0, fill('a', 3*page))
	r.must(f.Truncate(page))
	r.must(f.Truncate(3 * page))
	r.must(f.DropCache(0))
	if got := summary(t, r.Disk, "f"); got != "a8 .16" {
		t.Fatal(got)
	}
}

func TestAProcessDeathKeepsThePageCache(t *testing.T) {
	r := newRig(t)
	f := r.create("f")
	r.write(f, 0, fill('a', page))
	death := r.Crash(simdisk.CrashOptions{Kind: simdisk.ProcessDeath})
	if got := summary(t, death, "f"); got != "a8" {
		t.Fatal(got)
	}
	if got := outcomes(t, death, func(d *simdisk.Disk) string { return summary(t, d, "f") }); got["gone"] == 0 || got["a8"] == 0 || got[""] == 0 {
		t.Fatal("a power loss after it takes what was not synced:", got)
	}
	after := rigOn(t, death)
	after.flush(after.open("f", device.ReadWrite))
	after.flushDir(root)
	images(death, func(seed uint64, image *simdisk.Disk) {
		if got := summary(t, image, "f"); got != "a8" {
			t.Fatalf("seed %d: synced after the process death, and then lost: %s", seed, got)
		}
	})
}

func TestAProcessDeathRightAfterAFailedFlushHidesTheLoss(t *testing.T) {
	r, f := failing(t, simdisk.SyncFault{})
	flushFails(t, r, f, syscall.EIO)
	after := rigOn(t, r.Crash(simdisk.CrashOptions{Kind: simdisk.ProcessDeath}))
	g := after.open("f", device.ReadWrite)
	if got := summary(t, after.Disk, "f"); got != "b16" {
		t.Fatal(got)
	}
	after.flush(g)
	if got := summary(t, after.Crash(simdisk.CrashOptions{}), "f"); got != "a8 .8" {
		t.Fatal(got)
	}
	after.must(g.DropCache(0))
	if got := summary(t, after.Disk, "f"); got != "a8 .8" {
		t.Fatal(got)
	}
}

func TestAnImageHasNoLocksHeld(t *testing.T) {
	r := newRig(t)
	lock, err := r.Lock(root, false)
	r.must(err)
	defer lock.Close()
	image, err := r.Crash(simdisk.CrashOptions{Kind: simdisk.ProcessDeath}).Lock(root, false)
	r.must(err)
	r.must(image.Close())
}

// TestFaultsByNumberComposeWithCrashes puts a faultdisk over the simulated disk:
// the k-th operation fails for every k, and what a power loss leaves then is what
// the operations before it made durable.
func TestFaultsByNumberComposeWithCrashes(t *testing.T) {
	for k := 1; k <= 5; k++ {
		d := newDisk()
		faulty := faultdisk.New(d, d.NewQueue(simdisk.QueueOptions{Mode: simdisk.Adversarial, Seed: uint64(k)}), faultdisk.Options{})
		fault := faulty.Inject(faultdisk.Fault{At: k, Errno: syscall.EREMOTEIO})
		steps := []func() error{}
		var f, dir device.File
		do := func(op *device.Op) error { return device.Do(faulty.Queue(), op) }
		steps = append(steps,
			func() (err error) { f, err = faulty.FS().OpenFile(path("f"), device.CreateNew, 0o640); return err },
			func() (err error) {
				if dir, err = faulty.FS().OpenDir(root); err != nil {
					return err
				}
				return do(&device.Op{Kind: device.FlushAll, File: dir})
			},
			func() error { return do(&device.Op{Kind: device.Write, File: f, Buf: fill('a', page)}) },
			func() error { return do(&device.Op{Kind: device.Flush, File: f}) },
			func() error { return do(&device.Op{Kind: device.WriteDsync, File: f, Buf: fill('b', page), Pos: page}) },
		)
		done := 0
		for _, step := range steps {
			if err := step(); err != nil {
				if !errors.Is(err, syscall.EREMOTEIO) {
					t.Fatalf("k=%d: %v", k, err)
				}
				break
			}
			done++
		}
		if done != k-1 || fault.Hits() != 1 {
			t.Fatalf("k=%d: %d steps done, %d hits", k, done, fault.Hits())
		}
		for state := range outcomes(t, d, func(d *simdisk.Disk) string { return summary(t, d, "f") }) {
			switch {
			case done < 2 && state != "gone" && state != "",
				done >= 2 && state == "gone",
				done == 4 && state != "a8":
				t.Fatalf("k=%d: %s", k, state)
			}
		}
		if err := faulty.Queue().Close(); err != nil {
			t.Fatal(err)
		}
	}
}
