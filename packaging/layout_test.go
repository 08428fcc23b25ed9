package main

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

func TestThePackagedUnitDiffersInItsProgramOnly(t *testing.T) {
	text, err := os.ReadFile("../deploy/felixd.service")
	if err != nil {
		t.Fatal(err)
	}
	unit, err := packagedUnit(string(text))
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(unit, "[Unit]\n")
	_, original, _ := strings.Cut(string(text), "[Unit]\n")
	if strings.Replace(body, "/usr/bin/felixd", "/usr/local/bin/felixd", 1) != original {
		t.Errorf("the packaged unit is another one:\n%s", unit)
	}
	for _, line := range []string{"ExecStart=/usr/bin/felixd serve --json", "SystemCallFilter=io_uring_setup io_uring_enter io_uring_register", "User=felix"} {
		if !strings.Contains(unit, "\n"+line+"\n") {
			t.Errorf("the packaged unit lacks %q", line)
		}
	}
}

func TestAUnitThatStartsSomethingElseIsRefused(t *testing.T) {
	for _, unit := range []string{"", "# head\n[Unit]\n[Service]\nExecStart=/opt/felixd serve\n"} {
		if _, err := packagedUnit(unit); err == nil {
			t.Errorf("%q was taken", unit)
		}
	}
}

// documentsBytesMax bounds what the documents add to a package, measurements included.
const documentsBytesMax = 2 << 20

// Measurements lie beside the documents that show them; only the comparison with others
// is too large to come along.
func TestEveryLinkOfAPackagedDocumentIsPackagedToo(t *testing.T) {
	items, err := tree("..", "/usr/share/doc/felixd/", "README.md", "docs")
	if err != nil {
		t.Fatal(err)
	}
	there, bytes := make(map[string]bool), 0
	for _, i := range items {
		there[i.deb] = true
		bytes += len(i.content)
	}
	if bytes > documentsBytesMax {
		t.Errorf("the documents take %d bytes", bytes)
	}
	link := regexp.MustCompile(`\]\(([^)\s#:]+)(?:#[^)]*)?\)`)
	links := 0
	for _, i := range items {
		if path.Ext(i.deb) != ".md" {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(string(i.content), -1) {
			links++
			if to := path.Join(path.Dir(i.deb), m[1]); !there[to] && !strings.HasPrefix(to, "/usr/share/doc/felixd/bench/peers/") {
				t.Errorf("%s links to %s, which is not packaged", i.deb, m[1])
			}
		}
	}
	if links < 50 {
		t.Errorf("only %d links were found", links)
	}
}

// What operations.md sends its readers to.
func TestAlertsDashboardAndComposeFileArePackaged(t *testing.T) {
	text, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	deployed, err := deployment("..")
	if err != nil {
		t.Fatal(err)
	}
	more, err := tree("..", "/usr/share/felixd/", monitoring()...)
	if err != nil {
		t.Fatal(err)
	}
	there := make(map[string]bool)
	for _, i := range append(deployed, more...) {
		there[i.tar] = true
	}
	names := regexp.MustCompile("`(deploy/[a-z/.-]+)`").FindAllStringSubmatch(string(text), -1)
	for _, m := range names {
		if !there[m[1]] {
			t.Errorf("operations.md speaks of %s, which is not packaged", m[1])
		}
	}
	if len(names) < 5 {
		t.Errorf("only %d files are named", len(names))
	}
}
