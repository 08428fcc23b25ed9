package main

import (
	"errors"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"felix.local/felix/test/matrix/diskerror"
	"felix.local/felix/test/matrix/filesystems"
	"felix.local/felix/test/matrix/powercut"
)

func TestTheRevisionIsTheProgramsOrElseTheTrees(t *testing.T) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	built := func(modified string) *debug.BuildInfo {
		return &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: commit}, {Key: "vcs.modified", Value: modified}}}
	}
	tree := func(status string) func(...string) (string, error) {
		return func(args ...string) (string, error) {
			if args[0] == "status" {
				return status, nil
			}
			return "fedcba9876543210fedcba9876543210fedcba98", nil
		}
	}
	none := func(...string) (string, error) { return "", errors.New("no git") }
	for name, c := range map[string]struct {
		info *debug.BuildInfo
		git  func(...string) (string, error)
		want string
	}{
		"built":               {built("false"), none, "0123456789ab"},
		"built, with changes": {built("true"), none, "0123456789ab and changes"},
		"run":                 {&debug.BuildInfo{}, tree(""), "fedcba987654"},
		"run, with changes":   {nil, tree(" M a.go"), "fedcba987654 and changes"},
		"neither":             {nil, none, "unknown"},
	} {
		if got := revisionOf(c.info, c.git); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestEverySectionNamesItsRevision(t *testing.T) {
	const revision = "0123456789ab and changes"
	for name, text := range map[string]string{
		"kernels":     (&Table{Revision: revision}).markdown(),
		"powercut":    powercut.Report{Date: time.Now(), Revision: revision}.Markdown(),
		"diskerror":   diskerror.Report{Date: time.Now(), Revision: revision}.Markdown(),
		"filesystems": filesystems.Report{Date: time.Now(), Revision: revision}.Markdown(),
	} {
		if !strings.Contains(text, ", revision "+revision) {
			t.Errorf("%s does not:\n%s", name, text)
		}
	}
}
