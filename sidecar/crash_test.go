package sidecar

import (
	"slices"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/internal/simdisk"
)

func queues() map[string]simdisk.QueueOptions {
	return map[string]simdisk.QueueOptions{
		"in one piece": {},
		"in pieces":    {Mode: simdisk.Adversarial, Seed: 7, ShortPercent: 60},
	}
}

func TestAPowerLossLeavesTheOldFileOrTheNewOne(t *testing.T) {
	for what, c := range changes() {
		for how, options := range queues() {
			t.Run(what+", written "+how, func(t *testing.T) {
				old, replacement := c[0], c[1]
				d := newDisk(t, old)
				queue := d.NewQueue(options)
				during, after, err := cutEverywhere(d, old, replacement, 0x5eed0001, func() error {
					return Replace(d, queue, dir, name, replacement, perm, true)
				})
				must(t, err)
				must(t, queue.Close())
				if !slices.Equal(outcomes(during), []string{"new", "old"}) {
					t.Errorf("cuts left %v, want some old and some new", during)
				}
				if !slices.Equal(outcomes(after), []string{"new"}) {
					t.Errorf("cuts after it was done left %v", after)
				}
				if entries, err := d.ReadDir(dir); err != nil || len(entries) != 1 {
					t.Errorf("the directory holds %v, %v", entries, err)
				}
			})
		}
	}
}

func TestALeftoverTemporaryIsNotRead(t *testing.T) {
	for what, c := range changes() {
		t.Run(what, func(t *testing.T) {
			old, replacement := c[0], c[1]
			d := newDisk(t, old)
			queue := d.NewQueue(simdisk.QueueOptions{})
			f, err := d.OpenFile(dir+"/"+TempName(name), device.CreateNew, 0o600)
			must(t, err)
			must(t, device.Do(queue, &device.Op{Kind: device.WriteDsync, File: f, Buf: filled('t', 9000)}))
			must(t, f.Close())
			must(t, FlushDir(d, queue, dir))
			_, after, err := cutEverywhere(d, old, replacement, 0x5eed0002, func() error {
				return Replace(d, queue, dir, name, replacement, perm, true)
			})
			must(t, err)
			if !slices.Equal(outcomes(after), []string{"new"}) {
				t.Errorf("cuts after it was done left %v", after)
			}
			if info, err := d.Lstat(dir + "/" + name); err != nil || info.Mode.Perm() != perm {
				t.Errorf("permissions %v, %v", info.Mode, err)
			}
		})
	}
}

func TestAPowerLossLeavesARemovedFileWholeOrGone(t *testing.T) {
	old := filled('o', 8204)
	d := newDisk(t, old)
	queue := d.NewQueue(simdisk.QueueOptions{})
	during, after, err := cutEverywhere(d, old, nil, 0x5eed0003, func() error { return Remove(d, queue, dir, name) })
	must(t, err)
	if !slices.Equal(outcomes(during), []string{"new", "old"}) || !slices.Equal(outcomes(after), []string{"new"}) {
		t.Errorf("cuts left %v, then %v", during, after)
	}
}

func TestRemovingWhatIsGoneMakesThatDurable(t *testing.T) {
	old := filled('o', 28)
	d := newDisk(t, old)
	must(t, d.Remove(dir+"/"+name)) // by a process that died before its flush
	if counts, err := survivors(d, old, nil, 0x5eed0004); err != nil || counts["old"] == 0 {
		t.Fatalf("%v, %v: nothing is in doubt", counts, err)
	}
	must(t, Remove(d, d.NewQueue(simdisk.QueueOptions{}), dir, name))
	if counts, err := survivors(d, old, nil, 0x5eed0004); err != nil || counts["old"] != 0 {
		t.Fatalf("%v, %v", counts, err)
	}
}

// TestTheCutsFindAMissingFlush proves that the tests above would notice.
func TestTheCutsFindAMissingFlush(t *testing.T) {
	for what, c := range changes() {
		old, replacement := c[0], c[1]
		t.Run(what+", its bytes not flushed", func(t *testing.T) {
			if len(replacement) == 0 {
				t.Skip("an empty file has no bytes to lose")
			}
			d := newDisk(t, old)
			queue := omitting{d.NewQueue(simdisk.QueueOptions{}), []device.Kind{device.Flush}}
			_, _, err := cutEverywhere(d, old, replacement, 0x5eed0005, func() error {
				return Replace(d, queue, dir, name, replacement, perm, true)
			})
			if err == nil {
				t.Fatal("no cut left a mix")
			}
		})
		t.Run(what+", its directory not flushed", func(t *testing.T) {
			d := newDisk(t, old)
			queue := omitting{d.NewQueue(simdisk.QueueOptions{}), []device.Kind{device.FlushAll}}
			_, after, err := cutEverywhere(d, old, replacement, 0x5eed0006, func() error {
				return Replace(d, queue, dir, name, replacement, perm, true)
			})
			must(t, err)
			if after["old"] == 0 {
				t.Fatalf("cuts after it was done left %v", after)
			}
		})
	}
	t.Run("a removal, its directory not flushed", func(t *testing.T) {
		old := filled('o', 28)
		d := newDisk(t, old)
		queue := omitting{d.NewQueue(simdisk.QueueOptions{}), []device.Kind{device.FlushAll}}
		_, after, err := cutEverywhere(d, old, nil, 0x5eed0007, func() error { return Remove(d, queue, dir, name) })
		must(t, err)
		if after["old"] == 0 {
			t.Fatalf("cuts after it was done left %v", after)
		}
	})
}

func TestAReplacementWithoutFlushesFlushesNothing(t *testing.T) {
	old, replacement := filled('o', 28), filled('n', 8204)
	d := newDisk(t, old)
	before := d.Counts()
	must(t, Replace(d, d.NewQueue(simdisk.QueueOptions{}), dir, name, replacement, perm, false))
	after := d.Counts()
	if after.Flushes != before.Flushes || after.DirFlushes != before.DirFlushes || after.DsyncWrites != before.DsyncWrites {
		t.Errorf("flushes: %+v, then %+v", before, after)
	}
	if after.Writes != before.Writes+1 || after.Renames != before.Renames+1 {
		t.Errorf("writes and renames: %+v, then %+v", before, after)
	}
	if which, err := is(d.Crash(simdisk.CrashOptions{Kind: simdisk.ProcessDeath}), old, replacement); err != nil || which != "new" {
		t.Errorf("a killed process left %q, %v", which, err)
	}
}
