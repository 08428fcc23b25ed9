package bench

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRowCarriesResultAndMeanOfFloors(t *testing.T) {
	result := Result{
		Load:    Load{Records: 1000, PayloadBytes: 128, Batch: 4, Concurrency: 2},
		Appends: 250, Records: 1000, CPU: 5 * time.Millisecond, Elapsed: 500 * time.Millisecond, Latency: Latency{P50: 1, P90: 2, P99: 3, P999: 4, Max: 5},
	}
	row := result.Row("run", "on_commit", "ring", 1,
		Floor{Inline: 200 * time.Microsecond, DirectOverwrite: 100 * time.Microsecond},
		Floor{Inline: 300 * time.Microsecond, DirectOverwrite: 140 * time.Microsecond, Sequential: 400 * time.Microsecond})
	row.addWork(Work{Appends: 250, Records: 1000, Writes: 125, Flushes: 100, Ops: 200, Enters: 50, EnterOps: 150}, result, true)
	text, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"label":"run","fsync":"on_commit","backend":"ring","logs":1,"records":1000,"batch":4,"payload_bytes":128,` +
		`"concurrency":2,"seconds":0.5,"records_per_second":2000,"appends":250,` +
		`"latency_us":{"p50":1,"p90":2,"p99":3,"p999":4,"max":5},"device_dsync_us":250,"device_overwrite_us":120,"device_sequential_us":200,` +
		`"rate_asked":0,"unserved":0,"cpu_us_per_append":20,"records_per_write":8,"flushes_per_append":0.4,"ops_per_enter":3,"ops_per_append":0.8,"verified_records":0}`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	table := Markdown([]Row{row})
	last := "| on_commit | ring | 1 | 4 | 2 | 2000 | 1 | 2 | 3 | 4 | 5 | 250 | 120 |\n"
	if got := table[len(table)-len(last):]; got != last {
		t.Errorf("got %q, want %q", got, last)
	}
}

func TestMedianTakesTheMiddleRoundOfEachRow(t *testing.T) {
	at := func(backend string, rate float64) Row { return Row{Backend: backend, RecordsPerSecond: rate} }
	rows := []Row{at("ring", 10), at("pool", 7), at("ring", 30), at("pool", 9), at("ring", 20), at("pool", 8)}
	if diff := cmp.Diff([]Row{at("ring", 20), at("pool", 8)}, Median(rows)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
