package recovery

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/internal/simdisk"
	"felix.local/felix/journal"
)

// build makes the root of a case.
func (c journalCase) build(t testing.TB) *journaled {
	t.Helper()
	j := newJournaled(t)
	c.setup(j)
	if !strings.Contains(c.name, "is gone") || c.refuses == "" {
		j.commit()
	}
	return j
}

func TestReplay(t *testing.T) {
	for _, c := range journalCases() {
		t.Run(c.name, func(t *testing.T) {
			j := c.build(t)
			before := files(t, j.d)
			plan, err := InspectJournal(j.d, testRoot, testPolicy())
			if err != nil || plan == nil {
				t.Fatalf("plan %v, %v", plan, err)
			}
			if diff := same(before, files(t, j.d)); diff != "" {
				t.Fatalf("inspecting changed something: %s", diff)
			}
			report, err := ReplayJournal(simDisk(j.d), testRoot, testPolicy(), nextEpoch)
			if c.refuses != "" {
				c.checkRefused(t, plan, err)
				if diff := same(before, files(t, j.d)); diff != "" {
					t.Errorf("refusing changed something: %s", diff)
				}
				return
			}
			if err != nil || plan.Refused() {
				t.Fatalf("%v\n%s", err, plan)
			}
			c.checkReplayed(t, j, report, plan)
			c.checkOpened(t, j)
		})
	}
}

func (c journalCase) checkRefused(t *testing.T, plan *JournalPlan, err error) {
	t.Helper()
	var refused *JournalRefusedError
	var reason *JournalError
	if !errors.As(err, &refused) || !errors.As(err, &reason) || len(refused.Refusals) != 1 {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(err.Error(), c.refuses) || !strings.Contains(err.Error(), reason.Remedy) || reason.Remedy == "" {
		t.Errorf("%v\ndoes not say %q", err, c.refuses)
	}
	if !plan.Refused() || plan.Verdict() != "refuse" || !strings.Contains(plan.String(), c.refuses) {
		t.Errorf("the plan says\n%s", plan)
	}
}

// checkReplayed compares the root with what the case wants.
func (c journalCase) checkReplayed(t *testing.T, j *journaled, report JournalReport, plan *JournalPlan) {
	t.Helper()
	got := files(t, j.d)
	for name, want := range c.want {
		if got[name] != string(want) {
			t.Errorf("%s: %d bytes, want %d, alike up to %d", name, len(got[name]), len(want), equalBytes([]byte(got[name]), want))
		}
	}
	for shard, want := range c.marks {
		if mark, ok := DecodeMark([]byte(got[shard+"/"+MarkName])); !ok || mark != want {
			t.Errorf("mark %+v, want %+v", mark, want)
		}
	}
	if report.BytesWritten != int64(c.written) || plan.BytesMissing() != int64(c.written) || !report.Replayed {
		t.Errorf("report %+v, plan\n%s", report, plan)
	}
	current, err := journal.DecodeCurrent([]byte(got[journal.DirName+"/"+journal.CurrentName]))
	if err != nil || current.Epoch != nextEpoch || !current.Empty || current.Files != 2 || current.FileBytes != testCurrent().FileBytes {
		t.Errorf("current %+v, %v", current, err)
	}
	if plan, err := InspectJournal(j.d, testRoot, testPolicy()); plan != nil || err != nil {
		t.Errorf("after the replay: %v, %v", plan, err)
	}
	again, err := ReplayJournal(simDisk(j.d), testRoot, testPolicy(), nextEpoch+1)
	if err != nil || again != (JournalReport{}) {
		t.Errorf("a second replay: %+v, %v", again, err)
	}
	if diff := same(got, files(t, j.d)); diff != "" {
		t.Errorf("a second replay changed something: %s", diff)
	}
	for seed := range uint64(8) {
		if diff := same(got, files(t, j.d.Crash(simdisk.CrashOptions{Seed: seed}))); diff != "" {
			t.Errorf("something was not durable: %s", diff)
		}
	}
}

// checkOpened opens every shard, as an engine does after the replay, and once more,
// which changes nothing.
func (c journalCase) checkOpened(t *testing.T, j *journaled) {
	t.Helper()
	refuses := strings.Contains(c.name, "to refuse") || strings.Contains(c.name, "the shard refuses")
	for _, shard := range shards(t, j.d) {
		recovered, err := Open(simDisk(j.d), testRoot+"/"+shard, shard, testPolicy())
		if refuses {
			if refused := new(RefusedError); !errors.As(err, &refused) {
				t.Errorf("opening %s: %v", shard, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("opening %s: %v", shard, err)
		}
		if cut := recovered.Report.TruncatedBytes > 0; cut != c.opened || cut && len(recovered.Report.SideCopies) != 1 {
			t.Errorf("opening %s: %+v", shard, recovered.Report)
		}
	}
	once := files(t, j.d)
	for _, shard := range shards(t, j.d) {
		if _, err := Open(simDisk(j.d), testRoot+"/"+shard, shard, testPolicy()); err != nil && !refuses {
			t.Error(err)
		}
	}
	if diff := same(once, files(t, j.d)); diff != "" {
		t.Errorf("opening once more changed something: %s", diff)
	}
}

func TestWithoutAJournalThereIsNothingToReplay(t *testing.T) {
	empty := testCurrent()
	empty.Empty = true
	for name, setup := range map[string]func(j *journaled){
		"no directory":                            func(j *journaled) { j.must(j.d.Remove(testRoot + "/" + journal.DirName)) },
		"an empty directory":                      func(*journaled) {},
		"data files, and no name of the epoch":    func(j *journaled) { j.put(journal.DirName+"/"+journal.FileName(0), make([]byte, 32768)) },
		"a name of the epoch that was not done":   func(j *journaled) { j.put(journal.DirName+"/current.tmp", testCurrent().AppendTo(nil)) },
		"an epoch without frames, and no files":   func(j *journaled) { j.put(journal.DirName+"/"+journal.CurrentName, empty.AppendTo(nil)) },
		"an epoch without frames, and old frames": func(j *journaled) { j.put(journal.DirName+"/"+journal.CurrentName, empty.AppendTo(nil)); j.commit() },
	} {
		t.Run(name, func(t *testing.T) {
			j := newJournaled(t)
			j.segment(shardA, 0, holding(9))
			j.frame(0, 1, 1, records(shardA, 0, ten(), 9, 10))
			setup(j)
			before := files(t, j.d)
			if plan, err := InspectJournal(j.d, testRoot, testPolicy()); plan != nil || err != nil {
				t.Errorf("plan %v, %v", plan, err)
			}
			if report, err := ReplayJournal(simDisk(j.d), testRoot, testPolicy(), nextEpoch); err != nil || report.Replayed {
				t.Errorf("%+v, %v", report, err)
			}
			if diff := same(before, files(t, j.d)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReplayNeedsAnotherEpoch(t *testing.T) {
	for _, epoch := range []uint64{0, oldEpoch} {
		j := appliedCases()[0].build(t)
		before := files(t, j.d)
		if _, err := ReplayJournal(simDisk(j.d), testRoot, testPolicy(), epoch); !errors.Is(err, errJournalEpoch) {
			t.Errorf("epoch %x: %v", epoch, err)
		}
		if diff := same(before, files(t, j.d)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestReplayRefusesAPolicyThatMeansNothing(t *testing.T) {
	j := appliedCases()[0].build(t)
	p := Policy{SideCopiesKept: -1}
	if _, err := ReplayJournal(simDisk(j.d), testRoot, p, nextEpoch); err == nil {
		t.Error("no error")
	}
	if _, err := InspectJournal(j.d, testRoot, p); err == nil {
		t.Error("no error")
	}
}

// Entries are gathered as far as memory allows; the plan is the same however far.
func TestPlanDoesNotDependOnHowMuchIsGathered(t *testing.T) {
	for _, c := range journalCases() {
		j := c.build(t)
		want, err := InspectJournal(j.d, testRoot, testPolicy())
		if err != nil {
			t.Fatal(err)
		}
		i, err := newJournalInspector(j.d, testRoot, device.ReadOnly)
		if err != nil {
			t.Fatal(err)
		}
		i.budget = 1
		if err := errors.Join(i.scan(), i.judge(), i.close()); err != nil {
			t.Fatal(err)
		}
		if want.String() != i.plan.String() {
			t.Errorf("%s: want\n%sgot\n%s", c.name, want, i.plan)
		}
	}
}

func TestReasonsAreKeptUpToABound(t *testing.T) {
	j := newJournaled(t)
	var entries []journal.Entry
	for n := range refusalsMax + 9 {
		entries = append(entries, records(fmt.Sprintf("gone-%03d", n), 0, ten(), 0, 1))
	}
	j.frame(0, 1, 1, entries...)
	j.commit()
	_, err := ReplayJournal(simDisk(j.d), testRoot, testPolicy(), nextEpoch)
	var refused *JournalRefusedError
	if !errors.As(err, &refused) || len(refused.Refusals) != refusalsMax || refused.More != 9 || !strings.Contains(err.Error(), "and 9 more") {
		t.Errorf("got %v", err)
	}
}

// A process that was killed leaves bytes that read back fine and are not on the
// device: what the journal speaks of, and the segment in front of it, which the mark
// is about to vouch for.
func TestSettlesWhatAKilledProcessLeft(t *testing.T) {
	j := newJournaled(t)
	j.segment(shardA, 0, holding(4))
	j.segment(shardA, 1, segmentBytes(10, 1))
	j.mark(shardA, 0, at(4))
	j.frame(0, 1, 1, records(shardA, 1, segmentBytes(10, 5), 1, 4))
	j.commit()
	for name, b := range map[string][]byte{logA: ten(), logA1: segmentBytes(10, 4)} {
		f, err := j.d.OpenFile(testRoot+"/"+name, device.ReadWrite, 0)
		j.must(err)
		j.must(simDisk(j.d).write(f, b, 0))
		j.must(f.Close())
	}
	j.replay(t, simDisk(j.d))
	for seed := range uint64(8) {
		got := files(t, j.d.Crash(simdisk.CrashOptions{Seed: seed}))
		if got[logA] != string(ten()) || got[logA1] != string(segmentBytes(10, 4)) {
			t.Errorf("seed %d: %d and %d bytes are on the device", seed, len(got[logA]), len(got[logA1]))
		}
	}
}

func TestManyShardsAreReplayed(t *testing.T) {
	j := newJournaled(t)
	var entries []journal.Entry
	const n = 2*flushTogetherMax + 7
	for k := range n {
		shard := fmt.Sprintf("shard-%03d", k)
		j.segment(shard, 0, holding(9))
		entries = append(entries, records(shard, 0, ten(), 9, 10))
	}
	j.frame(0, 1, 1, entries...)
	j.commit()
	report, err := ReplayJournal(simDisk(j.d), testRoot, testPolicy(), nextEpoch)
	if err != nil || report.Shards != n || report.Segments != n || report.BytesWritten != n*recordBytes {
		t.Fatalf("%+v, %v", report, err)
	}
	for name, content := range files(t, j.d.Crash(simdisk.CrashOptions{Seed: 3})) {
		if strings.HasSuffix(name, ".log") && content != string(ten()) {
			t.Errorf("%s has %d bytes", name, len(content))
		}
	}
}

// TestInterruptedReplayIsTakenUpAgain cuts power before every single change of a
// replay, replays what is left, and wants the files of an undisturbed one.
func TestInterruptedReplayIsTakenUpAgain(t *testing.T) {
	for _, c := range journalCases() {
		if c.refuses != "" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			for how, queue := range map[string]simdisk.QueueOptions{"in one piece": {}, "in pieces": {Mode: simdisk.Adversarial, Seed: 7, ShortPercent: 60}} {
				undisturbed := c.build(t)
				undisturbed.replay(t, simDisk(undisturbed.d))
				want := files(t, undisturbed.d)
				j := c.build(t)
				images, moments, failed := 0, uint64(0), false
				look := func(image *simdisk.Disk, moment string) {
					images++
					if failed {
						return
					}
					// The queue's goroutine may be the one that is here.
					_, err := ReplayJournal(simDisk(image), testRoot, testPolicy(), nextEpoch)
					if err != nil {
						t.Errorf("%s, power cut before %s: %v", how, moment, err)
					} else if diff := same(want, files(t, image)); diff != "" {
						t.Errorf("%s, power cut before %s: %s", how, moment, diff)
					}
					failed = t.Failed()
				}
				j.d.BeforeChange(func(change simdisk.Change) {
					moments++
					cutPower(j.d, moments, func(image *simdisk.Disk) {
						look(image, fmt.Sprintf("%s %s %v at %d", change.What, change.Path, change.Kind, change.Pos))
					})
				})
				q := j.d.NewQueue(queue)
				j.replay(t, Disk{FS: j.d, Queue: q})
				j.d.BeforeChange(nil)
				if err := q.Close(); err != nil {
					t.Fatal(err)
				}
				cutPower(j.d, 0, func(image *simdisk.Disk) { look(image, "nothing") })
				if images < 20 {
					t.Errorf("only %d images", images)
				}
			}
		})
	}
}

func (j *journaled) replay(t testing.TB, d Disk) {
	t.Helper()
	if _, err := ReplayJournal(d, testRoot, testPolicy(), nextEpoch); err != nil {
		t.Fatal(err)
	}
}

// cutPower gives what power losses at this moment leave.
func cutPower(d *simdisk.Disk, seed uint64, look func(*simdisk.Disk)) {
	for image := range d.States(simdisk.Bound{Grain: simdisk.TornPages, StatesMax: 4, Seed: 0x5eed + seed}).All() {
		look(image)
	}
	for _, o := range []simdisk.CrashOptions{{Kind: simdisk.ProcessDeath}, {Writeback: simdisk.InOrder, Seed: seed}, {Seed: seed}} {
		look(d.Crash(o))
	}
}

// TestFailedReplayIsTakenUpAgain fails every single operation in turn: the replay
// says so, and the next one ends where an undisturbed one ends.
func TestFailedReplayIsTakenUpAgain(t *testing.T) {
	for _, c := range journalCases() {
		if c.refuses != "" || c.written == 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			undisturbed := c.build(t)
			undisturbed.replay(t, simDisk(undisturbed.d))
			want := files(t, undisturbed.d)
			hits := 0
			for _, fault := range []faultdisk.Fault{
				{Kinds: faultdisk.All, Errno: syscall.EIO},
				{Kinds: faultdisk.Changes, Errno: syscall.EIO, Times: faultdisk.Forever},
				{Kinds: faultdisk.Changes, Errno: syscall.ENOSPC, Lands: faultdisk.Half},
			} {
				for fault.At = 1; ; fault.At++ {
					j := c.build(t)
					disk := faultdisk.New(j.d, j.d.NewQueue(simdisk.QueueOptions{}), faultdisk.Options{})
					injected := disk.Inject(fault)
					_, err := ReplayJournal(Disk{FS: disk.FS(), Queue: disk.Queue()}, testRoot, testPolicy(), nextEpoch)
					if injected.Hits() == 0 {
						break
					}
					hits++
					if refused := new(JournalRefusedError); errors.As(err, &refused) {
						t.Fatalf("%+v: a failing disk was taken for damage: %v", fault, err)
					}
					j.replay(t, simDisk(j.d))
					if diff := same(want, files(t, j.d)); diff != "" {
						t.Fatalf("%+v (%v): %s", fault, err, diff)
					}
				}
			}
			if hits < 20 {
				t.Errorf("only %d operations were there to fail", hits)
			}
		})
	}
}
