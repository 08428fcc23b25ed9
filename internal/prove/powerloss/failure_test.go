package powerloss

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/fallback"
	"felix.local/felix/internal/prove/bubble"
	"felix.local/felix/internal/simdisk"
	"felix.local/felix/recovery"
)

// TestAnImageThatFailsEndsItsWorkloadAndIsTold asks of an image what was never
// promised, in each way that an image can fail.
func TestAnImageThatFailsEndsItsWorkloadAndIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		ask  func(e *expectation)
		lost bool
		says string
	}{
		"too few": {func(e *expectation) { e.held++ }, true, "had to be there"},
		"other bytes": {func(e *expectation) {
			e.want = append(slices.Clone(e.want[:10]), make([][]byte, e.written-10)...)
			e.want[10] = []byte{1}
		}, true, "other bytes"},
		"begins too late":  {func(e *expectation) { e.baseMax-- }, true, "never began later"},
		"too many":         {func(e *expectation) { e.written-- }, false, "only"},
		"begins too early": {func(e *expectation) { e.baseMin++; e.baseMax++ }, false, "durably removed"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.In(t)(func() { askTooMuch(t, c.ask, c.lost, c.says) })
		})
	}
}

// plain is the scenario that asks least of a filesystem.
func plain() scenario {
	return scenario{kind: Appends, mode: engine.FsyncOnCommit, threshold: inlineRolls, writeback: simdisk.InOrder}
}

func askTooMuch(t *testing.T, ask func(*expectation), lost bool, says string) {
	const seed, imageSeed = 0x123, 7
	s := plain()
	w := newWorkload(s, seed, 1, newSimulated(simdisk.QueueOptions{}))
	w.begin(1, 10)
	var images []image
	if err := w.live(func(*engine.Store) error {
		for range 5 {
			if err := w.append(); err != nil {
				return err
			}
		}
		for range 2 {
			images = append(images, w.crash(simdisk.CrashOptions{Seed: imageSeed}))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if ask(&images[0].expect[0]); images[0].expect[0].want[10] == nil {
		t.Fatal("no record at the beginning")
	}
	err := w.judge(images)
	if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "the crash left\n0/") {
		t.Error(err)
	}
	if w.sum.Images != 1 || w.sum.Lost+w.sum.Refused != 1 || (w.sum.Lost == 1) != lost {
		t.Errorf("%+v", w.sum)
	}
	f := (&run{Options: Options{Host: Simulated, Images: 3}}).failure(s, seed, err)
	if f.Row != s.String() || f.Seed != seed || f.ImageSeed != imageSeed ||
		!strings.Contains(f.Text, "FELIX_POWER_LOSS_SEED=0x123") || !strings.Contains(f.Text, "-seed 0x123 -hosts simulated -images 3 -only") {
		t.Errorf("%+v", f)
	}
}

// A ring that cannot be had while others work is a fault of the host, and what was
// found until then is printed and given.
func TestRunningOutOfRingsIsNoMissingRing(t *testing.T) {
	opened := 0
	o := Options{
		Host: Ring, Dir: t.TempDir(), Kinds: []Kind{Appends}, Workers: 1,
		openRing: func() (device.Queue, error) {
			if opened++; opened > 30 {
				return nil, syscall.ENOMEM
			}
			return fallback.Open(fallback.Options{}), nil
		},
	}
	var out strings.Builder
	r, err := Run(&out, o)
	if !errors.Is(err, syscall.ENOMEM) || errors.Is(err, ErrNoRing) {
		t.Error(err)
	}
	if want := fmt.Sprintf("%d workloads, 0 of them failed: %d images", r.Workloads, r.Images); r.Images == 0 || !strings.Contains(out.String(), want) {
		t.Errorf("%q is missing in\n%s", want, &out)
	}
	opened = 30
	if r, err := Run(&out, o); !errors.Is(err, ErrNoRing) || !errors.Is(err, syscall.ENOMEM) || r.Images != 0 {
		t.Errorf("%v, %d images", err, r.Images)
	}
}

func TestARowThatAHostLacksIsToldApart(t *testing.T) {
	if _, err := Run(io.Discard, Options{Host: Pool, Dir: t.TempDir(), Only: string(FailedSync)}); !errors.Is(err, ErrNoRow) {
		t.Error(err)
	}
}

// noDirect is a filesystem whose files cannot be written past the page cache.
type noDirect struct{ device.FS }

func (f noDirect) OpenFile(path string, mode device.OpenMode, perm fs.FileMode) (device.File, error) {
	if mode == device.ReadWriteDirect {
		return nil, device.NewError("open", path, -1, syscall.EINVAL)
	}
	return f.FS.OpenFile(path, mode, perm)
}

func TestAFilesystemWithoutAJournalHasTheOtherRows(t *testing.T) {
	o := Options{
		Host: Pool, Dir: t.TempDir(), Kinds: []Kind{Appends, Sharing}, Only: "on_commit", Images: 1,
		files: noDirect{device.OS()},
	}
	var out strings.Builder
	r, err := Run(&out, o)
	if err != nil || !errors.Is(r.NoJournal, engine.ErrNoJournal) || len(r.Rows) != 4 || r.Images == 0 ||
		!strings.Contains(out.String(), "no row with a commit journal: ") {
		t.Errorf("%v, %v, %d rows, %d images\n%s", err, r.NoJournal, len(r.Rows), r.Images, &out)
	}
	o.Only = string(Sharing)
	if r, err := Run(io.Discard, o); !errors.Is(err, ErrNoRow) || !errors.Is(err, engine.ErrNoJournal) || r.Images != 0 {
		t.Errorf("%v, %d images", err, r.Images)
	}
	if left, err := os.ReadDir(o.Dir); err != nil || len(left) != 0 {
		t.Errorf("%d directories stay behind, %v", len(left), err)
	}
}

// A call past the recorder leaves the model behind, and no image means anything.
func TestACrashedHostThatWasNotFollowedIsAnError(t *testing.T) {
	r := run{Options: Options{Host: Pool, Dir: t.TempDir(), Images: 1}}
	s := plain()
	for _, past := range []bool{false, true} {
		counts, err := r.onReal(s, 1, func(w *workload) error {
			if err := w.appends(); err != nil || !past {
				return err
			}
			fs, queue, err := w.host.boot()
			if err != nil {
				return err
			}
			name := filepath.Join(filepath.Dir(w.host.store()), "stranger")
			if err := os.WriteFile(name, nil, 0o600); err != nil {
				return err
			}
			return errors.Join(fs.Remove(name), queue.Close())
		})
		failed := (*hostError)(nil)
		if counts.Images == 0 || errors.As(err, &failed) != past || past && !strings.Contains(err.Error(), "not followed") {
			t.Errorf("past the recorder %v: %d images, %v", past, counts.Images, err)
		}
	}
}

func TestABubbleThatRunsNothingIsAFailure(t *testing.T) {
	r, err := Run(io.Discard, Options{Kinds: []Kind{Appends}, Only: "on_commit, inline rolls, pages in order", Bubble: func(func()) {}})
	if err != nil || r.Failed != 1 || r.Images != 0 {
		t.Errorf("%d failed, %d images, %v", r.Failed, r.Images, err)
	}
}

func TestARunCanEndWithTheFirstFailure(t *testing.T) {
	o := Options{Kinds: []Kind{Appends}, Workers: 1, Bubble: func(func()) {}, EndAtFailure: true}
	// One more is handed out before the first has failed.
	if r, err := Run(io.Discard, o); err != nil || r.Failed == 0 || r.Workloads > 2 {
		t.Errorf("%d of %d failed, %v", r.Failed, r.Workloads, err)
	}
}

// A failed sync has to poison the log, and nothing else may end an append.
func TestAFailedSyncIsToldByTheLog(t *testing.T) {
	const log, mark = "/data/store/0/00000000000000000000.log", "/data/store/0/" + recovery.MarkName
	failed := device.NewError("flush", log, -1, syscall.EIO)
	poison := &engine.PoisonedError{Label: "log", Cause: failed}
	unended := &engine.IdentityError{Path: "/data/store/run-state", Err: failed}
	header := &recovery.CreateError{Path: log, Stage: recovery.StageHeader, Err: failed}
	names := &recovery.CreateError{Path: log, Stage: recovery.StageDirectory, Err: failed}
	for name, c := range map[string]struct {
		hit              string
		appended, closed error
		poisoned, fault  bool
	}{
		"poisoned":                       {log, poison, poison, true, false},
		"poisoned behind the appends":    {log, nil, poison, true, false},
		"poisoned and closed well":       {log, poison, nil, true, false},
		"not told":                       {log, nil, nil, false, true},
		"an append that is no poison":    {log, failed, poison, true, true},
		"a closing that is no poison":    {log, nil, failed, false, true},
		"the mark":                       {mark, nil, nil, false, false},
		"the mark, told by closing":      {mark, nil, failed, false, false},
		"the mark, and an append fails":  {mark, failed, nil, false, true},
		"no header":                      {log, header, nil, false, false},
		"no name":                        {log, names, nil, false, true},
		"the root, told by closing":      {"/data/store", nil, unended, false, false},
		"a log, and the root is told of": {log, nil, unended, false, true},
		"the root, and an append fails":  {"/data/store", failed, unended, false, true},
		"nothing failed":                 {"", nil, nil, false, false},
		"nothing failed, and it is told": {"", poison, poison, true, true},
	} {
		poisoned, err := judgeFailure(c.hit, c.appended, c.closed)
		if poisoned != c.poisoned || (err != nil) != c.fault {
			t.Errorf("%s: poisoned %v, %v", name, poisoned, err)
		}
	}
}
