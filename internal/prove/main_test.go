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
)

func TestWrongFlagsAreNamed(t *testing.T) {
	for args, want := range map[string]string{
		"-seed x":            `-seed: "x"`,
		"-seed 0":            "-seed",
		"-seeds 0":           "-seeds: 0 is below 1",
		"-parts everything":  `"everything" is none of powerloss, enumerate, corrupt`,
		"-hosts ring,floppy": `"floppy" is none of`,
		"-stride 0 -ops 0":   "-stride: 0 is below 1",
		"all":                `"all" is no flag`,
	} {
		if _, err := parse(strings.Fields(args), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", args, err, want)
		}
	}
}

func TestASeedReplaysPowerLossesAlone(t *testing.T) {
	s, err := parse([]string{"-seeds", "9", "-seed", "0x5eed"}, io.Discard)
	if err != nil || s.firstSeed != 0x5eed || s.seeds != 1 || s.realSeeds != 1 || strings.Join(s.parts, " ") != "powerloss" {
		t.Errorf("%+v, %v", s, err)
	}
}

// The last line claims a proof only when there were images and all of them held.
func TestTheLastLineSaysWhetherItIsProved(t *testing.T) {
	for want, c := range map[string]struct {
		t   totals
		err error
	}{
		"proved: images=5 acked=4 lost=0 refused=3 seeds=2":           {totals{images: 5, acked: 4, refused: 3, seeds: 2}, nil},
		"not proved: images=5 acked=4 lost=1 refused=0 seeds=2":       {totals{images: 5, acked: 4, lost: 1, seeds: 2}, nil},
		"not proved: images=5 acked=4 lost=0 refused=0 seeds=2":       {totals{images: 5, acked: 4, seeds: 2, unexpected: 1}, nil},
		"not proved: images=0 acked=0 lost=0 refused=0 seeds=0":       {},
		"not proved: images=5 acked=0 lost=0 refused=0 seeds=0: oops": {totals{images: 5}, errors.New("oops")},
	} {
		if got := c.t.line(c.err); !strings.HasPrefix(got, want) {
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
