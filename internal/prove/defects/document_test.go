package defects

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The document lists these defects, in this order, with the checks that catch them.
func TestTheDocumentedDefectsAreThese(t *testing.T) {
	document, err := os.ReadFile("../../../docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	for _, d := range Table() {
		var checks []string
		for _, c := range d.Caught {
			checks = append(checks, fmt.Sprintf("`%s` `%s`", c.Package, c.Test))
		}
		fmt.Fprintf(&rows, "| %s | %s |\n", d.Name, strings.Join(checks, ", "))
	}
	if !strings.Contains(string(document), rows.String()) {
		t.Errorf("docs/reliability.md has to hold these rows:\n%s", rows.String())
	}
}
