package archtest

import (
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
	link := regexp.MustCompile(`\]\(([^)#:]+\.md)\)`)
	for dir, documents := range map[string][]string{
		"":      {"README.md"},
		"docs/": {"durability.md", "decisions.md"},
	} {
		for _, document := range documents {
			for _, m := range link.FindAllStringSubmatch(string(read(t, dir+document)), -1) {
				if len(read(t, dir+m[1])) == 0 {
					t.Errorf("%s links to %s, which is empty", document, m[1])
				}
			}
		}
	}
}
