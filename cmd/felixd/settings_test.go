package main

import (
	"io"
	"reflect"
	"regexp"
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
	return newParser(&c, kong.Writers(io.Discard, io.Discard)), &c
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

// The help once showed the server's defaults where the tool has its own.
func TestTheDefaultInAHelpIsTheOneInEffect(t *testing.T) {
	shown := regexp.MustCompile(`\[default (\S+)\]`)
	for _, args := range [][]string{
		{"log", "write", "--dir", "x"},
		{"log", "verify", "--dir", "x"},
		{"log", "bench", "--dir", "x"},
		{"bench", "run", "--dir", "x"},
		{"bench", "ab", "--dir", "x"},
		{"log", "inspect", "x"},
		{"doctor"},
		{"demo"},
	} {
		parser, c := grammar(t)
		parsed, err := parser.Parse(args)
		if err != nil {
			t.Fatal(err)
		}
		configs := func() []engine.Config {
			var all []engine.Config
			for _, read := range []func() (engine.Config, error){
				func() (engine.Config, error) { return c.Log.Write.config(c.Log.Write.defaults()) },
				func() (engine.Config, error) { return c.Log.Verify.config(c.Log.Verify.defaults()) },
				func() (engine.Config, error) { return c.Log.Bench.config(c.Log.Bench.runs()[0]) },
				func() (engine.Config, error) { return c.Bench.Run.config(c.Bench.Run.defaults()) },
				func() (engine.Config, error) { return c.Bench.AB.config(c.Bench.AB.defaults()) },
				c.Log.Inspect.config,
				func() (engine.Config, error) { return c.Doctor.config(nil) },
				c.Demo.backendFlags.config,
			} {
				config, err := read()
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, config)
			}
			return all
		}
		want := configs()
		for _, flag := range parsed.Selected().Flags {
			variables := strings.Join(flag.Envs, "")
			stored := strings.HasPrefix(variables, "FELIX_DURABLE_") || strings.HasPrefix(variables, "FELIX_STORAGE_")
			if m := shown.FindStringSubmatch(flag.Help); m != nil && stored && variables != engine.RootVariable {
				flag.Target.SetString(m[1])
			} else if stored && m == nil && flag.Name != "retention-bytes" && flag.Name != "retention-seconds" && variables != engine.RootVariable {
				t.Errorf("%v: --%s shows no default", args, flag.Name)
			}
		}
		if diff := cmp.Diff(want, configs()); diff != "" {
			t.Errorf("%v: what the help shows is not what applies (-applies +shown):\n%s", args, diff)
		}
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
