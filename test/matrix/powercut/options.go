package powercut

import (
	"fmt"
	"path/filepath"
	"strings"

	"felix.local/felix/test/matrix/powercut/rig"
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
	// Cuts are the power cuts during appends, RecoveryCuts those while the stores are
	// being opened.
	Cuts, RecoveryCuts int
	// Moments are the moments at which Replay cuts, each with every fate of the cache.
	Moments int
	// Appends are those of each publisher under Replay.
	Appends int
	Seed    uint64
	// Lie acknowledges what is not durable, each kind of cut in its own way. Findings
	// are then what is wanted.
	Lie bool
	// Progress is told a line now and then.
	Progress func(line string)
}

func (o Options) progress(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}

// stores are the combinations of modes on one backend.
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
		stores = append(stores, s)
	}
	return stores
}

// dataDir is where the disk is mounted in the guest.
const dataDir = "/data"

// The modes of the guest program.
const (
	ModeAppend = "append"
	ModeImages = "images"
)

// allStores are those of all backends.
func (o Options) allStores() (stores []workload.Store) {
	for _, backend := range o.Backends {
		stores = append(stores, o.stores(backend)...)
	}
	return stores
}

// boot is one start of the machine in a mode.
func (o Options) boot(name, mode string, spec workload.Spec) rig.Boot {
	return rig.Boot{Kernel: o.Kernel, Guest: o.Guest, Dir: o.Dir, Name: name, Mode: mode, Spec: spec}
}

// nvme is the emulator's arguments for an image as /dev/nvme0n1, with a volatile cache.
func nvme(image string) []string {
	return []string{
		"-drive", fmt.Sprintf("file=%s,format=raw,if=none,id=disk0,cache=writeback", vm.Escape(image)),
		"-device", "nvme,drive=disk0,serial=disk0",
	}
}

func (o Options) path(name string) string { return filepath.Join(o.Dir, name) }
