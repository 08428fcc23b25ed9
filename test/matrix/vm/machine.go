package vm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"felix.local/felix/test/matrix/plan"
)

// Machine is a virtual machine to be started.
type Machine struct {
	Kernel Kernel
	// Initramfs is the path of the first filesystem.
	Initramfs string
	// Append is more of the kernel's command line.
	Append string
	// Disks are arguments of the emulator: those of Disk, or a chain of block devices.
	Disks []string
	// Args are further arguments of the emulator.
	Args []string
	// Limit is how long the guest may take; one that takes longer is killed and has
	// failed. 0 is five minutes.
	Limit time.Duration
	// Log is the start of two paths: LOG.console is what the kernel says, LOG.qemu what
	// the emulator complains of.
	Log string
}

const limitDefault = 5 * time.Minute

// arguments are the emulator's. The first serial port is the kernel's console, the second
// one takes the results.
func (m Machine) arguments() []string {
	args := []string{
		"-accel", "tcg,thread=single", "-cpu", "qemu64", "-m", "1G", "-smp", "2",
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-kernel", m.Kernel.Image, "-initrd", m.Initramfs,
		"-append", strings.TrimSpace("console=ttyS0 quiet panic=-1 " + m.Append),
		"-serial", "file:" + Escape(m.Log+".console"),
		"-chardev", "file,id=results,path=/dev/stdout", "-serial", "chardev:results",
	}
	args = append(args, m.Disks...)
	return append(args, m.Args...)
}

// The ways in which a guest fails, beside one that ends with another code than 0.
var (
	// ErrHung: it took longer than its limit.
	ErrHung = errors.New("the guest did not end in its time")
	// ErrNoVerdict: it ended without saying how, as after a panic.
	ErrNoVerdict = errors.New("the guest ended without a verdict (a panic, or it was powered off)")
	// ErrCut: its power was cut.
	ErrCut = errors.New("the guest's power was cut")
)

// ExitError says that the guest ended by itself, with another code than 0.
type ExitError struct{ Code int }

// Error names the code.
func (e *ExitError) Error() string { return fmt.Sprintf("the guest ended with %d", e.Code) }

// linesQueued is how many lines wait for a reader before the guest does.
const linesQueued = 4096

// Guest is a machine that was started.
type Guest struct {
	machine Machine
	cmd     *exec.Cmd
	cancel  context.CancelFunc
	// ctx ends with the guest's time, parent when nobody wants the guest any more.
	ctx, parent context.Context
	lines       chan string
	// ended is closed once the emulator's end is in waited.
	ended  chan struct{}
	waited error

	up, cut atomic.Bool
	// verdict is the guest's exit code; noVerdict until it says one.
	verdict atomic.Int64
}

const noVerdict = -1

// Start starts the emulator. The guest is killed when ctx ends.
func (m Machine) Start(ctx context.Context) (*Guest, error) {
	if err := Need("qemu-system-x86_64"); err != nil {
		return nil, err
	}
	if m.Limit == 0 {
		m.Limit = limitDefault
	}
	complaints, err := os.Create(m.Log + ".qemu")
	if err != nil {
		return nil, err
	}
	defer complaints.Close() // the emulator has a descriptor of its own
	g := &Guest{machine: m, parent: ctx, lines: make(chan string, linesQueued), ended: make(chan struct{})}
	g.verdict.Store(noVerdict)
	g.ctx, g.cancel = context.WithTimeout(ctx, m.Limit)
	g.cmd = exec.CommandContext(g.ctx, "qemu-system-x86_64", m.arguments()...)
	g.cmd.Stderr = complaints
	results, err := g.cmd.StdoutPipe()
	if err != nil {
		g.cancel()
		return nil, err
	}
	if err := g.cmd.Start(); err != nil {
		g.cancel()
		return nil, err
	}
	go func() {
		defer close(g.ended)
		defer g.cancel()
		lines := bufio.NewReaderSize(results, 1<<20)
		for {
			line, err := lines.ReadString('\n')
			if line != "" {
				g.take(strings.TrimRight(line, "\r\n"))
			}
			if err != nil {
				break
			}
		}
		close(g.lines)
		g.waited = g.cmd.Wait()
	}()
	return g, nil
}

func (g *Guest) take(line string) {
	switch word, rest, _ := strings.Cut(line, " "); word {
	case plan.LineUp:
		g.up.Store(true)
	case plan.LineExit:
		if code, err := strconv.Atoi(strings.TrimSpace(rest)); err == nil && code >= 0 {
			g.verdict.Store(int64(code))
		}
	}
	g.lines <- line
}

// Lines are what the guest writes to its second serial port, as it comes; closed when
// the emulator ends. They have to be read, here or by Wait.
func (g *Guest) Lines() <-chan string { return g.lines }

// Up says whether the guest got as far as our code.
func (g *Guest) Up() bool { return g.up.Load() }

// Cut cuts the power: the emulator is killed, at once.
func (g *Guest) Cut() error {
	g.cut.Store(true)
	return g.cmd.Process.Signal(syscall.SIGKILL)
}

// Wait waits for the emulator's end and drops the lines nobody has read. It is nil only
// when the guest itself said that it ended with 0. Otherwise the error is one of this
// package's, with the last lines of the console.
func (g *Guest) Wait() error {
	for range g.lines {
		continue
	}
	<-g.ended
	switch code := g.verdict.Load(); {
	case g.cut.Load():
		return ErrCut
	case code > 0:
		return g.explain(&ExitError{Code: int(code)})
	case code == 0:
		return nil
	case errors.Is(g.ctx.Err(), context.DeadlineExceeded):
		return g.explain(fmt.Errorf("%w (%v)", ErrHung, g.machine.Limit))
	case g.parent.Err() != nil:
		return context.Cause(g.parent)
	default:
		return g.explain(ErrNoVerdict)
	}
}

// explain adds what the console and the emulator said last.
func (g *Guest) explain(err error) error {
	for _, kind := range []string{".console", ".qemu"} {
		if text := tail(g.machine.Log + kind); text != "" {
			err = fmt.Errorf("%w\n%s%s ends with:\n%s", err, g.machine.Log, kind, text)
		}
	}
	return err
}

// tailLines is how much of a log is shown.
const tailLines = 15

func tail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.TrimSpace(strings.Join(lines[max(0, len(lines)-tailLines):], "\n"))
}
