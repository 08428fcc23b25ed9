package powerloss

import (
	"slices"
	"strings"
	"testing"

	"felix.local/felix/internal/prove/bubble"
	"felix.local/felix/internal/simdisk"
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

func askTooMuch(t *testing.T, ask func(*expectation), lost bool, says string) {
	const seed, imageSeed = 0x123, 7
	s := scenarios([]Kind{Appends})[0]
	w := newWorkload(s, seed, 1, newSimulated(simdisk.QueueOptions{}))
	w.begin(1, 10)
	var images []image
	if err := w.live(func() error {
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
