package rig

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
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

// attempts is how often a machine is started that does not get as far as the guest
// program: on a busy host a kernel may find its emulated clock standing still. One that
// got there is never started again.
const attempts = 3

// Listener hears a guest: events, and lines that are none. Either may be nil.
type Listener struct {
	Event func(guest *vm.Guest, e workload.Event)
	Other func(guest *vm.Guest, line string)
}

// Run starts the machine and listens until it ends. step is an error when a step of the
// plan failed, end what Guest.Wait says.
func (b Boot) Run(ctx context.Context, listen Listener) (step, end error) {
	for i := 1; ; i++ {
		guest, err := b.start(ctx)
		if err != nil {
			return nil, err
		}
		step = listen.hear(guest)
		end = guest.Wait()
		if end == nil || guest.Up() || i == attempts || ctx.Err() != nil {
			return step, end
		}
	}
}

// start writes the first filesystem and starts the machine.
func (b Boot) start(ctx context.Context) (*vm.Guest, error) {
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
	return vm.Machine{
		Kernel: b.Kernel, Initramfs: base + ".initramfs", Disks: b.Disks, Limit: Limit, Log: base,
		// Otherwise the kernel counts ticks of its clock, and panics where a busy host
		// gave the emulator no time for any.
		Append: "no_timer_check",
	}.Start(ctx)
}

// Clean removes what Run wrote; what the guest said last stays.
func (b Boot) Clean() error {
	var errs []error
	for _, kind := range []string{".initramfs", ".plan.json", ".spec.json"} {
		errs = append(errs, os.RemoveAll(filepath.Join(b.Dir, b.Name+kind)))
	}
	return errors.Join(errs...)
}

// hear passes on what the guest says, and fails for a step that failed.
func (l Listener) hear(guest *vm.Guest) error {
	var failed error
	for line := range guest.Lines() {
		if e, ok := workload.ParseEvent(line); ok {
			if l.Event != nil {
				l.Event(guest, e)
			}
			continue
		}
		if result, ok := plan.ParseResult(line); ok && !result.OK() {
			failed = errors.Join(failed, errors.New(result.Problem()))
		}
		if l.Other != nil {
			l.Other(guest, line)
		}
	}
	return failed
}

// VirtioModules are the files of the modules of a virtio disk and of the bus it is on, in
// the order of loading, uncompressed in dir; none where all are built in.
func VirtioModules(ctx context.Context, k vm.Kernel, dir string) ([]string, error) {
	var order []string
	for _, module := range []string{"virtio_pci", "virtio_blk"} {
		files, err := k.LoadOrder(ctx, module, dir)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if !slices.Contains(order, file) {
				order = append(order, file)
			}
		}
	}
	return order, nil
}

// MkfsOptions leave nothing of an ext4 to be initialised while a test runs.
func MkfsOptions() []string { return []string{"-E", "lazy_itable_init=0,lazy_journal_init=0"} }
