package archtest

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// linesMax is where a file has to say at its top why it stays whole.
const linesMax = 600

func TestALongFileSaysWhyItStaysWhole(t *testing.T) {
	for _, path := range goFiles(t) {
		source := read(t, path)
		lines := bytes.Count(source, []byte("\n"))
		if lines > linesMax && !bytes.HasPrefix(source, []byte("// ")) {
			t.Errorf("%s has %d lines and no head comment that says why", path, lines)
		}
	}
}

func TestEveryPackageSaysWhatItOwns(t *testing.T) {
	packages := make(map[string]bool)
	for _, path := range goFiles(t) {
		dir := filepath.Dir(path)
		if packages[dir] {
			continue
		}
		packages[dir] = true
		if _, err := os.Stat(filepath.Join(root, dir, "doc.go")); err != nil {
			t.Errorf("%s has no doc.go", dir)
		}
	}
}

func TestEverySkipHasAReason(t *testing.T) {
	for _, path := range goFiles(t) {
		if !strings.HasSuffix(path, "_test.go") {
			continue
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, read(t, path), 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			selector, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			switch selector.Sel.Name {
			case "SkipNow":
				t.Errorf("%s skips without a reason", files.Position(call.Pos()))
			case "Skip", "Skipf":
				if len(call.Args) == 0 || isEmptyText(call.Args[0]) {
					t.Errorf("%s skips without a reason", files.Position(call.Pos()))
				}
			}
			return true
		})
	}
}

func isEmptyText(e ast.Expr) bool {
	literal, ok := e.(*ast.BasicLit)
	return ok && strings.Trim(literal.Value, "\"` ") == ""
}

// TestNothingIsLeftUnfinished looks for the words with which unfinished work
// announces itself. They are put together here, so that this file holds none.
func TestNothingIsLeftUnfinished(t *testing.T) {
	words := regexp.MustCompile(strings.Join([]string{
		"TO" + "DO", "FIX" + "ME", "XX" + "X", "not " + "implemented", "un" + "implemented", "for " + "now", `\b` + "place" + "holder" + `\b[^:]`,
	}, "|"))
	for _, path := range goFiles(t) {
		for i, line := range bytes.Split(read(t, path), []byte("\n")) {
			if words.Match(line) {
				t.Errorf("%s:%d: %s", path, i+1, bytes.TrimSpace(line))
			}
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return source
}
