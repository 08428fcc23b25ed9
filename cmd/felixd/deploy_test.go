package main

import (
	"bufio"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const deployDir = "../../deploy"

func deployFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deployDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// alert is one rule of alerts.yaml.
type alert struct{ name, expr, severity string }

// alerts reads the rules, which are written one key a line.
func alerts(t *testing.T) []alert {
	t.Helper()
	rule := regexp.MustCompile(`(?m)^ +- alert: (\w+)\n +expr: (.+)\n(?: +for: \w+\n)? +labels: \{severity: (page|ticket)\}\n +annotations:\n +summary: ".+"\n +description: ".+"$`)
	text := deployFile(t, "prometheus/alerts.yaml")
	var found []alert
	for _, m := range rule.FindAllStringSubmatch(text, -1) {
		found = append(found, alert{m[1], m[2], m[3]})
	}
	if n := strings.Count(text, "- alert:"); len(found) != n || n < 15 {
		t.Fatalf("%d of %d alerts are understood", len(found), n)
	}
	return found
}

// expressions gives the queries of the dashboard.
func expressions(t *testing.T) (found []string) {
	t.Helper()
	var document any
	if err := json.Unmarshal([]byte(deployFile(t, "grafana/felix.json")), &document); err != nil {
		t.Fatal(err)
	}
	var walk func(any)
	walk = func(at any) {
		switch at := at.(type) {
		case map[string]any:
			for key, value := range at {
				text, isText := value.(string)
				if isText && (key == "expr" || key == "query" && strings.Contains(text, "felix_")) {
					found = append(found, text)
				}
				walk(value)
			}
		case []any:
			for _, value := range at {
				walk(value)
			}
		}
	}
	walk(document)
	if len(found) < 40 {
		t.Fatalf("only %d queries found", len(found))
	}
	return found
}

var metricName = regexp.MustCompile(`\b(?:felix|go|process)_[a-z0-9_]+\b`)

// exported gives every name that a running server shows, those of histograms with
// their suffixes.
func exported(t *testing.T, s *server) map[string]bool {
	t.Helper()
	status, body := get(t, s.admin, "/metrics")
	if status != 200 {
		t.Fatalf("/metrics answers %d", status)
	}
	names := make(map[string]bool)
	for line := range strings.Lines(body) {
		if name := metricName.FindString(line); !strings.HasPrefix(line, "#") && name != "" {
			names[name] = true
		}
	}
	return names
}

func TestEveryMetricOfTheDashboardAndTheAlertsIsExported(t *testing.T) {
	s := runServer(t, serveFlags(t))
	names := exported(t, s)
	queries := expressions(t)
	for _, a := range alerts(t) {
		queries = append(queries, a.expr)
	}
	used := make(map[string]bool)
	for _, query := range queries {
		for _, name := range metricName.FindAllString(query, -1) {
			used[name] = true
			if !names[name] {
				t.Errorf("%s is in %q and no server exports it", name, query)
			}
		}
	}
	for _, name := range []string{
		"felix_storage_append_duration_seconds_bucket", "felix_storage_sync_duration_seconds_bucket", "felix_storage_sync_batch_appends_sum",
		"felix_storage_unsynced_bytes", "felix_storage_sync_failures_total", "felix_storage_segment_roll_total",
		"felix_storage_recovery_duration_seconds_sum", "felix_storage_recovery_truncated_bytes",
	} {
		if !used[name] {
			t.Errorf("%s answers a question that operators have, and nothing shows it", name)
		}
	}
}

// Labels that a query selects by must be those that the metric has.
func TestLabelsInQueriesAreThoseOfTheMetrics(t *testing.T) {
	s := runServer(t, serveFlags(t))
	families, err := s.exporter.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	labels := make(map[string][]string)
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = append(labels[label.GetName()], label.GetValue())
			}
		}
	}
	grouping := regexp.MustCompile(`by \(([a-z_, ]+)\)`)
	selecting := regexp.MustCompile(`([a-z_]+)="([^"]+)"`)
	queries := expressions(t)
	for _, a := range alerts(t) {
		queries = append(queries, a.expr)
	}
	for _, query := range queries {
		for _, m := range grouping.FindAllStringSubmatch(query, -1) {
			for label := range strings.SplitSeq(m[1], ", ") {
				if _, known := labels[label]; !known && label != "le" && label != "instance" {
					t.Errorf("%q groups by %s, which no metric has", query, label)
				}
			}
		}
		for _, m := range selecting.FindAllStringSubmatch(query, -1) {
			values, known := labels[m[1]]
			if !known || m[1] != "backend" && !slices.Contains(values, m[2]) {
				t.Errorf("%q selects by %s, which no metric has", query, m[0])
			}
		}
	}
}

func TestEveryVariableInDeployIsRead(t *testing.T) {
	parser, _ := grammar(t)
	known := knownVariables(parser.Model)
	variable := regexp.MustCompile(`\bFELIX_[A-Z_]*[A-Z]\b`)
	found := 0
	err := filepath.WalkDir(deployDir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, name := range variable.FindAllString(string(text), -1) {
			found++
			if !slices.Contains(known, name) && name != "FELIX_TLS" { // "the FELIX_TLS_ files"
				t.Errorf("%s names %s, which nothing reads", path, name)
			}
		}
		return nil
	})
	if err != nil || found < 20 {
		t.Errorf("%d names found: %v", found, err)
	}
}

// The example has to start a server as it is.
func TestTheExampleSettingsAreValid(t *testing.T) {
	s := bufio.NewScanner(strings.NewReader(deployFile(t, "felix.env")))
	for s.Scan() {
		line := strings.TrimSpace(s.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			t.Fatalf("%q is no setting", line)
		}
		if strings.TrimSpace(value) != "" {
			t.Setenv(name, value)
		}
	}
	parser, c := grammar(t)
	if _, err := parser.Parse([]string{"serve", "--dir", t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Serve.config(); err != nil {
		t.Error(err)
	}
}

// A check that asks whether a store would work here, as the image's once was, says
// nothing about the server in it.
func TestTheImageServesAndItsHealthCheckAsksTheServer(t *testing.T) {
	for path, lines := range map[string][]string{
		"../Dockerfile.linux": {`CMD ["serve"]`, `  CMD ["/usr/local/bin/felixd", "ready"]`, `ENTRYPOINT ["/usr/local/bin/felixd"]`},
		"compose.yaml":        {`      test: ["CMD", "/usr/local/bin/felixd", "ready"]`, "      # FELIX_ADMIN: https://localhost:9644", "      # FELIX_CA_FILE: /etc/felix/tls.crt"},
	} {
		text := deployFile(t, path)
		for _, line := range lines {
			if !strings.Contains(text, "\n"+line+"\n") {
				t.Errorf("%s lacks the line %q", path, line)
			}
		}
	}
}

func TestTheUnitIsValid(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const program = "/usr/local/bin/felixd"
	unit := deployFile(t, "felixd.service")
	if !strings.Contains(unit, "\nExecStart="+program+" serve") {
		t.Fatalf("the unit does not start %s", program)
	}
	path := filepath.Join(t.TempDir(), "felixd.service")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(unit, program, self)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", path).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

func TestTheUnitLetsTheRingThrough(t *testing.T) {
	unit := deployFile(t, "felixd.service")
	for _, line := range []string{
		"Type=notify", "SystemCallFilter=io_uring_setup io_uring_enter io_uring_register", "StateDirectory=felix",
		"LimitNOFILE=1048576", "LimitMEMLOCK=64M", "User=felix", "ExecReload=/bin/kill -HUP $MAINPID",
	} {
		if !strings.Contains(unit, "\n"+line+"\n") {
			t.Errorf("the unit lacks %q", line)
		}
	}
	if strings.Contains(unit, "SystemCallFilter=~") {
		t.Error("the unit denies system calls by name")
	}
}

func TestTheAlertsAreValidRules(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed")
	}
	for _, args := range [][]string{
		{"check", "rules", filepath.Join(deployDir, "prometheus/alerts.yaml")},
		{"check", "config", filepath.Join(deployDir, "prometheus/prometheus.yaml")},
	} {
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}
