package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"felix.local/felix/engine"
)

func TestReadmeShowsTheExampleThatIsTested(t *testing.T) {
	source := string(read(t, "engine/example_test.go"))
	_, rest, _ := strings.Cut(source, "\t// README begins\n")
	tested, _, found := strings.Cut(rest, "\t// README ends\n")
	if !found {
		t.Fatal("engine/example_test.go has lost its markers")
	}
	tested = strings.ReplaceAll("\n"+tested, "\n\t", "\n")

	_, rest, _ = strings.Cut(string(read(t, "README.md")), "```go")
	shown, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("README.md shows no Go code")
	}
	if diff := cmp.Diff(tested, shown); diff != "" {
		t.Errorf("(-tested +shown):\n%s", diff)
	}
}

func TestReadmeListsEveryVariableWithItsDefault(t *testing.T) {
	row := regexp.MustCompile("(?m)^\\| `(FELIX_[A-Z_]+)` \\| (?:`([^`]*)`|unset) \\| (.+) \\|$")
	type variable struct{ Name, Default, Meaning string }
	var shown, known []variable
	for _, m := range row.FindAllStringSubmatch(string(read(t, "README.md")), -1) {
		shown = append(shown, variable{m[1], m[2], m[3]})
	}
	for _, v := range engine.Variables() {
		known = append(known, variable{v.Name, v.Default, v.Meaning})
	}
	if diff := cmp.Diff(known, shown); diff != "" {
		t.Errorf("(-engine +README):\n%s", diff)
	}
}

func TestLinksInDocumentsLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	for _, document := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(string(read(t, document)), -1) {
			target := filepath.Join(filepath.Dir(document), m[1])
			if info, err := os.Stat(filepath.Join(root, target)); err != nil || info.Size() == 0 {
				t.Errorf("%s links to %s, which is not there or empty", document, m[1])
			}
		}
	}
}

// documents are the README and everything in docs/.
func documents(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no documents found: %v", err)
	}
	list := []string{"README.md"}
	for _, path := range paths {
		list = append(list, filepath.Join("docs", filepath.Base(path)))
	}
	return list
}

// Tests name a row by its number, which says nothing without the table.
func TestRowsInTestNamesAreThoseOfTheTable(t *testing.T) {
	number := regexp.MustCompile(`\bC2\d\d\b|\bTest(C2\d\d)`)
	row := regexp.MustCompile(`(?m)^\| (C2\d\d) \|`)
	used, listed := make(map[string]bool), make(map[string]bool)
	for _, path := range goFiles(t) {
		if !strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, m := range number.FindAllString(string(read(t, path)), -1) {
			used[strings.TrimPrefix(m, "Test")] = true
		}
	}
	for _, m := range row.FindAllStringSubmatch(string(read(t, "docs/recovery.md")), -1) {
		listed[m[1]] = true
	}
	if diff := cmp.Diff(used, listed); diff != "" {
		t.Errorf("(-used in tests +listed in docs/recovery.md):\n%s", diff)
	}
}
