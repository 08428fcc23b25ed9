package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"felix.local/felix/broker"
	"felix.local/felix/engine"
)

func shortLoad() Load { return Load{Records: 60, PayloadBytes: 64, Batch: 2, Concurrency: 3} }

func engineSide(name string, mode engine.IOURingMode) Side {
	return Side{Name: name, Open: func(ctx context.Context, dir string, p Point) (*System, error) {
		config := engine.DefaultConfig()
		config.FsyncMode, config.IOURing = engine.FsyncOnCommit, mode
		return OpenLogs(ctx, LogOptions{Dir: dir, Config: config, Logs: p.Logs})
	}}
}

func TestSidesTakeTurnsInGoingFirst(t *testing.T) {
	var order []string
	dir := t.TempDir()
	plan := Plan{
		Dir: dir, Rounds: 3, Label: "x", FloorSamples: 1,
		Points: []Point{{Logs: 1, Load: shortLoad()}, {Logs: 2, Load: shortLoad()}},
		Sides:  []Side{engineSide("A", engine.IOURingAuto), engineSide("B", engine.IOURingOff)},
		Begin: func(p Point, side string, round int) (func(int64), func()) {
			order = append(order, fmt.Sprint(round, side, p.Logs))
			return nil, func() { order = append(order, "end") }
		},
	}
	results, err := plan.Run(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Fields("0A1 0B1 0A2 0B2 1B1 1A1 1B2 1A2 2A1 2B1 2A2 2B2")
	if diff := cmp.Diff(want, slices.DeleteFunc(order, func(s string) bool { return s == "end" })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	assertEmpty(t, dir)
	c := results.Compare(1)
	if c.A.Rounds != 3 || len(c.Throughput.Pairs) != 3 || c.Throughput.Low <= 0 || c.A.Side != "A" || c.B.Row.Backend != "pool" {
		t.Errorf("got %+v", c)
	}
	for _, taken := range results.Taken {
		row := taken.Row
		if row.VerifiedRecords != 60 || row.Records != 60 || row.CPUMicrosPerAppend <= 0 || row.RecordsPerWrite <= 0 || row.FlushesPerAppend <= 0 {
			t.Errorf("got %+v", row)
		}
		if row.DeviceSequentialMicros <= 0 {
			t.Errorf("the device was not measured: %+v", row)
		}
	}
}

// The system of this plan loses what it acknowledged last.
func TestAPlanEndsWhenARecordIsLost(t *testing.T) {
	dir := t.TempDir()
	open := func(context.Context, string, Point) (*System, error) {
		s := newShelf(1)
		return &System{
			Logs: 1, Target: s.target, Close: func(context.Context) error { return nil },
			ReadBack: func(context.Context) (ReadBack, func(context.Context) error, error) {
				s.logs[0] = s.logs[0][:len(s.logs[0])-1]
				return s.read, func(context.Context) error { return nil }, nil
			},
		}, nil
	}
	plan := Plan{Dir: dir, Rounds: 1, FloorSamples: 1, Points: []Point{{Logs: 1, Load: shortLoad()}}, Sides: []Side{{Name: "forgetful", Open: open}}}
	_, err := plan.Run(t.Context(), nil)
	var lost *LostError
	if !errors.As(err, &lost) || lost.Offset != 59 || !strings.Contains(err.Error(), "forgetful") {
		t.Errorf("got %v", err)
	}
	assertEmpty(t, dir)
	plan.NoVerify = true
	results, err := plan.Run(t.Context(), nil)
	if err != nil || results.Taken[0].Row.VerifiedRecords != 0 {
		t.Errorf("%+v, %v", results.Taken, err)
	}
}

func TestEverySystemIsReadBackWhenItIsOpenedAgain(t *testing.T) {
	config := engine.DefaultConfig()
	for name, open := range map[string]func(dir string) func(context.Context) (*System, error){
		"logs": func(dir string) func(context.Context) (*System, error) {
			return func(ctx context.Context) (*System, error) {
				return OpenLogs(ctx, LogOptions{Dir: dir, Config: config, Logs: 3})
			}
		},
		"a log alone": func(dir string) func(context.Context) (*System, error) {
			return func(ctx context.Context) (*System, error) {
				return OpenLogs(ctx, LogOptions{Dir: dir, Config: config, Logs: 1, Single: true})
			}
		},
		"a stream": func(dir string) func(context.Context) (*System, error) {
			return func(ctx context.Context) (*System, error) {
				return OpenBroker(ctx, BrokerOptions{Dir: dir, Broker: broker.Config{Engine: config}, Shards: 2, Subscribers: 2})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			trial := Trial{Dir: dir, FloorSamples: 1, Open: open(dir), Load: Load{Records: 10_000, PayloadBytes: 700, Batch: 5, Concurrency: 4}}
			m, err := trial.Run(t.Context())
			if err != nil || m.Row.VerifiedRecords != m.Row.Records || m.Row.Records == 0 {
				t.Fatalf("%+v, %v", m.Row, err)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) == 0 {
				t.Errorf("nothing was written: %v", err)
			}
		})
	}
}

func TestQuantilesRiseToTheMaximum(t *testing.T) {
	r := newRecorder()
	for i := range 5000 {
		r.record(time.Duration(i) * time.Microsecond)
	}
	curve := (&Distribution{r}).Quantiles()
	for i := 1; i < len(curve); i++ {
		if curve[i].Share <= curve[i-1].Share || curve[i].Micros < curve[i-1].Micros {
			t.Fatalf("%+v is followed by %+v", curve[i-1], curve[i])
		}
	}
	if last := curve[len(curve)-1]; last != (Quantile{1, 4999}) {
		t.Errorf("the curve ends with %+v", last)
	}
	if both := Merged(&Distribution{r}, &Distribution{r}); both.recorder.mu.histogram.TotalCount() != 10_000 {
		t.Error("merging lost latencies")
	}
}
