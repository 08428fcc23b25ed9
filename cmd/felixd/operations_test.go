package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"

	"felix.local/felix/engine"
)

// operationsTable gives the rows of docs/operations.md that match a pattern, as its groups.
func operationsTable(t *testing.T, pattern string) (rows []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?m)^"+pattern+"$").FindAllStringSubmatch(string(text), -1) {
		rows = append(rows, m[0])
	}
	return rows
}

func TestTheDocumentListsEverySettingOfTheServerWithItsDefault(t *testing.T) {
	var want []string
	for _, v := range serverVariables() {
		byDefault := "unset"
		if v.Default != "" {
			byDefault = "`" + v.Default + "`"
		}
		want = append(want, fmt.Sprintf("| `%s` | %s | %s |", v.Name, byDefault, v.Meaning))
	}
	if diff := cmp.Diff(want, operationsTable(t, "\\| `FELIX_[A-Z_]+` \\| .+ \\|")); diff != "" {
		t.Errorf("(-code +docs/operations.md):\n%s", diff)
	}
}

func TestTheDocumentListsEveryMetricWithItsTypeAndMeaning(t *testing.T) {
	s := runServer(t, serveFlags(t))
	families, err := s.exporter.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, family := range families {
		if strings.HasPrefix(family.GetName(), "felix_") {
			want = append(want, fmt.Sprintf("| `%s` | %s | %s |", family.GetName(), metricType(family.GetType()), family.GetHelp()))
		}
	}
	if diff := cmp.Diff(want, operationsTable(t, "\\| `felix_[a-z_]+` \\| .+ \\|")); diff != "" {
		t.Errorf("(-code +docs/operations.md):\n%s", diff)
	}
}

func metricType(sort dto.MetricType) string { return strings.ToLower(sort.String()) }

func TestTheDocumentListsEveryAlert(t *testing.T) {
	var want []string
	for _, a := range alerts(t) {
		want = append(want, a.name+" "+a.severity)
	}
	slices.Sort(want)
	var shown []string
	row := regexp.MustCompile("^\\| `(Felix[A-Za-z]+)` \\| (page|ticket) \\|")
	for _, line := range operationsTable(t, "\\| `Felix[A-Za-z]+` \\| .+ \\|") {
		m := row.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("%q names no severity", line)
			continue
		}
		shown = append(shown, m[1]+" "+m[2])
	}
	slices.Sort(shown)
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("(-alerts.yaml +docs/operations.md):\n%s", diff)
	}
}

func TestEverySettingOfTheServerHasOneFlagAndOneName(t *testing.T) {
	seen := make(map[string]bool)
	var want []string
	for _, v := range allVariables() {
		if seen[v.Name] {
			t.Errorf("%s is there twice", v.Name)
		}
		seen[v.Name] = true
		if !strings.HasPrefix(v.Name, engine.VariablePrefix) {
			t.Errorf("%s does not begin with %s", v.Name, engine.VariablePrefix)
		}
	}
	for _, v := range serverVariables() {
		want = append(want, v.Name)
	}
	var flags []string
	for name := range variablesOf(&serverFlags{}) {
		flags = append(flags, name)
	}
	slices.Sort(want)
	slices.Sort(flags)
	if diff := cmp.Diff(want, flags); diff != "" {
		t.Errorf("(-settings +flags):\n%s", diff)
	}
}
