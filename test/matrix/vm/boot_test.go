package vm_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"felix.local/felix/test/matrix/plan"
	"felix.local/felix/test/matrix/vm"
)

// cacheDir is where the matrix keeps its kernels, seen from this package.
const cacheDir = "../../../.cache/matrix"

// bootable returns a kernel of the cache; the test is skipped where there is none, or no
// emulator.
func bootable(t *testing.T) vm.Kernel {
	t.Helper()
	if err := vm.Need("qemu-system-x86_64", "mkfs.ext4"); err != nil {
		t.Skip(err)
	}
	kernels, err := vm.Cached(cacheDir)
	if err != nil {
		t.Fatal(err)
	}
	if len(kernels) == 0 {
		t.Skip("no kernel is in the cache; go run ./test/matrix kernels fetches some")
	}
	return kernels[0]
}

// machine makes a machine with an ext4 disk that runs steps.
func machine(t *testing.T, steps ...plan.Step) vm.Machine {
	t.Helper()
	kernel, dir := bootable(t), t.TempDir()
	guest := filepath.Join(dir, "guest")
	if err := vm.Build(t.Context(), guest, "felix.local/felix/test/matrix/guest"); err != nil {
		t.Fatal(err)
	}
	p := plan.Plan{Mounts: []plan.Mount{{Device: "/dev/nvme0n1", Filesystem: "ext4", Dir: "/data"}}, Steps: steps}
	if err := p.Write(filepath.Join(dir, "plan.json")); err != nil {
		t.Fatal(err)
	}
	m := vm.Machine{
		Kernel: kernel, Initramfs: filepath.Join(dir, "initramfs"), Limit: 2 * time.Minute,
		Disks: vm.Disk(0, filepath.Join(dir, "disk")), Log: filepath.Join(dir, "log"),
	}
	files := map[string]string{plan.Program: guest, plan.Path: filepath.Join(dir, "plan.json")}
	if err := vm.Initramfs(m.Initramfs, files); err != nil {
		t.Fatal(err)
	}
	if err := vm.MakeDisk(t.Context(), filepath.Join(dir, "disk"), 64<<20, "ext4"); err != nil {
		t.Fatal(err)
	}
	return m
}

func start(t *testing.T, m vm.Machine) *vm.Guest {
	t.Helper()
	g, err := m.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestAGuestRunsItsStepsAndSaysHowTheyWent(t *testing.T) {
	g := start(t, machine(
		t,
		plan.Step{Name: "refused", Argv: []string{plan.Program, "deny", "io_uring_setup=EPERM"}},
		plan.Step{Name: "is no program", Argv: []string{"/nothing"}, Dir: "/data/nothing", UID: 65534},
		plan.Step{Name: "no sysctl", Argv: []string{"/nothing"}, Sysctls: map[string]string{"kernel.felix": "1"}},
	))
	results := make(map[string]plan.Result)
	for line := range g.Lines() {
		if r, ok := plan.ParseResult(line); ok {
			results[r.Name] = r
		}
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if !g.Up() {
		t.Error("the guest did not say that it is up")
	}
	if r := results["refused"]; r.Exit != 1 || !strings.Contains(r.Stderr, "deny takes") {
		t.Errorf("got %+v", r)
	}
	if r := results["is no program"]; !strings.Contains(r.Failed, "no such file") {
		t.Errorf("got %+v", r)
	}
	if r := results["no sysctl"]; r.Skipped != "no such sysctl: kernel.felix" {
		t.Errorf("got %+v", r)
	}
}

func TestAGuestWithoutAVerdictHasFailed(t *testing.T) {
	m := machine(t)
	m.Append = "rdinit=/nothing"
	if err := start(t, m).Wait(); !errors.Is(err, vm.ErrNoVerdict) {
		t.Errorf("got %v", err)
	}
}

func TestAGuestThatCannotMountItsDiskSaysWhichCodeItEndedWith(t *testing.T) {
	m := machine(t)
	if err := os.Truncate(filepath.Join(filepath.Dir(m.Initramfs), "disk"), 4096); err != nil {
		t.Fatal(err)
	}
	var ended *vm.ExitError
	if err := start(t, m).Wait(); !errors.As(err, &ended) || ended.Code != 12 || !strings.Contains(err.Error(), "mounting /dev/nvme0n1") {
		t.Errorf("got %v", err)
	}
}

func TestAGuestWhosePowerIsCutSaysNothingMore(t *testing.T) {
	m := machine(t, plan.Step{Name: "endless", Argv: []string{plan.Program, "nothing"}})
	g := start(t, m)
	for line := range g.Lines() {
		if strings.HasPrefix(line, plan.LineUp) {
			if err := g.Cut(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := g.Wait(); !errors.Is(err, vm.ErrCut) {
		t.Errorf("got %v", err)
	}
}

func TestAGuestThatTakesTooLongIsKilled(t *testing.T) {
	m := machine(t)
	m.Limit = 100 * time.Millisecond
	if err := start(t, m).Wait(); !errors.Is(err, vm.ErrHung) {
		t.Errorf("got %v", err)
	}
}
