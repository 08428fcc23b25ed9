package rig_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"felix.local/felix/bench/internal/rig"
)

func parse(stderr io.Writer, args ...string) (rig.Flags, bool) {
	return rig.Parse(rig.Words{Command: "weigh", Rounds: "how often", One: "stone"}, args, stderr, nil)
}

func TestFlagsAreReadOrRefusedWithAReason(t *testing.T) {
	f, ok := parse(io.Discard, "-dir", "/d", "-slice", "2s", "-rounds", "7", "-json", "f")
	if !ok || f.Dir != "/d" || f.Slice != 2*time.Second || f.Rounds != 7 || f.JSON != "f" {
		t.Errorf("got %+v, %v", f, ok)
	}
	var heavy bool
	if _, ok := rig.Parse(rig.Words{}, []string{"-heavy"}, io.Discard, func(s *flag.FlagSet) { s.BoolVar(&heavy, "heavy", false, "") }); !ok || !heavy {
		t.Error("a flag of the command alone is not known")
	}
	for args, want := range map[string]string{
		"-nonsense":   "nonsense",
		"more":        "weigh: there are no arguments",
		"-slice 0s":   "at least a millisecond",
		"-rounds 0":   "at least one round",
		"-help":       "measure only the stones whose name contains this",
		"-rounds few": "how often",
	} {
		var stderr bytes.Buffer
		if _, ok := parse(&stderr, strings.Fields(args)...); ok || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: accepted %v, %s", args, ok, stderr.String())
		}
	}
}

func TestNamesAreChosenByAPartOfThem(t *testing.T) {
	itself := func(name string) string { return name }
	for only, want := range map[string]string{"": "basalt granite gravel", "gra": "granite gravel", "lt": "basalt"} {
		f, _ := parse(io.Discard, "-only", only)
		got, err := rig.Choose(f, []string{"basalt", "granite", "gravel"}, itself)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %v, %v", only, got, err)
		}
	}
	f, _ := parse(io.Discard, "-only", "gold")
	if _, err := rig.Choose(f, []string{"basalt"}, itself); err == nil || err.Error() != `no stone's name contains "gold"` {
		t.Error(err)
	}
}

func TestARecordSaysWhenAndHow(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stones.json")
	f, _ := parse(io.Discard, "-json", file, "-rounds", "2")
	if err := f.Write(struct {
		rig.Record
		Kilograms []int `json:"kilograms"`
	}{f.Record(), []int{3}}); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	text, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(text, &got) != nil || len(got) != 3 || got["when"] == nil ||
		got["command"] != "go run ./bench/weigh -json "+file+" -rounds 2" {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestADirectoryIsGoneAfterItsUse(t *testing.T) {
	dir, oops := t.TempDir(), errors.New("oops")
	err := rig.Within(dir, "heap-", func(made string) error {
		if filepath.Dir(made) != dir || !strings.HasPrefix(filepath.Base(made), "heap-") {
			t.Errorf("got %s in %s", made, dir)
		}
		return errors.Join(oops, os.WriteFile(filepath.Join(made, "stone"), nil, 0o600))
	})
	left, readErr := os.ReadDir(dir)
	if !errors.Is(err, oops) || readErr != nil || len(left) > 0 {
		t.Errorf("%v; %v were left, %v", err, left, readErr)
	}
	if err := rig.Within(filepath.Join(dir, "missing"), "", func(string) error { t.Error("it was used"); return nil }); err == nil {
		t.Error("nothing to make it in, and no error")
	}
}
