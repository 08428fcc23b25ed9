package corrupt

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestEveryImageHasACaseThatCanBeReadBack(t *testing.T) {
	w, err := newWorld(Mixed, Rolling, Options{SegmentBytes: testSegmentBytes, Kinds: Kinds(), VerifyAll: true}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for d := range w.damages() {
		c := w.caseOf(d)
		if back, err := ParseCase(c.String()); err != nil || back != c {
			t.Fatalf("%v was read as %+v, %v", c, back, err)
		}
		if err := d.check(w); err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		if seen[c.String()] {
			t.Fatalf("%v is listed twice", c)
		}
		seen[c.String()] = true
	}
	if len(seen) < 30_000 {
		t.Errorf("only %d images", len(seen))
	}
}

func TestWordsThatAreNoCaseAreRefused(t *testing.T) {
	for _, s := range []string{
		"", "v3", "v3:killed:1500:rust:f:0:0", "v3:killed:x:flip:f:0:0", "v3:killed:1500:flip:f:x:0",
		"v3:killed:1500:flip:f:0:x", "v3:killed:1500:swap-sectors:f:0:x", "v3:killed:1500:flip:f:0:0:often", "v3:killed:1500:flip:f:0:0:verified:",
	} {
		if c, err := ParseCase(s); err == nil {
			t.Errorf("%q was read as %+v", s, c)
		}
	}
	for s, part := range map[string]string{
		"v3:killed:1500:flip:f:0:0":                                   `no file "f"`,
		"v3:killed:1500:flip:durable.mark:32:0":                       "only 32 bytes",
		"v3:killed:1500:flip:durable.mark:0:8":                        "no bit 8",
		"v3:killed:9000:swap-sectors:00000000000000000000.log:0:-512": "bytes",
		"v3:killed:1500:swap-files:durable.mark:0:durable.mark":       "no other file",
		"v9:killed:1500:flip:durable.mark:0:0":                        `"v9" is none of`,
		"v3:sleeping:1500:flip:durable.mark:0:0":                      `"sleeping" is none of`,
	} {
		c, err := ParseCase(s)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := Run(new(bytes.Buffer), Options{Only: &c}); err == nil || r.Images > 0 || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v, %v; it does not say %q", s, r, err, part)
		}
	}
}

func TestAFailureNamesTheCaseThatRunsItAgain(t *testing.T) {
	unwanted := errors.New("not what was wanted")
	each := func(i *Image) error {
		if i.Damage.Kind == SwapSectors || i.Damage.Kind == RemoveFile || i.Verdict == CutPastMark {
			return unwanted
		}
		return nil
	}
	r, err := Run(new(bytes.Buffer), Options{
		Formats: []Format{V3}, States: []State{Killed}, Kinds: []Kind{Flip, SwapSectors, RemoveFile}, Stride: 301, FailuresKept: 1000, Each: each,
	})
	if err != nil || r.Lost < 10 || len(r.Failures) != r.Lost || r.Lost == r.Images {
		t.Fatalf("%v, %v", r, err)
	}
	for _, first := range r.Failures {
		var failure *Failure
		if !errors.As(first, &failure) || !errors.Is(first, unwanted) {
			t.Fatalf("%v", first)
		}
		// What a person has is the text.
		text := first.Error()
		word := text[strings.LastIndex(text, "[case ")+len("[case ") : len(text)-1]
		c, err := ParseCase(word)
		if err != nil || c != failure.Case {
			t.Fatalf("%q in %q: %v", word, text, err)
		}
		again, err := Run(new(bytes.Buffer), Options{Only: &c, Each: each})
		if err != nil || again.Images != 1 || again.Lost != 1 || again.Failures[0].Error() != text {
			t.Errorf("%v again: %v, %q, %v", c, again, again.Failures, err)
		}
	}
}

func TestSumsOverRunsAreThoseOfOneRun(t *testing.T) {
	o := Options{Formats: []Format{V2, V3}, States: []State{Killed, Rolling}, Kinds: []Kind{Cut, ZeroEnd, RemoveFile}, Stride: 23, Brief: true}
	whole := run(t, o)
	var sum Result
	for _, f := range o.Formats {
		o.Formats = []Format{f}
		sum.Add(run(t, o))
	}
	if !slices.Equal(sum.Rows, whole.Rows) || sum.String() != whole.String() {
		t.Errorf("%v and %v", sum, whole)
	}
	if whole.Images != whole.Whole+whole.Refused+whole.Short+whole.Lost || whole.Images != whole.All().Images {
		t.Errorf("%+v does not add up", whole)
	}
	var totals Counts
	for _, row := range whole.Totals() {
		totals.add(row.Counts)
		if row.Format != "" || row.File != "" {
			t.Errorf("a total is of %s, %s", row.Format, row.File)
		}
	}
	if totals != whole.All() {
		t.Errorf("the totals are %+v of %+v", totals, whole.All())
	}
}

func TestTheTableHasWhatWentAndWhatWasKept(t *testing.T) {
	var out bytes.Buffer
	r, err := Run(&out, Options{Formats: []Format{V3}, States: []State{Killed}, Stride: 31})
	if err != nil {
		t.Fatal(err)
	}
	c := r.Of(CutPastMark)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	row := []string{"v3", "killed", "segment", "3", "flip", "cut", "past", "the", "mark"}
	if c.Images == 0 || c.SideCopies != c.Images || c.Dropped == 0 || c.BytesCut == 0 {
		t.Fatalf("%+v", c)
	}
	row = append(row, strings.Fields(c.cells())...)
	if !slices.ContainsFunc(lines, func(line string) bool { return slices.Equal(strings.Fields(line), row) }) {
		t.Errorf("no line of\n%s\nis %q", &out, row)
	}
	if last := lines[len(lines)-1]; last != r.String() {
		t.Errorf("the last line is %q", last)
	}
}
