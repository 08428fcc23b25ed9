package main

import (
	"os"
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
