package sidecar

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"felix.local/felix/device"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/internal/simdisk"
)

func TestTheStepsComeInTheirOrder(t *testing.T) {
	d := newDisk(t, filled('o', 28))
	fault := faultdisk.New(d, d.NewQueue(simdisk.QueueOptions{}), faultdisk.Options{})
	for _, c := range []struct {
		do   func() error
		want []string
	}{
		{
			func() error { return Replace(fault.FS(), fault.Queue(), dir, name, filled('n', 28), perm, true) },
			[]string{"create epochs.tmp", "write epochs.tmp 0+28", "flush epochs.tmp", "rename epochs.tmp epochs", "flush_dir shard"},
		},
		{
			func() error { return Replace(fault.FS(), fault.Queue(), dir, name, filled('n', 28), perm, false) },
			[]string{"create epochs.tmp", "write epochs.tmp 0+28", "rename epochs.tmp epochs"},
		},
		{
			func() error { return Remove(fault.FS(), fault.Queue(), dir, name) },
			[]string{"remove epochs", "flush_dir shard"},
		},
		{
			func() error { return Remove(fault.FS(), fault.Queue(), dir, name, KeysIndexName) },
			[]string{"remove epochs failed", "remove keys.idx failed", "flush_dir shard"}, // none is there any more
		},
	} {
		fault.ClearLog()
		must(t, c.do())
		var got []string
		var last faultdisk.Event
		for i, e := range fault.Log(faultdisk.Changes) {
			if i > 0 && !last.Before(e) {
				t.Errorf("%v began before %v had ended", e, last)
			}
			got, last = append(got, e.String()), e
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Error(diff)
		}
	}
}

// steps says where an operation that fails leaves a change.
func steps() map[faultdisk.Kinds]Step {
	return map[faultdisk.Kinds]Step{
		faultdisk.Create:   StepOpen,
		faultdisk.Write:    StepWrite,
		faultdisk.Flush:    StepFlush,
		faultdisk.Rename:   StepRename,
		faultdisk.Remove:   StepRemove,
		faultdisk.OpenDir:  StepDirectory,
		faultdisk.FlushDir: StepDirectory,
	}
}

// failing are the operations that a fault may hit. No file is opened by its name: a
// process without a free descriptor must not find that out behind the rename.
const failing = faultdisk.Changes | faultdisk.Open | faultdisk.OpenDir

func TestAFailureAnywhereLeavesTheOldFileOrTheNewOne(t *testing.T) {
	for what, c := range changes() {
		for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EMFILE, syscall.ENODATA} {
			for _, lands := range []faultdisk.Lands{faultdisk.Nothing, faultdisk.Half, faultdisk.Everything} {
				t.Run(fmt.Sprintf("%s, %v, lands %d", what, errno, lands), func(t *testing.T) {
					old, replacement := c[0], c[1]
					hits := 0
					for at := 1; ; at++ {
						d := newDisk(t, old)
						fault := faultdisk.New(d, d.NewQueue(simdisk.QueueOptions{}), faultdisk.Options{})
						change := func() error { return Replace(fault.FS(), fault.Queue(), dir, name, replacement, perm, true) }
						if !failsAt(t, d, fault, faultdisk.Fault{Kinds: failing, At: at, Errno: errno, Lands: lands}, old, replacement, change) {
							break
						}
						hits++
					}
					want := 6
					if len(replacement) == 0 {
						want-- // nothing is written
					}
					if hits != want {
						t.Errorf("%d operations failed, want %d", hits, want)
					}
				})
			}
		}
	}
}

func TestAFailureOfARemovalIsTold(t *testing.T) {
	old := filled('o', 28)
	for at := 1; at <= 3; at++ {
		d := newDisk(t, old)
		fault := faultdisk.New(d, d.NewQueue(simdisk.QueueOptions{}), faultdisk.Options{})
		change := func() error { return Remove(fault.FS(), fault.Queue(), dir, name) }
		if !failsAt(t, d, fault, faultdisk.Fault{Kinds: failing, At: at, Errno: syscall.EIO}, old, nil, change) {
			t.Errorf("operation %d was not there to fail", at)
		}
	}
}

// failsAt carries a change out with a fault in it, checks what is told and left,
// and then that trying again succeeds. It is false when the fault hit nothing.
func failsAt(t *testing.T, d *simdisk.Disk, disk *faultdisk.Disk, fault faultdisk.Fault, old, replacement content, change func() error) bool {
	t.Helper()
	injected := disk.Inject(fault)
	err := change()
	if injected.Hits() == 0 {
		must(t, err)
		return false
	}
	failed := slices.DeleteFunc(disk.Log(failing), func(e faultdisk.Event) bool { return e.Err == nil })
	if len(failed) != 1 {
		t.Fatalf("failed operations: %v", failed)
	}
	var told *ChangeError
	if !errors.As(err, &told) || !errors.Is(err, fault.Errno) || told.Path != dir+"/"+name || !strings.HasPrefix(err.Error(), dir+"/"+name+": "+string(told.Step)+": ") {
		t.Fatalf("%v failed: %v", failed[0], err)
	}
	if want := steps()[failed[0].Kind]; told.Step != want {
		t.Errorf("%v failed, and the step told is %q, want %q", failed[0], told.Step, want)
	}
	want := "old"
	if told.Step == StepDirectory {
		want = "new"
	}
	if which, err := is(d, old, replacement); err != nil || which != want {
		t.Errorf("%v failed, and left %q, %v; want %s", failed[0], which, err, want)
	}
	counts, err := survivors(d, old, replacement, 0x5eed0008)
	if err != nil {
		t.Errorf("%v failed, then a power loss: %v", failed[0], err)
	}
	if told.Unchanged() {
		if counts["new"] != 0 {
			t.Errorf("%v failed, and is told to have changed nothing; cuts left %v", failed[0], counts)
		}
		if _, err := d.Lstat(dir + "/" + TempName(name)); !device.IsNotExist(err) {
			t.Errorf("%v failed, and the temporary is still there: %v", failed[0], err)
		}
	}
	if err := change(); err != nil {
		t.Fatalf("trying again: %v", err)
	}
	if counts, err = survivors(d, old, replacement, 0x5eed0009); err != nil || counts["old"] != 0 {
		t.Errorf("after trying again cuts left %v, %v", counts, err)
	}
	return true
}

// TestAfterAFailedSyncTryingAgainIsSafe lets flushes fail as a kernel lets them:
// what was to be written counts as clean from then on.
func TestAfterAFailedSyncTryingAgainIsSafe(t *testing.T) {
	for what, c := range changes() {
		for _, fault := range []simdisk.SyncFault{
			{Files: true},
			{Files: true, Revert: true},
			{Files: true, Partly: 3},
			{Dirs: true},
			{Dirs: true, Partly: 3},
		} {
			t.Run(fmt.Sprintf("%s, %+v", what, fault), func(t *testing.T) {
				old, replacement := c[0], c[1]
				d := newDisk(t, old)
				queue := d.NewQueue(simdisk.QueueOptions{})
				d.FailSync(fault)
				change := func() error { return Replace(d, queue, dir, name, replacement, perm, true) }
				if err := change(); !errors.Is(err, syscall.EIO) {
					t.Fatalf("the sync did not fail: %v", err)
				}
				if _, err := survivors(d, old, replacement, 0x5eed000a); err != nil {
					t.Errorf("after the failure: %v", err)
				}
				must(t, change())
				if counts, err := survivors(d, old, replacement, 0x5eed000b); err != nil || counts["old"] != 0 {
					t.Errorf("after trying again cuts left %v, %v", counts, err)
				}
			})
		}
	}
}
