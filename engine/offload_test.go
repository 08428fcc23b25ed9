package engine_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/internal/simdisk"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
	"felix.local/felix/sidecar"
)

// offloadRecords is how many records a log has that was offloaded.
const offloadRecords = 18

// putSmall makes data the content of a small file of the log, on whatever disk the
// rig has.
func (r *rig) putSmall(name string, data []byte) {
	r.Helper()
	if disk, simulated := r.cfg.FS.(*simdisk.Disk); simulated {
		r.must(sidecar.Replace(disk, r.cfg.Queue, r.log.Dir(), name, data, 0o640, true))
		return
	}
	r.must(os.WriteFile(filepath.Join(r.log.Dir(), name), data, 0o640))
}

// offloaded fills the log, notes a copy of each sealed segment, and one from before
// the log began if it begins later.
func (r *rig) offloaded() sidecar.Offload {
	r.Helper()
	for range offloadRecords {
		r.appendSizes(100)
	}
	return r.copied()
}

func (r *rig) copied() (o sidecar.Offload) {
	r.Helper()
	segments := r.log.Segments()
	if base := segments[0].BaseOffset; base > 0 {
		r.must(o.Add(sidecar.OffloadedCopy{First: 0, Last: base - 1, Size: 1, Key: "earlier"}))
	}
	for _, d := range segments[:len(segments)-1] {
		r.must(o.Add(sidecar.OffloadedCopy{
			Segment: d.ID, First: d.BaseOffset, Last: d.LastOffset(), Size: uint64(d.Size), Key: "node/shard/" + segment.LogName(d.ID),
		}))
	}
	r.putSmall(sidecar.OffloadName, o.AppendTo(nil))
	return o
}

// manifest is what the file says.
func (r *rig) manifest() sidecar.Offload {
	r.Helper()
	o, err := sidecar.DecodeOffload(r.small(sidecar.OffloadName))
	r.must(err)
	return o
}

func sameCopies(a, b sidecar.Offload) bool { return slices.Equal(a.Copies(), b.Copies()) }

// below is a manifest without what holds records from cut on.
func below(o sidecar.Offload, cut uint64) sidecar.Offload {
	o.TruncateFrom(cut)
	return o
}

func TestATruncationForgetsTheCopiesOfWhatItCuts(t *testing.T) {
	for name, cutBack := range map[string]func(r *rig, cut uint64) error{
		"truncate": func(r *rig, cut uint64) error { return r.log.Truncate(r.ctx, cut) },
		"restore":  func(r *rig, cut uint64) error { return r.log.RestoreTo(r.ctx, cut) },
	} {
		t.Run(name, func(t *testing.T) {
			for cut := range uint64(offloadRecords) {
				r := newRig(t, smallSegments)
				all := r.offloaded()
				r.must(cutBack(r, cut))
				if got := r.manifest(); !sameCopies(got, below(all, cut)) {
					t.Errorf("cut at %d: the manifest names %+v", cut, got.Copies())
				}
				r.reopen()
				if got := r.manifest(); !sameCopies(got, below(all, cut)) || r.log.TailOffset() != cut {
					t.Errorf("cut at %d, opened again: the log ends at %d and the manifest names %+v", cut, r.log.TailOffset(), got.Copies())
				}
			}
		})
	}
}

// A manifest of which nothing is cut is not written, nor is one made.
func TestATruncationWritesNoManifestWithoutNeed(t *testing.T) {
	disk, onDisk := withFaults(t)
	r := newRig(t, smallSegments, onDisk)
	r.offloaded()
	cut := r.log.Segments()[len(r.log.Segments())-1].BaseOffset
	none := disk.Inject(faultdisk.Fault{Kinds: faultdisk.Changes, Path: func(path string) bool { return strings.Contains(path, "offload") }, Errno: syscall.EIO})
	r.must(r.log.Truncate(r.ctx, cut))
	r.must(os.Remove(filepath.Join(r.log.Dir(), sidecar.OffloadName)))
	r.must(r.log.Truncate(r.ctx, 2))
	r.must(r.log.ResetTo(r.ctx, 9))
	if none.Hits() > 0 || r.small(sidecar.OffloadName) != nil {
		t.Errorf("%d changes", none.Hits())
	}
}

// Those of records that are no longer held here go as well.
func TestAResetForgetsAllCopies(t *testing.T) {
	for _, base := range []uint64{0, 7, 40} {
		r := newRig(t, smallSegments)
		r.offloaded()
		if _, err := r.log.TrimBefore(r.ctx, 9); err != nil {
			t.Fatal(err)
		}
		if all := r.copied().Copies(); r.log.BaseOffset() == 0 || all[0].Key != "earlier" {
			t.Fatalf("the log begins at %d, and the copies are %+v", r.log.BaseOffset(), all)
		}
		r.must(r.log.ResetTo(r.ctx, base))
		if got := r.manifest().Copies(); len(got) > 0 {
			t.Errorf("reset to %d: the manifest names %+v", base, got)
		}
	}
}

// What was never copied goes too: offloading is off. What the manifest says stays, as
// it is all that says where the records are.
func TestRetentionDoesNotAskAManifest(t *testing.T) {
	r := newRig(t, smallSegments, func(c *engine.Config) { c.RetentionInterval = 1 << 40 })
	all := below(r.offloaded(), 7)
	r.putSmall(sidecar.OffloadName, all.AppendTo(nil))
	want := baseAfter(r.log.Segments(), 13)
	if got, err := r.log.TrimBefore(r.ctx, 13); err != nil || got.BaseOffset != want || want < 8 {
		t.Errorf("%+v, %v; want base %d", got, err, want)
	}
	r.reopen()
	if got := r.manifest(); r.log.BaseOffset() != want || !sameCopies(got, all) {
		t.Errorf("the log begins at %d, and the manifest names %+v", r.log.BaseOffset(), got.Copies())
	}
}

// A power loss in a truncation never leaves a log that was cut beside a manifest that
// names what is gone, nor a manifest without a copy that it should name.
func TestAPowerLossInATruncationLeavesNoCopyPastTheCut(t *testing.T) {
	for _, cut := range []uint64{14, 11, 3, 0} {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // no timer is due meanwhile
				r := newSimRig(t, smallSegments)
				all := r.offloaded()
				returned := false
				seen := make(map[string]int)
				r.eachImage(func() error {
					err := r.log.Truncate(r.ctx, cut)
					synctest.Wait() // for what goes on in the background, which looks at this too
					returned = true
					return err
				}, func(image *rig) {
					tail, got := image.log.TailOffset(), image.manifest()
					switch {
					case sameCopies(got, below(all, cut)):
						seen["cut"]++
					case !sameCopies(got, all):
						t.Errorf("the manifest names %+v", got.Copies())
					case tail < offloadRecords || returned:
						t.Errorf("returned %v: the log ends at %d, and the manifest still names %+v", returned, tail, got.Copies())
					default:
						seen["whole"]++
					}
				})
				if seen["cut"] == 0 || seen["whole"] == 0 {
					t.Error(seen)
				}
			})
		})
	}
}

func TestAPowerLossInAResetLeavesNoCopy(t *testing.T) {
	for _, base := range []uint64{0, 7, 40} {
		t.Run(fmt.Sprint(base), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newSimRig(t, smallSegments)
				r.offloaded()
				if _, err := r.log.TrimBefore(r.ctx, 5); err != nil {
					t.Fatal(err)
				}
				all, old := r.copied(), r.log.BaseOffset()
				returned := false
				r.eachImage(func() error {
					err := r.log.ResetTo(r.ctx, base)
					synctest.Wait() // for what goes on in the background, which looks at this too
					returned = true
					return err
				}, func(image *rig) {
					got := image.manifest()
					if len(got.Copies()) == 0 {
						return
					}
					whole := image.log.BaseOffset() == old && image.log.TailOffset() == offloadRecords
					if returned || !whole || !sameCopies(got, all) {
						t.Errorf("returned %v: the log holds [%d, %d), and the manifest names %+v",
							returned, image.log.BaseOffset(), image.log.TailOffset(), got.Copies())
					}
				})
			})
		})
	}
}

// Whatever of a manifest is missing or changed, the open names the file and changes
// nothing; without it, or with it whole, the log opens.
func TestAManifestThatCannotBeReadKeepsTheLogClosed(t *testing.T) {
	r := newRig(t, smallSegments)
	whole := r.offloaded().AppendTo(nil)
	dir := r.log.Dir()
	r.must(r.log.Close(r.ctx))
	damaged := [][]byte{append(slices.Clone(whole), 0), append([]byte("FLOF\x00\x02"), whole[6:]...)}
	for n := range whole {
		damaged = append(damaged, whole[:n])
	}
	for bit := range 8 * len(whole) {
		b := slices.Clone(whole)
		b[bit/8] ^= 1 << (bit % 8)
		damaged = append(damaged, b)
	}
	path := filepath.Join(dir, sidecar.OffloadName)
	for i, b := range damaged {
		r.must(os.WriteFile(path, b, 0o640))
		l, err := r.store.OpenLog(r.ctx, testKey(0))
		if err == nil {
			t.Errorf("damage %d opens", i)
			r.must(l.Close(r.ctx))
			continue
		}
		errorAs[*recovery.RefusedError](t, err)
		if after, readErr := os.ReadFile(path); readErr != nil || !slices.Equal(after, b) || !strings.Contains(err.Error(), path) {
			t.Errorf("damage %d: %v", i, err)
		}
	}
	for _, whole := range [][]byte{whole, sidecar.Offload{}.AppendTo(nil)} {
		r.must(os.WriteFile(path, whole, 0o640))
		l, err := r.store.OpenLog(r.ctx, testKey(0))
		r.must(err)
		r.must(l.Close(r.ctx))
	}
	// One that is no file cannot be read either.
	r.must(os.Remove(path))
	r.must(os.Mkdir(path, 0o750))
	if _, err := r.store.OpenLog(r.ctx, testKey(0)); err == nil || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
}

// What is wrong with a manifest, or with writing it, ends a truncation before any
// record is gone, and it can be tried again; but not when its name may be either.
func TestATruncationThatCannotForgetCopiesCutsNothing(t *testing.T) {
	disk, onDisk := withFaults(t)
	r := newRig(t, smallSegments, onDisk)
	all := r.offloaded()
	same := func(what string, err error) {
		t.Helper()
		if err == nil || r.log.TailOffset() != offloadRecords || r.log.Poisoned() != nil {
			t.Errorf("%s: %v, the log ends at %d", what, err, r.log.TailOffset())
		}
		r.checkPayloads(func(uint64) int { return 100 })
	}
	r.putSmall(sidecar.OffloadName, all.AppendTo(nil)[:20])
	for what, cut := range map[string]error{"truncate": r.log.Truncate(r.ctx, 4), "reset": r.log.ResetTo(r.ctx, 4), "restore": r.log.RestoreTo(r.ctx, 4)} {
		same(what, cut)
		errorAs[*sidecar.DecodeError](t, cut)
	}
	r.putSmall(sidecar.OffloadName, all.AppendTo(nil))
	for _, kinds := range []faultdisk.Kinds{faultdisk.Create, faultdisk.Write, faultdisk.Flush, faultdisk.Rename} {
		fault := disk.Inject(faultdisk.Fault{Kinds: kinds, Path: named("offload.tmp"), Errno: syscall.ENOSPC})
		err := r.log.Truncate(r.ctx, 4)
		same(fmt.Sprint(kinds), err)
		errorAs[*engine.FullError](t, err)
		if fault.Hits() != 1 {
			t.Errorf("%v: %d hits", kinds, fault.Hits())
		}
	}
	if !sameCopies(r.manifest(), all) {
		t.Errorf("the manifest names %+v", r.manifest().Copies())
	}
	disk.Inject(faultdisk.Fault{Kinds: faultdisk.FlushDir, Errno: syscall.EIO})
	errorAs[*engine.PoisonedError](t, r.log.Truncate(r.ctx, 4))
	_ = r.store.Close(r.ctx) // which says that it is poisoned
	r.open()
	if r.log.TailOffset() != offloadRecords {
		t.Errorf("the log ends at %d", r.log.TailOffset())
	}
	r.must(r.log.Truncate(r.ctx, 4))
	if !sameCopies(r.manifest(), below(all, 4)) || r.log.TailOffset() != 4 {
		t.Errorf("the log ends at %d, and the manifest names %+v", r.log.TailOffset(), r.manifest().Copies())
	}
}

// A log that lost segments of which there are copies begins behind them.
func TestAGapThatIsCopiedIsWhereTheLogBegins(t *testing.T) {
	var lines logLines
	r := newRig(t, smallSegments, func(c *engine.Config) { c.Logger = lines.logger() })
	r.offloaded()
	segments, dir := r.log.Segments(), r.log.Dir()
	r.must(r.log.Close(r.ctx))
	r.must(device.OS().Remove(filepath.Join(dir, segment.LogName(segments[1].ID))))
	var err error
	r.log, err = r.store.OpenLog(r.ctx, testKey(0))
	r.must(err)
	if r.log.BaseOffset() != segments[2].BaseOffset || r.log.TailOffset() != offloadRecords {
		t.Errorf("the log holds [%d, %d)", r.log.BaseOffset(), r.log.TailOffset())
	}
	r.checkPayloads(func(uint64) int { return 100 })
	r.checkChain()
	lines.wantOne(t, map[string]any{
		"level": "WARN", "action": string(recovery.DeleteCopied), "bytes": float64(segments[0].Size),
		"file": filepath.Join(dir, segment.LogName(segments[0].ID)),
	})
	_, err = r.log.ReadRange(r.ctx, 0, math.MaxInt64)
	if got := errorAs[*engine.TrimmedError](t, err); got == nil {
		t.Error(err)
	}
}
