package archtest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "felix.local/felix"

// root is the top of the tree, seen from this package.
const root = "../.."

// arrows lists what each package may import directly or through others: what is
// at or behind the end of its arrows.
//
//	cmd/felixd ──► httpapi, kafka ──► broker ──► engine ──► recovery ──► journal ──► segment ──► device
//	     │              └──► auth                  │          └──► sidecar ────────────────────► device
//	     └──► bench ──► engine, broker             ├──► uring ─────────────────────────────────► device
//	                                               ├──► fallback ──────────────────────────────► device
//	                                               └──► producer ──────────────────► segment
//
// kafka and engine share internal/budget; all else below internal is for tests.
func arrows() map[string][]string {
	return map[string][]string{
		"cmd":      {"httpapi", "kafka", "bench"},
		"httpapi":  {"broker", "auth"},
		"kafka":    {"broker", "auth", sharedBudget},
		"auth":     {},
		"bench":    {"engine", "broker"},
		"broker":   {"engine"},
		"engine":   {"recovery", "uring", "fallback", "sidecar", "producer", sharedBudget},
		"recovery": {"journal", "sidecar"},
		"journal":  {"segment"},
		"producer": {"segment"},
		"sidecar":  {"device"},
		"segment":  {"device"},
		"uring":    {"device"},
		"fallback": {"device"},
		"device":   {},

		sharedBudget: {},
	}
}

// sharedBudget is a part of the product that is nobody else's to import.
const sharedBudget = "internal/budget"

// reachable is everything along the arrows from a package.
func reachable(from string) []string {
	var found []string
	var follow func(string)
	follow = func(at string) {
		for _, next := range arrows()[at] {
			if !slices.Contains(found, next) {
				found = append(found, next)
				follow(next)
			}
		}
	}
	follow(from)
	return found
}

func TestImportsFollowTheArrows(t *testing.T) {
	for path, imports := range productImports(t) {
		from := room(filepath.ToSlash(filepath.Dir(path)))
		if from == "internal" || isHelper(path) {
			continue // helpers of tests may import anything
		}
		if _, known := arrows()[from]; !known {
			t.Errorf("%s: %q is no room of this house; add it to the arrows", path, from)
			continue
		}
		allowed := append(reachable(from), from)
		for _, imported := range imports {
			rest, ours := strings.CutPrefix(imported, module+"/")
			switch to := room(rest); {
			case !ours:
			case to == "internal" || strings.HasSuffix(rest, "/devicetest"):
				t.Errorf("%s imports %s, which is for tests", path, imported)
			case !slices.Contains(allowed, to):
				t.Errorf("%s imports %s, against the arrows", path, imported)
			}
		}
	}
}

func TestOnlyTheCommandKnowsPrometheusKongAndProgressBars(t *testing.T) {
	for path, imports := range productImports(t) {
		for _, imported := range imports {
			for _, front := range []string{"github.com/prometheus/", "github.com/alecthomas/kong", "github.com/schollz/progressbar"} {
				if strings.HasPrefix(imported, front) && !strings.HasPrefix(filepath.ToSlash(path), "cmd/") && !isHelper(path) {
					t.Errorf("%s imports %s", path, imported)
				}
			}
		}
	}
}

// A protocol's codec stays behind its front door: what it brings along is checked
// there, and no other package takes its types for its own.
func TestOnlyTheKafkaFrontDoorKnowsTheProtocol(t *testing.T) {
	for path, imports := range productImports(t) {
		for _, imported := range imports {
			if strings.HasPrefix(imported, "github.com/twmb/") && !strings.HasPrefix(filepath.ToSlash(path), "kafka/") {
				t.Errorf("%s imports %s", path, imported)
			}
		}
	}
}

// room is the first element of a package's path.
func room(path string) string {
	if path == sharedBudget {
		return path
	}
	first, _, _ := strings.Cut(path, "/")
	return first
}

// isHelper says that a package is no part of the product: it exists for tests, or
// packs the product up.
func isHelper(path string) bool {
	path = filepath.ToSlash(path)
	return strings.HasPrefix(path, "device/devicetest/") || strings.HasPrefix(path, "test/") || strings.HasPrefix(path, "packaging/")
}

// productImports gives, for every Go file that is no test, its imports.
func productImports(t *testing.T) map[string][]string {
	t.Helper()
	imports := make(map[string][]string)
	for _, path := range goFiles(t) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		imports[path] = nil
		for _, spec := range file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			imports[path] = append(imports[path], name)
		}
	}
	return imports
}

// goFiles lists the Go files of this module, relative to its top.
func goFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			_, other := os.Stat(filepath.Join(path, "go.mod"))
			hidden := strings.HasPrefix(entry.Name(), ".") && path != root
			if hidden || entry.Name() == "testdata" || other == nil && path != root {
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(path, ".go") {
			relative, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			files = append(files, relative)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 50 {
		t.Fatalf("only %d Go files found below %s", len(files), root)
	}
	return files
}
