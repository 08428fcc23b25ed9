package engine_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"felix.local/felix/engine"
	"felix.local/felix/sidecar"
)

// historyOf fills a log with records of three generations in several segments:
// generation 1 from 0 on, 2 from 6 on, 4 from 12 on, 18 records.
func (r *rig) historyOf() {
	r.Helper()
	for offset := range uint64(18) {
		if generation := map[uint64]uint64{0: 1, 6: 2, 12: 4}[offset]; generation != 0 {
			r.must(r.log.RecordGeneration(r.ctx, generation, offset))
		}
		r.appendSizes(100)
	}
}

// labelled checks that every record of historyOf that is held reads as it was
// written and is labelled with the generation that wrote it, and that no generation
// begins past the tail.
func (r *rig) labelled() {
	r.Helper()
	r.checkPayloads(func(uint64) int { return 100 })
	for offset := r.log.BaseOffset(); offset < r.log.TailOffset(); offset++ {
		want := uint64(1)
		if offset >= 6 {
			want = 2
		}
		if offset >= 12 {
			want = 4
		}
		if got, known := r.log.GenerationAt(offset); got != want || !known {
			r.Errorf("record %d is labelled with generation %d (%v), and %d wrote it", offset, got, known, want)
		}
	}
	r.nonePastTheTail()
}

func (r *rig) nonePastTheTail() {
	r.Helper()
	for _, e := range r.log.Generations() {
		if e.Start > r.log.TailOffset() {
			r.Errorf("generation %d begins at %d and the log ends at %d", e.Generation, e.Start, r.log.TailOffset())
		}
	}
	b := r.small(sidecar.EpochsName)
	if b == nil {
		return
	}
	onDisk, err := sidecar.DecodeEpochs(b)
	r.must(err)
	if newest, any := onDisk.Newest(); any && newest.Start > r.log.TailOffset() {
		r.Errorf("the file says that generation %d begins at %d and the log ends at %d", newest.Generation, newest.Start, r.log.TailOffset())
	}
}

func smallSegments(c *engine.Config) { c.SegmentBytes = 512 }

func TestATruncationDropsTheGenerationsOfWhatItCuts(t *testing.T) {
	for _, c := range []struct {
		offset uint64
		want   []sidecar.Epoch
	}{
		{18, []sidecar.Epoch{epoch(1, 0), epoch(2, 6), epoch(4, 12)}},
		{13, []sidecar.Epoch{epoch(1, 0), epoch(2, 6), epoch(4, 12)}},
		{12, []sidecar.Epoch{epoch(1, 0), epoch(2, 6)}},
		{7, []sidecar.Epoch{epoch(1, 0), epoch(2, 6)}},
		{1, []sidecar.Epoch{epoch(1, 0)}},
		{0, nil},
	} {
		r := newRig(t, smallSegments)
		r.historyOf()
		r.must(r.log.Truncate(r.ctx, c.offset))
		r.wantGenerations(c.want...)
		r.reopen()
		r.wantGenerations(c.want...)
		r.labelled()
	}
}

// A power loss in a truncation leaves no label that is wrong and none past the tail;
// after it, none of what was cut.
func TestAPowerLossInATruncationLeavesTheRightLabels(t *testing.T) {
	for _, cut := range []uint64{14, 12, 8, 3, 0} {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newSimRig(t, smallSegments)
				r.historyOf()
				returned := false
				tails := make(map[uint64]int)
				r.eachImage(func() error {
					err := r.log.Truncate(r.ctx, cut)
					synctest.Wait() // for what goes on in the background, which looks at this too
					returned = true
					return err
				}, func(image *rig) {
					tail := image.log.TailOffset()
					tails[tail]++
					if tail < cut || returned && tail != cut {
						t.Errorf("returned %v: the log ends at %d", returned, tail)
					}
					image.labelled()
					if returned {
						for _, e := range image.log.Generations() {
							if e.Start >= cut {
								t.Errorf("generation %d is still said to begin at %d", e.Generation, e.Start)
							}
						}
					}
				})
				if tails[18] == 0 || tails[cut] == 0 {
					t.Error(tails)
				}
			})
		})
	}
}

func TestALogIsRestoredToAnOffsetThatItHolds(t *testing.T) {
	r := newRig(t, smallSegments)
	r.historyOf()
	if _, err := r.log.TrimBefore(r.ctx, 5); err != nil {
		t.Fatal(err)
	}
	base := r.log.BaseOffset()
	if base == 0 {
		t.Fatal("nothing was trimmed")
	}
	r.accept(4, "a")
	r.advance(15)
	for _, offset := range []uint64{base - 1, 19} {
		if e := errorAs[*engine.OutsideLogError](t, r.log.RestoreTo(r.ctx, offset)); e.Offset != offset || e.Base != base || e.Tail != 18 {
			t.Errorf("%+v", e)
		}
	}
	r.wantCommit(15)
	for _, offset := range []uint64{18, 16, 10, 10, base, base} {
		r.must(r.log.RestoreTo(r.ctx, offset))
		r.wantCommit(min(15, offset))
		if tail := r.log.TailOffset(); tail != offset {
			t.Errorf("restored to %d the log ends at %d", offset, tail)
		}
		r.reopen()
		r.wantCommit(min(15, offset))
		r.wantPromise(4, "a", false)
		r.labelled()
	}
}

// The commit offset is lowered before anything is cut: no power loss leaves a log
// that ends below an offset which it guards, and none of the records that were to
// stay goes.
func TestAPowerLossInARestoreNeverLeavesACommitOffsetPastTheTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSimRig(t, smallSegments)
		r.historyOf()
		r.advance(15)
		synctest.Wait()
		returned := false
		seen := make(map[string]int)
		r.eachImage(func() error {
			err := r.log.RestoreTo(r.ctx, 7)
			synctest.Wait() // for what goes on in the background, which looks at this too
			returned = true
			return err
		}, func(image *rig) {
			tail, commit := image.log.TailOffset(), image.log.CommitOffset()
			seen[fmt.Sprintf("commit %d", commit)]++
			if commit > tail || tail < 7 || commit != 7 && commit != 15 || returned && (tail != 7 || commit != 7) {
				t.Errorf("returned %v: the log ends at %d and the commit offset is %d", returned, tail, commit)
			}
			image.labelled()
			image.must(image.log.RestoreTo(image.ctx, 7)) // which can be done again
			image.wantCommit(7)
			if tail := image.log.TailOffset(); tail != 7 {
				t.Errorf("restored again the log ends at %d", tail)
			}
		})
		if len(seen) != 2 {
			t.Error(seen)
		}
	})
}
