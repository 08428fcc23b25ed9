package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"felix.local/felix/internal/prove/bubble"
	"felix.local/felix/internal/prove/corrupt"
	"felix.local/felix/internal/prove/enumerate"
	"felix.local/felix/internal/prove/powerloss"
)

func main() {
	s, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "prove:", err)
		os.Exit(2)
	}
	bubble.Main(func(run bubble.Runner) int { return s.run(os.Stdout, run) })
}

// run gives the exit code.
func (s scale) run(out io.Writer, run bubble.Runner) int {
	total, err := s.prove(out, run)
	for _, skipped := range total.skipped {
		fmt.Fprintln(out, "skipped:", skipped)
	}
	fmt.Fprintln(out, total.line(err))
	if err != nil || !total.proved() {
		return 1
	}
	return 0
}

// The parts.
const (
	partPowerLoss = "powerloss"
	partEnumerate = "enumerate"
	partCorrupt   = "corrupt"
)

var (
	allParts = []string{partPowerLoss, partEnumerate, partCorrupt}
	allHosts = []string{string(powerloss.Simulated), string(powerloss.Ring), string(powerloss.Pool)}
)

// scale says how much is run.
type scale struct {
	seeds     int
	firstSeed uint64
	realSeeds int
	images    int
	ops       int
	stride    int
	parts     []string
	hosts     []string
	only      string
	dir       string
	// enumerated and damaged are the one case to run again, of the part that it
	// is a case of.
	enumerated string
	damaged    *corrupt.Case
}

func parse(args []string, usage io.Writer) (scale, error) {
	var s scale
	f := flag.NewFlagSet("prove", flag.ContinueOnError)
	f.SetOutput(usage)
	f.IntVar(&s.seeds, "seeds", 8, "power-loss workloads of each kind, mode, roll and page order, on the simulated disk")
	seed := f.String("seed", "", "run this one seed of the power losses, or -seeds from it on, and nothing else; 0x for hexadecimal")
	f.IntVar(&s.realSeeds, "real-seeds", 1, "the same on real files, each workload on the ring and on the pool")
	f.IntVar(&s.images, "images", 0, "images at each checkpoint of a workload (default 6, on real files 1)")
	f.IntVar(&s.ops, "ops", 3, "operations of the longest workloads that are enumerated")
	f.IntVar(&s.stride, "stride", 16, "one damage to files out of so many; 1 for every bit and every length")
	f.StringVar(&s.only, "only", "", "only the power-loss rows whose name has this in it")
	f.StringVar(&s.dir, "dir", "", "an existing directory for real files (default: a temporary one)")
	failed := f.String("case", "", "run this one case of the enumeration or of the damages again, as a failure prints it, and nothing else")
	parts := f.String("parts", strings.Join(allParts, ","), "what to run")
	hosts := f.String("hosts", strings.Join(allHosts, ","), "what power-loss workloads run on")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	if f.NArg() > 0 {
		return s, fmt.Errorf("%q is no flag", f.Arg(0))
	}
	var problems []error
	list := func(name, value string, known []string) []string {
		chosen := strings.Split(value, ",")
		for _, word := range chosen {
			if !slices.Contains(known, word) {
				problems = append(problems, fmt.Errorf("-%s: %q is none of %s", name, word, strings.Join(known, ", ")))
			}
		}
		return chosen
	}
	s.parts, s.hosts = list("parts", *parts, allParts), list("hosts", *hosts, allHosts)
	given := make(map[string]bool)
	f.Visit(func(f *flag.Flag) { given[f.Name] = true })
	alone := func(name string, others ...string) {
		for _, other := range others {
			if given[other] {
				problems = append(problems, fmt.Errorf("-%s runs one thing again: -%s does not go with it", name, other))
			}
		}
	}
	if given["case"] {
		alone("case", "seeds", "seed", "real-seeds", "images", "ops", "stride", "only", "dir", "parts", "hosts")
		if err := s.again(*failed); err != nil {
			problems = append(problems, err)
		}
	}
	if given["seed"] {
		alone("seed", "parts")
		n, err := strconv.ParseUint(*seed, 0, 64)
		if err != nil || n == 0 {
			problems = append(problems, fmt.Errorf("-seed: %q is no number from 1 to 2^64-1", *seed))
		}
		s.firstSeed, s.parts = n, []string{partPowerLoss}
		if !given["seeds"] {
			s.seeds = 1
		}
	}
	for _, n := range []struct {
		name  string
		value int
		least int
	}{{"seeds", s.seeds, 1}, {"real-seeds", s.realSeeds, 1}, {"images", s.images, 0}, {"ops", s.ops, 1}, {"stride", s.stride, 1}} {
		if n.value < n.least {
			problems = append(problems, fmt.Errorf("-%s: %d is below %d", n.name, n.value, n.least))
		}
	}
	return s, errors.Join(problems...)
}

// again makes a case all that is run.
func (s *scale) again(text string) error {
	damaged, notDamaged := corrupt.ParseCase(text)
	if notDamaged == nil {
		s.parts, s.damaged = []string{partCorrupt}, &damaged
		return nil
	}
	enumerated, err := enumerate.ParseCase(text)
	if err != nil {
		return fmt.Errorf("-case: %w; %w", err, notDamaged)
	}
	s.parts, s.enumerated = []string{partEnumerate}, enumerated.String()
	return nil
}

// totals are those of all parts.
type totals struct {
	// images were opened. One that equals another of which the same is expected is
	// not opened again, and not counted.
	images, acked, lost, refused, seeds int
	// unexpected counts what failed in another way than by losing records.
	unexpected int
	// skipped says what could not be run, and why.
	skipped []string
}

func (t *totals) addPowerLosses(host string, r powerloss.Result, seeds int) {
	if r.NoJournal != nil {
		t.skipped = append(t.skipped, fmt.Sprintf("%s: rows with a commit journal: %v", host, r.NoJournal))
	}
	t.images += r.Images
	t.acked += r.Acked
	t.lost += r.Lost
	t.seeds += seeds
	t.unexpected += r.Failed
}

func (t *totals) addEnumeration(r enumerate.Result) {
	t.images += r.Opened
	t.acked += r.Acked
	t.lost += r.Lost
	t.unexpected += r.Refused
}

func (t *totals) addCorruption(r corrupt.Result) {
	t.images += r.Images
	t.lost += r.Lost
	t.refused += r.Refused
}

// opened is an error when no image was opened since there were so many: what
// opens none proves nothing.
func (t *totals) opened(before int) error {
	if t.images > before {
		return nil
	}
	return errors.New("no image was opened")
}

func (t totals) proved() bool { return t.lost == 0 && t.unexpected == 0 && t.images > 0 }

func (t totals) line(err error) string {
	counts := fmt.Sprintf("images=%d acked=%d lost=%d refused=%d seeds=%d", t.images, t.acked, t.lost, t.refused, t.seeds)
	switch {
	case err != nil:
		return fmt.Sprintf("not proved: %s failed=%d: %s", counts, t.unexpected, strings.ReplaceAll(err.Error(), "\n", "; "))
	case !t.proved():
		return fmt.Sprintf("not proved: %s failed=%d", counts, t.unexpected)
	}
	return "proved: " + counts
}

// prove runs the chosen parts and prints their tables. A failed image is in the
// totals; the error is about what could not be run.
func (s scale) prove(out io.Writer, run bubble.Runner) (t totals, err error) {
	for _, part := range s.parts {
		began, before := time.Now(), t.images
		switch part {
		case partPowerLoss:
			err = s.powerLosses(out, run, &t)
		case partEnumerate:
			err = s.enumeration(out, run, &t)
		case partCorrupt:
			err = s.corruption(out, &t)
		}
		if err == nil {
			err = t.opened(before)
		}
		if err != nil {
			return t, fmt.Errorf("%s: %w", part, err)
		}
		fmt.Fprintf(out, "%s took %v\n", part, time.Since(began).Round(time.Second))
	}
	return t, nil
}

func (s scale) powerLosses(out io.Writer, run bubble.Runner, t *totals) error {
	var skipped []error
	for _, host := range s.hosts {
		fmt.Fprintf(out, "\n== power losses, %s\n", host)
		o := powerloss.Options{
			Seeds: s.seeds, FirstSeed: s.firstSeed, Host: powerloss.Host(host), Images: s.images, Bubble: run, Only: s.only,
		}
		if o.Host != powerloss.Simulated {
			dir, err := os.MkdirTemp(s.dir, "felix-prove-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(dir)
			o.Dir, o.Seeds = dir, s.realSeeds
		}
		r, err := powerloss.Run(out, o)
		if errors.Is(err, powerloss.ErrNoRing) || errors.Is(err, powerloss.ErrNoRow) {
			fmt.Fprintf(out, "skipped: %s: %v\n", host, err)
			t.skipped = append(t.skipped, fmt.Sprintf("%s: %v", host, err))
			skipped = append(skipped, err)
			continue
		}
		before := t.images
		t.addPowerLosses(host, r, o.Seeds)
		if err == nil {
			err = t.opened(before)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", host, err)
		}
	}
	if len(skipped) == len(s.hosts) {
		return errors.Join(skipped...)
	}
	return nil
}

func (s scale) enumeration(out io.Writer, run bubble.Runner, t *totals) error {
	if s.enumerated != "" {
		fmt.Fprintf(out, "\n== the workload %s\n", s.enumerated)
	} else {
		fmt.Fprintf(out, "\n== every workload of up to %d operations\n", s.ops)
	}
	o := enumerate.Options{OpsMax: s.ops, Bubble: run, Only: s.enumerated}
	if err := enumerateAs(out, o, t); err != nil || s.enumerated != "" {
		return err
	}
	fmt.Fprintf(out, "\n== the same with a commit journal, of up to %d operations\n", min(s.ops, journaledOpsMax))
	o.OpsMax, o.Journaled = min(s.ops, journaledOpsMax), true
	return enumerateAs(out, o, t)
}

// journaledOpsMax bounds the workloads with a journal: nearly every disk of theirs is
// another one, and is opened.
const journaledOpsMax = 2

func enumerateAs(out io.Writer, o enumerate.Options, t *totals) error {
	r, err := enumerate.Run(out, o)
	for _, failure := range r.Failures {
		fmt.Fprintln(out, failure)
	}
	t.addEnumeration(r)
	return err
}

func (s scale) corruption(out io.Writer, t *totals) error {
	if s.damaged != nil {
		fmt.Fprintf(out, "\n== the damage %v\n", s.damaged)
	} else {
		fmt.Fprintf(out, "\n== damage to files, 1 in %d\n", s.stride)
	}
	r, err := corrupt.Run(out, corrupt.Options{Stride: s.stride, Kinds: corrupt.Kinds(), Brief: true, Only: s.damaged})
	for _, failure := range r.Failures {
		fmt.Fprintln(out, withCommand(failure))
	}
	t.addCorruption(r)
	return err
}

// withCommand adds to a failure how to see it again.
func withCommand(failure error) string {
	damaged := (*corrupt.Failure)(nil)
	if !errors.As(failure, &damaged) {
		return failure.Error()
	}
	return fmt.Sprintf("%v\nagain: go run ./internal/prove -case %v", failure, damaged.Case)
}
