package powercut

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"felix.local/felix/test/matrix/plan"
	"felix.local/felix/test/matrix/powercut/workload"
	"felix.local/felix/test/matrix/vm"
)

// Options say what to run and where.
type Options struct {
	Kernel vm.Kernel
	// Guest is the guest program, built static.
	Guest string
	// Dir takes images and logs.
	Dir string
	// Backends are ring, pool or both.
	Backends []string
	// Cuts are the power cuts during appends per backend, RecoveryCuts those while the
	// stores are being opened.
	Cuts, RecoveryCuts int
	// Moments are the moments at which Replay cuts, each with every fate of the cache.
	Moments int
	// Appends are those of each publisher under Replay.
	Appends int
	Seed    uint64
	// Lie acknowledges what is not durable. Findings are then what is wanted.
	Lie bool
	// Progress is told a line now and then.
	Progress func(line string)
}

func (o Options) progress(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}

// Stores are the combinations of modes on one backend.
func (o Options) stores(backend string) []workload.Store {
	var stores []workload.Store
	for _, s := range []workload.Store{
		{Mode: "none", Journal: "off"},
		{Mode: "periodic", Journal: "off"},
		{Mode: "on_commit", Journal: "off"},
		{Mode: "on_commit", Journal: "require"},
	} {
		s.Backend = backend
		s.Name = strings.Join([]string{backend, s.Mode, s.Journal}, "-")
		s.Lie = o.Lie && s.Mode == "on_commit"
		if s.Lie {
			s.Journal = "off" // there is none without on_commit
		}
		stores = append(stores, s)
	}
	return stores
}

// Paths in the guest.
const (
	specPath = "/spec.json"
	dataDir  = "/data"
)

// The modes of the guest program.
const (
	ModeAppend = "append"
	ModeImages = "images"
)

// bootLimit is how long one start may take. One that takes longer is a finding: Felix,
// or the kernel, hangs.
const bootLimit = 5 * time.Minute

// boot is what one start needs.
type boot struct {
	// name begins the names of its files.
	name    string
	mode    string
	spec    workload.Spec
	modules []string // on the host
	mounts  []plan.Mount
	disks   []string
}

// start writes the first filesystem and starts the machine.
func (o Options) start(ctx context.Context, b boot) (*vm.Guest, error) {
	base := filepath.Join(o.Dir, b.name)
	files := map[string]string{plan.Program: o.Guest, plan.Path: base + ".plan.json", specPath: base + ".spec.json"}
	p := plan.Plan{Mounts: b.mounts, Steps: []plan.Step{{
		Name: b.mode, Argv: []string{plan.Program, b.mode, specPath}, Seconds: int(bootLimit / time.Second), Stream: true,
	}}}
	for _, module := range b.modules {
		inside := "/modules/" + filepath.Base(module)
		files[inside] = module
		p.Modules = append(p.Modules, inside)
	}
	initramfs := base + ".initramfs"
	err := errors.Join(p.Write(files[plan.Path]), b.spec.Write(files[specPath]))
	if err == nil {
		err = vm.Initramfs(initramfs, files)
	}
	if err != nil {
		return nil, err
	}
	machine := vm.Machine{Kernel: o.Kernel, Initramfs: initramfs, Disks: b.disks, Limit: bootLimit, Log: base}
	return machine.Start(ctx)
}

// events gives take each event of a guest, and fails for a step that failed.
func events(guest *vm.Guest, take func(workload.Event)) error {
	var failed error
	for line := range guest.Lines() {
		if e, ok := workload.ParseEvent(line); ok {
			take(e)
		}
		if result, ok := plan.ParseResult(line); ok && !result.OK() {
			failed = errors.Join(failed, errors.New(result.Problem()))
		}
	}
	return failed
}

// nvme is the emulator's arguments for an image as /dev/nvme0n1, with a volatile cache.
func nvme(image string) []string {
	return []string{
		"-drive", fmt.Sprintf("file=%s,format=raw,if=none,id=disk0,cache=writeback", escape(image)),
		"-device", "nvme,drive=disk0,serial=disk0",
	}
}

// escape makes a path safe among the emulator's options.
func escape(path string) string { return strings.ReplaceAll(path, ",", ",,") }

// mkfsOptions leave nothing to be initialised while the test runs.
func mkfsOptions() []string { return []string{"-E", "lazy_itable_init=0,lazy_journal_init=0"} }

// remove removes what a boot left, but for its logs.
func (o Options) remove(name string) error {
	var errs []error
	for _, kind := range []string{".initramfs", ".plan.json", ".spec.json"} {
		errs = append(errs, os.RemoveAll(filepath.Join(o.Dir, name+kind)))
	}
	return errors.Join(errs...)
}
