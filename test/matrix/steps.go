package main

import (
	"path"

	"felix.local/felix/test/matrix/plan"
)

// The names of a cell's steps, behind the cell's own.
const (
	stepDoctor   = "doctor"
	stepDemo     = "demo"
	stepWorkload = "workload"
)

// conformance are the steps once per kernel: the promises of a disk, by each backend.
func conformance() []struct{ name, program, test string } {
	return []struct{ name, program, test string }{
		{ring, "uring.test", "TestTheRingKeepsEveryPromiseOfADisk"},
		{pool, "fallback.test", "TestThePoolKeepsEveryPromiseOfADisk"},
	}
}

// place is where a machine has its programs and its data.
type place struct {
	// guest is the guest program, bin the directory of the others.
	guest, bin string
	// filesystem is what data is on, dir the directory on it.
	filesystem, dir string
}

// cellName is a cell's name in a plan.
func (p place) cellName(d denial) string { return p.filesystem + "/" + d.name }

// steps are those of a cell. The demo is left out on a second filesystem: what it shows
// does not depend on it.
func (p place) steps(number string, d denial, demo bool) []plan.Step {
	felixd := path.Join(p.bin, "felixd")
	dir := path.Join(p.dir, number)
	step := func(name string, argv ...string) plan.Step {
		return plan.Step{
			Name: p.cellName(d) + "/" + name, Argv: argv, Env: d.env, Dir: path.Join(dir, name), UID: d.uid,
			MemlockBytes: d.memlock, Deny: d.deny, Sysctls: d.sysctls, Seconds: secondsMax,
		}
	}
	steps := []plan.Step{step(stepDoctor, felixd, "doctor", "--json", "--samples", "2", "--dir", path.Join(dir, stepDoctor))}
	if demo {
		steps = append(steps, step(stepDemo, felixd, "demo", "--json", "--cycles", "1", "--acks", "20", "--dir", path.Join(dir, stepDemo)))
	}
	return append(steps, step(stepWorkload, p.guest, stepWorkload, felixd, path.Join(dir, stepWorkload)))
}

// secondsMax is how long a step may take: many times what the slowest takes under
// emulation on two busy processors.
const secondsMax = 600

// conformanceName is the name of a step that checks a backend.
func conformanceName(backend string) string { return "conformance of the " + backend }

func (p place) conformanceSteps() []plan.Step {
	var steps []plan.Step
	for _, c := range conformance() {
		steps = append(steps, plan.Step{
			Name: conformanceName(c.name), Dir: path.Join(p.dir, "conformance-"+c.name), Seconds: secondsMax,
			Argv: []string{path.Join(p.bin, c.program), "-test.v", "-test.run=^" + c.test + "$", "-test.timeout=9m"},
		})
	}
	return steps
}
