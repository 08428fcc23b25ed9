package main

import (
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"felix.local/felix/engine"
)

// grammar parses flags of the tool without running anything.
func grammar(t *testing.T) (*kong.Kong, *commands) {
	t.Helper()
	var c commands
	parser, err := kong.New(&c, kong.Vars(storageHelp()), kong.Vars{"offset_max": offsetMax()}, kong.Writers(io.Discard, io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	return parser, &c
}

func TestEveryStorageVariableHasOneFlag(t *testing.T) {
	var variables []string
	var walk func(reflect.Type)
	walk = func(flags reflect.Type) {
		for i := range flags.NumField() {
			field := flags.Field(i)
			if field.Anonymous {
				walk(field.Type)
			} else if name := field.Tag.Get("env"); name != "" {
				variables = append(variables, name)
			}
		}
	}
	walk(reflect.TypeFor[storageFlags]())
	slices.Sort(variables)
	var want []string
	for _, v := range engine.Variables() {
		if v.Name != engine.RootVariable { // each command says itself what its directory is
			want = append(want, v.Name)
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, variables); diff != "" {
		t.Errorf("(-engine +flags):\n%s", diff)
	}
}

func TestFlagsReachTheConfiguration(t *testing.T) {
	parser, c := grammar(t)
	_, err := parser.Parse([]string{
		"log", "write", "--dir", "x", "--no-preallocate", "--repair-checksum-tail", "--index-spacing", "512",
		"--verify-all-on-open=no", "--io-uring", "require", "--file-mode=0600",
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Log.Write.config(logDefaults())
	if err != nil {
		t.Fatal(err)
	}
	want := engine.DefaultConfig()
	want.FsyncMode, want.SegmentBytes = engine.FsyncOnCommit, 64<<20 // the tool's own defaults
	want.Preallocate, want.RepairChecksumTail, want.IndexSpacingBytes = false, true, 512
	want.IOURing, want.FileMode = engine.IOURingRequire, 0o600
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEveryVariableOfTheGrammarIsKnown(t *testing.T) {
	parser, _ := grammar(t)
	known := knownVariables(parser.Model)
	for _, v := range engine.Variables() {
		if !slices.Contains(known, v.Name) {
			t.Errorf("%s would be warned about", v.Name)
		}
	}
	for _, name := range []string{"FELIX_BENCH_RECORDS", "FELIX_BENCH_PAYLOAD", "FELIX_BENCH_DIR", "FELIX_BENCH_CONCURRENCY", "FELIX_BENCH_BATCH", "FELIX_LOG_LEVEL"} {
		if !slices.Contains(known, name) {
			t.Errorf("%s would be warned about", name)
		}
	}
	if i := slices.IndexFunc(known, func(name string) bool { return !strings.HasPrefix(name, engine.VariablePrefix) }); i >= 0 {
		t.Errorf("%s does not begin with %s", known[i], engine.VariablePrefix)
	}
}
