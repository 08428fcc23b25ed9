package bench

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"felix.local/felix/engine"
	"felix.local/felix/segment"
)

func TestAStoreOnANullDeviceAcknowledgesAndWritesNothing(t *testing.T) {
	config := engine.DefaultConfig()
	config.FsyncMode = engine.FsyncOnCommit
	dir := t.TempDir()
	trial := Trial{
		Dir: dir, FloorSamples: 1, NoVerify: true, Load: Load{Records: 200, PayloadBytes: 64, Batch: 1, Concurrency: 4},
		Open: func(ctx context.Context) (*System, error) {
			return OpenLogs(ctx, LogOptions{Dir: dir, Config: OnNullDevice(config), Logs: 4})
		},
	}
	m, err := trial.Run(t.Context())
	if err != nil || m.Row.Records != 200 || m.Row.Backend != "null" || m.Row.OpsPerAppend <= 0 {
		t.Errorf("%+v, %v", m.Row, err)
	}
	segments, err := filepath.Glob(filepath.Join(dir, "*", "*"+filepath.Ext(segment.LogName(0))))
	if err != nil || len(segments) != 4 {
		t.Fatalf("%v, %v", segments, err)
	}
	for _, path := range segments {
		if info, err := os.Stat(path); err != nil || info.Size() != 0 {
			t.Errorf("%s holds %d bytes, %v", path, info.Size(), err)
		}
	}
}

func TestTheCostOfAnOperationIsWhatTheNullDeviceDoesNotCost(t *testing.T) {
	row := func(round, side int, cpu, ops float64) Taken {
		return Taken{Round: round, Side: side, Measurement: Measurement{Row: Row{CPUMicrosPerAppend: cpu, OpsPerAppend: ops}}}
	}
	results := Results{Points: make([]Point, 1), Sides: []string{"a", "b", "null"}, Rounds: 2, Taken: []Taken{
		row(0, 0, 30, 2), row(0, 1, 50, 1), row(0, 2, 10, 1),
		row(1, 2, 20, 1), row(1, 1, 19, 1), row(1, 0, 26, 0.5),
	}}
	rest, null := results.WithoutNull()
	if diff := cmp.Diff([][]float64{{10, 20}}, null); diff != "" || len(rest.Taken) != 4 || len(rest.Sides) != 2 {
		t.Errorf("%d measurements of %v are left (-want +got):\n%s", len(rest.Taken), rest.Sides, diff)
	}
	for side, want := range [][]float64{{10, 12}, {40, 0}} {
		if diff := cmp.Diff(want, rest.PerOp(0, side, null[0])); diff != "" {
			t.Errorf("side %d (-want +got):\n%s", side, diff)
		}
	}
}
