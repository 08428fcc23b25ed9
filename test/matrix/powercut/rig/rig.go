package rig

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"felix.local/felix/test/matrix/plan"
	"felix.local/felix/test/matrix/powercut/workload"
	"felix.local/felix/test/matrix/vm"
)

// SpecPath is where the guest finds the specification.
const SpecPath = "/spec.json"

// Limit is how long one start may take. One that takes longer is a finding: Felix, or the
// kernel, hangs.
const Limit = 5 * time.Minute

// Boot is one start of a machine.
type Boot struct {
	Kernel vm.Kernel
	// Guest is the guest program, built static.
	Guest string
	// Dir and Name are where its files go, and how their names begin.
	Dir, Name string
	// Mode is the guest program's, Spec what it reads as JSON at SpecPath.
	Mode string
	Spec any
	// Modules are files on the host, in the order of loading.
	Modules []string
	Mounts  []plan.Mount
	// Disks are arguments of the emulator.
	Disks []string
}

// Start writes the first filesystem and starts the machine.
func (b Boot) Start(ctx context.Context) (*vm.Guest, error) {
	base := filepath.Join(b.Dir, b.Name)
	files := map[string]string{plan.Program: b.Guest, plan.Path: base + ".plan.json", SpecPath: base + ".spec.json"}
	p := plan.Plan{Mounts: b.Mounts, Steps: []plan.Step{{
		Name: b.Mode, Argv: []string{plan.Program, b.Mode, SpecPath}, Seconds: int(Limit / time.Second), Stream: true,
	}}}
	for _, module := range b.Modules {
		inside := "/modules/" + filepath.Base(module)
		files[inside] = module
		p.Modules = append(p.Modules, inside)
	}
	spec, err := json.MarshalIndent(b.Spec, "", "  ")
	if err == nil {
		err = errors.Join(p.Write(files[plan.Path]), os.WriteFile(files[SpecPath], spec, 0o644))
	}
	if err == nil {
		err = vm.Initramfs(base+".initramfs", files)
	}
	if err != nil {
		return nil, err
	}
	machine := vm.Machine{Kernel: b.Kernel, Initramfs: base + ".initramfs", Disks: b.Disks, Limit: Limit, Log: base}
	return machine.Start(ctx)
}

// Clean removes what Start wrote; what the guest said last stays.
func (b Boot) Clean() error {
	var errs []error
	for _, kind := range []string{".initramfs", ".plan.json", ".spec.json"} {
		errs = append(errs, os.RemoveAll(filepath.Join(b.Dir, b.Name+kind)))
	}
	return errors.Join(errs...)
}

// Hear gives event each event of a guest and other every line that is none, until the
// machine ends, and fails for a step that failed. Either may be nil.
func Hear(guest *vm.Guest, event func(workload.Event), other func(line string)) error {
	var failed error
	for line := range guest.Lines() {
		if e, ok := workload.ParseEvent(line); ok {
			if event != nil {
				event(e)
			}
			continue
		}
		if result, ok := plan.ParseResult(line); ok && !result.OK() {
			failed = errors.Join(failed, errors.New(result.Problem()))
		}
		if other != nil {
			other(line)
		}
	}
	return failed
}

// Escape makes a path safe among the emulator's options.
func Escape(path string) string { return strings.ReplaceAll(path, ",", ",,") }

// MkfsOptions leave nothing of an ext4 to be initialised while a test runs.
func MkfsOptions() []string { return []string{"-E", "lazy_itable_init=0,lazy_journal_init=0"} }
