package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"felix.local/felix/internal/prove/bubble"
	"felix.local/felix/internal/prove/corrupt"
	"felix.local/felix/internal/prove/enumerate"
	"felix.local/felix/internal/prove/powerloss"
)

func TestWrongFlagsAreNamed(t *testing.T) {
	for args, want := range map[string]string{
		"-seed x":                            `-seed: "x"`,
		"-seed 0":                            "-seed",
		"-seeds 0":                           "-seeds: 0 is below 1",
		"-parts everything":                  `"everything" is none of powerloss, enumerate, corrupt`,
		"-hosts ring,floppy":                 `"floppy" is none of`,
		"-stride 0 -ops 0":                   "-stride: 0 is below 1",
		"all":                                `"all" is no flag`,
		"-case none":                         `"none" is no case`,
		"-case=":                             `"" is no case`,
		"-seed=":                             `-seed: ""`,
		"-seed 1 -parts enumerate":           "-seed runs one thing again: -parts does not",
		"-seed 1 -case none/inline/append":   "-case runs one thing again: -seed does not",
		"-stride 1 -case none/inline/append": "-case runs one thing again: -stride does not",
	} {
		if _, err := parse(strings.Fields(args), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", args, err, want)
		}
	}
}

func TestASeedReplaysPowerLossesAlone(t *testing.T) {
	for args, want := range map[string]int{"-seed 0x5eed": 1, "-seeds 3 -seed 0x5eed": 3} {
		s, err := parse(strings.Fields(args), io.Discard)
		if err != nil || s.firstSeed != 0x5eed || s.seeds != want || s.realSeeds != 1 || strings.Join(s.parts, " ") != "powerloss" {
			t.Errorf("%s: %+v, %v", args, s, err)
		}
	}
}

func TestACaseReplaysItsPartAlone(t *testing.T) {
	s, err := parse([]string{"-case", "none/inline/append/2"}, io.Discard)
	if err != nil || s.enumerated != "none/inline/append/2" || s.damaged != nil || strings.Join(s.parts, " ") != "enumerate" {
		t.Errorf("%+v, %v", s, err)
	}
	const damage = "v3:killed:1500:flip:durable.mark:0:0"
	s, err = parse([]string{"-case", damage}, io.Discard)
	if err != nil || s.enumerated != "" || s.damaged == nil || s.damaged.String() != damage || strings.Join(s.parts, " ") != "corrupt" {
		t.Errorf("%+v, %v", s, err)
	}
}

// Every count of a part has its place in the sums.
func TestTheSumsAreThoseOfAllParts(t *testing.T) {
	var got totals
	for range 2 {
		got.addPowerLosses("pool", powerloss.Result{
			Counts: powerloss.Counts{Images: 1, Acked: 10, Lost: 100, Refused: 5}, Failed: 1000, NoJournal: errors.New("of gold"),
		}, 7)
		got.addEnumeration(enumerate.Result{States: 9, Opened: 2, Deeds: enumerate.Deeds{Acked: 20}, Lost: 200, Refused: 2000})
		got.addCorruption(corrupt.Result{Images: 4, Lost: 400, Refused: 40})
	}
	want := "not proved: images=14 acked=60 lost=1400 refused=80 seeds=14 failed=6000"
	if line := got.line(nil); line != want {
		t.Errorf("got %q, want %q", line, want)
	}
	if len(got.skipped) != 2 || got.skipped[0] != "pool: rows with a commit journal: of gold" {
		t.Errorf("skipped: %q", got.skipped)
	}
}

// run gives what the program does with some flags, in bubbles that run, or drop,
// what is to run in them.
func run(t *testing.T, bubbles bubble.Runner, flags ...string) (code int, lines []string) {
	t.Helper()
	s, err := parse(flags, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	code = s.run(&out, bubbles)
	return code, strings.Split(strings.TrimSpace(out.String()), "\n")
}

func drop(func()) {}

func TestAFailureMakesTheExitCode(t *testing.T) {
	for want, flags := range map[string][]string{
		"not proved: images=0 acked=0 lost=0 refused=0 seeds=1 failed=1: powerloss: simulated: no image was opened": {
			"-seed", "1", "-hosts", "simulated", "-only", "appends, none, inline rolls, pages in order",
		},
		"not proved: images=0 acked=0 lost=0 refused=0 seeds=0 failed=1: enumerate: no image was opened": {
			"-case", "none/inline/append",
		},
	} {
		code, lines := run(t, drop, flags...)
		if last := lines[len(lines)-1]; code != 1 || last != want {
			t.Errorf("code %d, last line %q, want %q", code, last, want)
		}
		if text := strings.Join(lines, "\n"); !strings.Contains(text, "the bubble did not run the workload to its end") ||
			!strings.Contains(text, "go run ./internal/prove -") {
			t.Errorf("the failure is missing in\n%s", text)
		}
	}
}

func TestACaseIsRunAgain(t *testing.T) {
	for _, flags := range [][]string{
		{"-case", "on_commit/inline/append"},
		{"-case", "v3:killed:1500:flip:durable.mark:0:0"},
	} {
		code, lines := run(t, bubble.In(t), flags...)
		if last := lines[len(lines)-1]; code != 0 || !regexp.MustCompile(`^proved: images=[1-9]`).MatchString(last) {
			t.Errorf("%v: code %d, last line %q", flags, code, last)
		}
	}
	code, lines := run(t, bubble.In(t), "-case", "none/inline/append/9999")
	if last := lines[len(lines)-1]; code != 1 || !strings.HasSuffix(last, "no image was opened") {
		t.Errorf("without such a crash point: code %d, last line %q", code, last)
	}
}

// A host without a row of that name is skipped, unless no host has one.
func TestAHostThatLacksTheRowsIsSkipped(t *testing.T) {
	code, lines := run(t, bubble.In(t), "-seed", "1", "-hosts", "simulated,pool", "-only", "failed sync, none, inline rolls, pages in order")
	const skipped = "skipped: pool: no such row: none on pool has"
	last := len(lines) - 1
	if code != 0 || !strings.HasPrefix(lines[last], "proved: ") || !strings.HasPrefix(lines[last-1], skipped) {
		t.Errorf("code %d:\n%s", code, strings.Join(lines, "\n"))
	}
	code, lines = run(t, bubble.In(t), "-seed", "1", "-hosts", "pool", "-only", "failed sync")
	last = len(lines) - 1
	if code != 1 || !strings.HasPrefix(lines[last], "not proved: ") || !strings.Contains(lines[last], "no such row") {
		t.Errorf("code %d:\n%s", code, strings.Join(lines, "\n"))
	}
}

func TestAFailureOfADamageSaysHowToSeeItAgain(t *testing.T) {
	damaged, err := corrupt.ParseCase("v3:killed:1500:flip:durable.mark:0:0")
	if err != nil {
		t.Fatal(err)
	}
	text := withCommand(&corrupt.Failure{Case: damaged, Cause: errors.New("oops")})
	if !strings.Contains(text, "oops") || !strings.HasSuffix(text, "\nagain: go run ./internal/prove -case v3:killed:1500:flip:durable.mark:0:0") {
		t.Error(text)
	}
}

// The last line claims a proof only when there were images and all of them held.
func TestTheLastLineSaysWhetherItIsProved(t *testing.T) {
	for want, c := range map[string]struct {
		t   totals
		err error
	}{
		"proved: images=5 acked=4 lost=0 refused=3 seeds=2":                           {totals{images: 5, acked: 4, refused: 3, seeds: 2}, nil},
		"not proved: images=5 acked=4 lost=1 refused=0 seeds=2 failed=0":              {totals{images: 5, acked: 4, lost: 1, seeds: 2}, nil},
		"not proved: images=5 acked=4 lost=0 refused=0 seeds=2 failed=1":              {totals{images: 5, acked: 4, seeds: 2, unexpected: 1}, nil},
		"not proved: images=0 acked=0 lost=0 refused=0 seeds=0 failed=0":              {},
		"not proved: images=5 acked=0 lost=0 refused=0 seeds=0 failed=2: oops; again": {totals{images: 5, unexpected: 2}, errors.New("oops\nagain")},
	} {
		if got := c.t.line(c.err); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// The program itself, at its smallest: it runs as a test binary runs, prints its
// tables and ends with its line.
func TestTheCommandProves(t *testing.T) {
	if args := os.Getenv("PROVE_ARGS"); args != "" {
		s, err := parse(strings.Fields(args), os.Stderr)
		if err != nil {
			t.Fatal(err)
		}
		bubble.Main(func(run bubble.Runner) int { return s.run(os.Stdout, run) })
	}
	c := exec.Command(os.Args[0], "-test.run=^TestTheCommandProves$")
	c.Env = append(os.Environ(), "PROVE_ARGS=-seeds 1 -hosts simulated -only retention -ops 1 -stride 5000")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if last := lines[len(lines)-1]; !regexp.MustCompile(`^proved: images=[1-9]\d* acked=[1-9]\d* lost=0 refused=[1-9]\d* seeds=1$`).MatchString(last) {
		t.Errorf("the last line is %q", last)
	}
}
