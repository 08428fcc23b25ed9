package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"felix.local/felix/test/matrix/plan"
)

// The exit codes of a machine that did not get to its steps. One that did ends with 0,
// whatever the steps came to.
const (
	exitNoPlan = 10 + iota
	exitNoModule
	exitNoMount
	exitNoLoopback
)

// beFirst is the first process of a machine. It does not return.
func beFirst() {
	results, err := startSystem()
	if err != nil {
		// The console is all there is; without a last line the machine has failed.
		fmt.Fprintln(os.Stderr, "guest:", err)
		powerOff(nil)
	}
	fmt.Fprintln(results, plan.LineUp, kernelRelease())
	mounted, code := runAsFirst(results)
	for _, dir := range mounted {
		if err := unix.Unmount(dir, 0); err != nil {
			fmt.Fprintf(os.Stderr, "guest: unmounting %s: %v\n", dir, err)
		}
	}
	fmt.Fprintln(results, plan.LineExit, code)
	powerOff(results)
}

// startSystem mounts what programs expect and opens the port for results.
func startSystem() (*os.File, error) {
	for _, m := range []struct{ kind, dir string }{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}} {
		if err := unix.Mount(m.kind, m.dir, m.kind, 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
			return nil, fmt.Errorf("mounting %s: %w", m.dir, err)
		}
	}
	port, err := os.OpenFile("/dev/ttyS1", os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	// Otherwise every line ends in a carriage return too.
	settings, err := unix.IoctlGetTermios(int(port.Fd()), unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("the port for results: %w", err)
	}
	settings.Oflag &^= unix.OPOST
	if err := unix.IoctlSetTermios(int(port.Fd()), unix.TCSETS, settings); err != nil {
		return nil, fmt.Errorf("the port for results: %w", err)
	}
	return port, nil
}

// runAsFirst reads the plan, mounts its disks and runs its steps.
func runAsFirst(results io.Writer) (mounted []string, code int) {
	fail := func(code int, err error) ([]string, int) {
		fmt.Fprintln(os.Stderr, "guest:", err)
		return mounted, code
	}
	p, err := plan.Read(plan.Path)
	if err != nil {
		return fail(exitNoPlan, err)
	}
	if err := loopbackUp(); err != nil {
		return fail(exitNoLoopback, err)
	}
	for _, module := range p.Modules {
		if err := loadModule(module); err != nil {
			return fail(exitNoModule, err)
		}
	}
	for _, m := range p.Mounts {
		if err := mountDisk(m); err != nil {
			return fail(exitNoMount, err)
		}
		mounted = append(mounted, m.Dir)
	}
	r := runner{results: results, program: plan.Program, root: true}
	if err := r.run(context.Background(), p.Steps); err != nil {
		return fail(exitNoPlan, err)
	}
	return mounted, 0
}

// loopbackUp starts the interface that a server and its clients in the guest meet on.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("a socket for the loopback interface: %w", err)
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("starting the loopback interface: %w", err)
	}
	return nil
}

func loadModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	switch err := unix.FinitModule(int(f.Fd()), "", 0); {
	case errors.Is(err, unix.EEXIST):
		return nil
	case errors.Is(err, unix.ENODEV):
		// Made for a feature that this processor lacks, such as a faster checksum; the
		// mount shows whether it was needed.
		fmt.Fprintf(os.Stderr, "guest: %s is for another processor\n", path)
		return nil
	case err != nil:
		return fmt.Errorf("loading %s: %w", path, err)
	default:
		return nil
	}
}

// diskAppears is how long a disk may take to be found by the kernel.
const diskAppears = 20 * time.Second

// mountDisk waits for a disk and mounts it. Nothing tells of a device that appears but
// its file, so that is looked for.
func mountDisk(m plan.Mount) error {
	device := m.Device
	for until := time.Now().Add(diskAppears); ; time.Sleep(10 * time.Millisecond) {
		if serial, ok := strings.CutPrefix(m.Device, plan.BySerial); ok {
			found, err := serials()
			if err != nil {
				return err
			}
			device = found[serial]
		}
		info, err := os.Stat(device)
		if err == nil && info.Mode()&os.ModeDevice != 0 {
			break
		}
		if time.Now().After(until) {
			return fmt.Errorf("no disk %s in %v", m.Device, diskAppears)
		}
	}
	if err := os.MkdirAll(m.Dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(device, m.Dir, m.Filesystem, 0, m.Options); err != nil {
		return fmt.Errorf("mounting %s (%s) on %s: %w", device, m.Filesystem, m.Dir, err)
	}
	return nil
}

// powerOff ends the machine, once the port has sent what was written to it.
func powerOff(results *os.File) {
	if results != nil {
		// TCSBRK with 1 waits and sends no break.
		if err := unix.IoctlSetInt(int(results.Fd()), unix.TCSBRK, 1); err != nil {
			fmt.Fprintln(os.Stderr, "guest: waiting for the port:", err)
		}
	}
	unix.Sync()
	err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	panic(fmt.Sprintf("the machine cannot be powered off: %v", err))
}

func kernelRelease() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "unknown: " + err.Error()
	}
	return unix.ByteSliceToString(name.Release[:])
}

// exitStatus is a program's code, or 128 and its signal.
func exitStatus(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}
