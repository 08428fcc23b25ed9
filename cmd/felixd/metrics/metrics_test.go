package metrics

import (
	"errors"
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"felix.local/felix/broker"
	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/recovery"
)

// documented is every name that dashboards may rely on.
var documented = []string{
	"felix_storage_append_records_total", "felix_storage_append_bytes_total", "felix_storage_sync_total",
	"felix_storage_sync_failures_total", "felix_storage_full_total", "felix_storage_index_write_failures_total",
	"felix_storage_segment_roll_total", "felix_storage_segment_roll_background_total",
	"felix_storage_segment_roll_failed_total", "felix_storage_segment_roll_discarded_total",
	"felix_storage_segment_reserve_failed_total", "felix_storage_retention_segments_deleted_total",
	"felix_storage_retention_bytes_reclaimed_total", "felix_storage_retention_failures_total",
	"felix_storage_read_records_total", "felix_storage_read_bytes_total", "felix_storage_recovery_truncated_bytes",
	"felix_storage_recovery_abandoned_rolls_total", "felix_storage_recovery_index_rebuilds_total",

	"felix_storage_unsynced_bytes", "felix_storage_segment_count", "felix_storage_open_sealed_segments",
	"felix_storage_retention_base_offset",

	"felix_storage_append_batch_records", "felix_storage_append_duration_seconds",
	"felix_storage_sync_duration_seconds", "felix_storage_sync_batch_appends", "felix_storage_read_duration_seconds",
	"felix_storage_recovery_duration_seconds",

	"felix_storage_backend_info", "felix_storage_ops_total", "felix_storage_ops_in_flight",
	"felix_storage_ring_enters_total", "felix_storage_ring_ops_per_enter", "felix_storage_oldest_op_age_seconds",
	"felix_storage_free_bytes", "felix_storage_free_inodes", "felix_storage_full",
}

type fakeStore struct {
	stats   engine.StoreStats
	backend engine.Backend
}

func (f fakeStore) Stats() engine.StoreStats { return f.stats }
func (f fakeStore) Backend() engine.Backend  { return f.backend }

func TestEveryDocumentedNameIsExportedExactlyOnce(t *testing.T) {
	families, err := New().Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	times := make(map[string]int)
	for _, family := range families {
		times[family.GetName()]++
	}
	for _, name := range documented {
		if times[name] != 1 {
			t.Errorf("%s is exported %d times", name, times[name])
		}
	}
}

func TestNamesFollowTheConventionsWherePossible(t *testing.T) {
	problems, err := testutil.GatherAndLint(New().Gatherer())
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		switch problem.Metric {
		case "felix_storage_recovery_truncated_bytes", "felix_storage_segment_count":
			continue // names that dashboards already know
		}
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
}

func TestValuesComeFromTheAttachedStore(t *testing.T) {
	m := New()
	stats := engine.StoreStats{AppendRecords: 7, SpaceLow: true}
	stats.Inline[device.Write] = 3
	stats.Queue = device.QueueStats{Backend: "ring", Enters: 2, EnterOps: 64, OldestAge: 1500 * time.Millisecond}
	stats.Queue.Ops[device.WriteDsync] = 64
	m.Attach(fakeStore{stats, engine.Backend{Name: "ring", Driver: "native"}})
	want := `
# HELP felix_storage_append_records_total Records acknowledged.
# TYPE felix_storage_append_records_total counter
felix_storage_append_records_total 7
# HELP felix_storage_backend_info The I/O backend; reason says why this one.
# TYPE felix_storage_backend_info gauge
felix_storage_backend_info{backend="ring",driver="native",reason=""} 1
# HELP felix_storage_full 1 while appends are refused because free space is below the guard.
# TYPE felix_storage_full gauge
felix_storage_full 1
# HELP felix_storage_oldest_op_age_seconds Age of the oldest unfinished operation.
# TYPE felix_storage_oldest_op_age_seconds gauge
felix_storage_oldest_op_age_seconds 1.5
# HELP felix_storage_ring_ops_per_enter Submission entries per call of io_uring_enter since start.
# TYPE felix_storage_ring_ops_per_enter gauge
felix_storage_ring_ops_per_enter 32
`
	err := testutil.GatherAndCompare(m.Gatherer(), strings.NewReader(want),
		"felix_storage_append_records_total", "felix_storage_backend_info", "felix_storage_full",
		"felix_storage_oldest_op_age_seconds", "felix_storage_ring_ops_per_enter")
	if err != nil {
		t.Error(err)
	}
	lines := scrape(t, m, "felix_storage_ops_total{")
	for _, line := range []string{
		`felix_storage_ops_total{kind="write",route="inline"} 3`,
		`felix_storage_ops_total{kind="write_dsync",route="ring"} 64`,
		`felix_storage_ops_total{kind="write_dsync",route="pool"} 0`,
	} {
		if !slices.Contains(lines, line) {
			t.Errorf("%s is missing from:\n%s", line, strings.Join(lines, "\n"))
		}
	}
	m.Detach()
	if got := scrape(t, m, "felix_storage_append_records_total"); !slices.Equal(got, []string{"felix_storage_append_records_total 0"}) {
		t.Errorf("after Detach: %v", got)
	}
}

func TestEventsFillHistograms(t *testing.T) {
	m := New()
	m.Appended(16, 2048, time.Millisecond)
	m.Synced(4, time.Millisecond, nil)
	m.Synced(0, time.Millisecond, errors.New("i/o error"))
	m.Read(10, 1280, time.Millisecond)
	m.Recovered(recovery.Report{Duration: time.Second})
	got := scrape(t, m, "felix_storage_")
	got = slices.DeleteFunc(got, func(line string) bool {
		return !strings.Contains(line, "_count ") || strings.Contains(line, "segment_count")
	})
	want := []string{
		"felix_storage_append_batch_records_count 1", "felix_storage_append_duration_seconds_count 1",
		"felix_storage_read_duration_seconds_count 1", "felix_storage_recovery_duration_seconds_count 1",
		"felix_storage_sync_batch_appends_count 1", "felix_storage_sync_duration_seconds_count 2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// scrape returns the exported lines that start with prefix.
func scrape(t *testing.T, m *Metrics, prefix string) []string {
	t.Helper()
	response := httptest.NewRecorder()
	m.Handler().ServeHTTP(response, httptest.NewRequest("GET", "/metrics", nil))
	body, err := io.ReadAll(response.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, prefix) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// fakeBroker says what a test gives it.
type fakeBroker struct{ stats broker.Stats }

func (f fakeBroker) Stats() broker.Stats   { return f.stats }
func (f fakeBroker) Health() broker.Health { return broker.Health{} }

func TestRepeatedPublishesOfProducersAreCounted(t *testing.T) {
	m := New()
	m.AttachBroker(fakeBroker{broker.Stats{Duplicates: 7}})
	want := `# HELP felix_publish_duplicates_total Publishes of idempotent producers that were stored already and answered again.
# TYPE felix_publish_duplicates_total counter
felix_publish_duplicates_total 7
`
	if err := testutil.GatherAndCompare(m.Gatherer(), strings.NewReader(want), "felix_publish_duplicates_total"); err != nil {
		t.Error(err)
	}
}

func TestTheBuildIsInLabels(t *testing.T) {
	m := New()
	m.AddBuild(Build{Version: "1.2.3", Revision: "abc", Go: "go1.26"})
	want := []string{`felix_build_info{go="go1.26",revision="abc",version="1.2.3"} 1`}
	if got := scrape(t, m, "felix_build_info"); !slices.Equal(got, want) {
		t.Errorf("exported %v", got)
	}
}
