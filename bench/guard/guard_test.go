package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"felix.local/felix/bench/internal/rig"
)

// values is a bar that measures one value after the other.
func values(limit float64, atMost bool, list ...float64) bar {
	return bar{name: "x", limit: limit, atMost: atMost, measure: func(context.Context) (measured, error) {
		value := list[0]
		list = list[1:]
		return measured{Value: value}, nil
	}}
}

func TestABarIsMissedOnlyWhenEveryTryMissesIt(t *testing.T) {
	failing := bar{name: "x", limit: 1, measure: func(context.Context) (measured, error) { return measured{}, errors.New("lost") }}
	for name, test := range map[string]struct {
		bar      bar
		missed   bool
		attempts int
		value    float64
	}{
		"met at once":                    {values(4, false, 4), false, 1, 4},
		"met at the third try":           {values(4, false, 3, 2, 5), false, 3, 5},
		"missed, and the best counts":    {values(4, false, 3, 3.5, 1), true, 3, 3.5},
		"a limit upwards":                {values(1.15, true, 1.3, 1.1), false, 2, 1.1},
		"a limit upwards, missed":        {values(1.15, true, 1.3, 1.2, 1.4), true, 3, 1.2},
		"no limit":                       {values(0, false, 0.2), false, 1, 0.2},
		"a failure is not tried again":   {failing, true, 1, 0},
		"a value at the limit is enough": {values(1.15, true, 1.15), false, 1, 1.15},
	} {
		t.Run(name, func(t *testing.T) {
			v := judge(t.Context(), []bar{test.bar}, time.Hour, io.Discard)[0]
			if v.missed() != test.missed || len(v.tries) != test.attempts || v.best.Value != test.value {
				t.Errorf("got missed %v after %d tries with %g, want %+v", v.missed(), len(v.tries), v.best.Value, test)
			}
		})
	}
}

func TestWithoutBudgetNothingIsRepeated(t *testing.T) {
	v := judge(t.Context(), []bar{values(4, false, 3), values(4, false, 2)}, 0, io.Discard)
	if len(v[0].tries) != 1 || len(v[1].tries) != 1 || !anyMissed(v) {
		t.Errorf("got %+v", v)
	}
}

func TestTheTableSaysWhatIsMissed(t *testing.T) {
	var b bytes.Buffer
	err := table(&b, []verdict{
		{bar: bar{name: "one", limit: 40}, best: measured{Value: 41.234, Low: 39.5, High: 43, Medians: 40.1, Detail: "a by b"}, tries: make([]measured, 1)},
		{bar: bar{name: "two", limit: 1.15, atMost: true}, best: measured{Value: 1.5}, tries: make([]measured, 3)},
		{bar: bar{name: "three"}, best: measured{Value: 0.5, Medians: 0.6}, tries: make([]measured, 1)},
		{bar: bar{name: "four", limit: 1}, best: measured{Value: 2}, tries: make([]measured, 2), err: errors.New("a record was lost")},
		{bar: bar{name: "five", limit: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `ratio  measured  95%          of medians  to be                 tries  
one    41.23     39.50–43.00  40.10       ≥ 40    ok            1      a by b
two    1.50      –            –           ≤ 1.15  MISSED        3      
three  0.50      –            0.60        –       shown         1      
four   –         –            –           ≥ 1     FAILED        2      a record was lost
five   –         –            –           ≥ 1     not measured  0      
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A pair in which the machine was elsewhere moves the ratio of the medians: here from 2
// to 3.
func TestARatioIsTheMedianOfThoseOfThePairs(t *testing.T) {
	m := compared("x", []float64{2, 6, 40}, []float64{1, 3, 2})
	if m.Value != 2 || m.Medians != 3 || m.Low >= 2 || m.High <= 2 {
		t.Errorf("got %+v", m)
	}
}

func TestInformingNeverFails(t *testing.T) {
	// A slice of a millisecond misses some limit, or fails: whatever it is, it is
	// only told, and nothing is left behind.
	if testing.Short() {
		t.Skip("measures every bar once")
	}
	dir := t.TempDir()
	var stdout, stderr bytes.Buffer
	file := filepath.Join(t.TempDir(), "values.json")
	args := []string{"-dir", dir, "-inform", "-budget", "0s", "-slice", "10ms", "-rounds", "2", "-json", file}
	if code := run(t.Context(), args, &stdout, &stderr); code != rig.ExitOK {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
	if strings.Contains(stdout.String(), "FAILED") || strings.Count(stdout.String(), "\n") != 22 {
		t.Errorf("got\n%s", stdout.String())
	}
	var written record
	if text, err := os.ReadFile(file); err != nil || json.Unmarshal(text, &written) != nil || len(written.Bars) != 21 {
		t.Errorf("%d rows were written, %v", len(written.Bars), err)
	}
	for _, b := range written.Bars {
		if len(b.Tries) != 1 || len(b.Tries[0].A) < 2 || len(b.Tries[0].B) > 0 && len(b.Tries[0].B) != len(b.Tries[0].A) {
			t.Errorf("%+v", b)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%v were left, %v", entries, err)
	}
}

func TestWhatCannotBeMeasuredFailsUnlessInforming(t *testing.T) {
	missing := t.TempDir() + "/missing"
	if code := run(t.Context(), []string{"-dir", missing}, io.Discard, io.Discard); code != rig.ExitFailed {
		t.Errorf("exit code %d, want %d", code, rig.ExitFailed)
	}
	if code := run(t.Context(), []string{"-dir", missing, "-inform"}, io.Discard, io.Discard); code != rig.ExitOK {
		t.Errorf("exit code %d, want %d", code, rig.ExitOK)
	}
	for _, args := range [][]string{{"-nonsense"}, {"more"}, {"-slice", "0s"}} {
		if code := run(t.Context(), args, io.Discard, io.Discard); code != rig.ExitUsage {
			t.Errorf("%v: exit code %d, want %d", args, code, rig.ExitUsage)
		}
	}
}

func TestARowThatIsNotThereIsAnError(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"-dir", t.TempDir(), "-only", "no such row"}, &stdout, &stderr); code != rig.ExitFailed {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(stderr.String(), `no row's name contains "no such row"`) {
		t.Error(stderr.String())
	}
}
