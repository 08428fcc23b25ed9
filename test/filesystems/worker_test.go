package filesystems

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// silence is how long a child may say nothing while it is to say something. A child
// that is silent for longer hangs, which is a failure with its stacks.
const silence = 40 * time.Second

// worker is a child process, seen from the test.
type worker struct {
	t      testing.TB
	ledger *ledger
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	events chan event
	stderr bytes.Buffer
	ended  bool
}

// start starts a child and waits until its store is open; a store that could not be
// opened is the problem.
func start(t testing.TB, l *ledger, j job, uid int) (*worker, event) {
	t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	// By this name the program is found whoever may not read its directory.
	w := &worker{t: t, ledger: l, cmd: exec.Command("/proc/self/exe"), events: make(chan event)}
	w.cmd.Env = append(os.Environ(), jobVariable+"="+string(text))
	w.cmd.Stderr = &w.stderr
	w.cmd.Dir = "/" // it must not keep a filesystem busy
	if uid != 0 {
		w.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	if w.stdin, err = w.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.kill)
	go func() {
		defer close(w.events)
		for lines := json.NewDecoder(stdout); ; {
			var e event
			if lines.Decode(&e) != nil {
				return // a line cut short by a kill was no acknowledgement
			}
			w.events <- e
		}
	}()
	return w, w.until(opened, refused)
}

// mustStart is start for a store that has to open.
func mustStart(t testing.TB, l *ledger, j job, uid int) *worker {
	t.Helper()
	w, e := start(t, l, j, uid)
	if e.Kind == refused {
		t.Fatalf("the store could not be opened: %s", e.Problem.Text)
	}
	return w
}

// next gives the next event; false when the child has ended. Acknowledgements are
// taken down.
func (w *worker) next() (event, bool) {
	w.t.Helper()
	select {
	case e, ok := <-w.events:
		if ok {
			w.ledger.take(w.t, e)
		}
		return e, ok
	case <-time.After(silence):
		_ = w.cmd.Process.Signal(syscall.SIGQUIT)
		time.Sleep(time.Second) // for its stacks
		w.kill()
		w.t.Fatalf("the child hangs:\n%s", w.stderr.String())
		return event{}, false
	}
}

// until gives the next event of some kinds.
func (w *worker) until(kinds ...string) event {
	w.t.Helper()
	for {
		e, ok := w.next()
		if !ok {
			w.kill()
			w.t.Fatalf("the child ended by itself (%v) before it said %v:\n%s", w.cmd.ProcessState, kinds, w.stderr.String())
		}
		for _, kind := range kinds {
			if e.Kind == kind {
				return e
			}
		}
	}
}

// acks waits until so many more appends are acknowledged.
func (w *worker) acks(n int) {
	w.t.Helper()
	for range n {
		if e := w.until(acked, did); e.Kind == did {
			w.t.Fatalf("the child stopped before it was to: %+v\n%s", e.Problem, w.log())
		}
	}
}

// command has the child obey, without waiting for it.
func (w *worker) command(format string, args ...any) {
	w.t.Helper()
	if _, err := fmt.Fprintf(w.stdin, format+"\n", args...); err != nil {
		w.t.Fatal(err)
	}
}

// do has the child obey and gives what stopped it, nil when nothing did.
func (w *worker) do(format string, args ...any) *problem {
	w.t.Helper()
	w.command(format, args...)
	return w.until(did).Problem
}

// mustDo is do for what has to succeed.
func (w *worker) mustDo(format string, args ...any) {
	w.t.Helper()
	if p := w.do(format, args...); p != nil {
		w.t.Fatalf("%s: %s", fmt.Sprintf(format, args...), p.Text)
	}
}

// close closes the store and ends the child.
func (w *worker) close() *problem {
	w.t.Helper()
	p := w.do("close")
	w.end()
	return p
}

// end lets the child end.
func (w *worker) end() {
	w.t.Helper()
	if err := w.stdin.Close(); err != nil {
		w.t.Fatal(err)
	}
	for {
		if _, ok := w.next(); !ok {
			break
		}
	}
	w.ended = true
	if err := w.cmd.Wait(); err != nil {
		w.t.Fatalf("the child ended with %v:\n%s", err, w.stderr.String())
	}
}

// kill kills the child, and takes down what it said until then.
func (w *worker) kill() {
	if w.ended {
		return
	}
	w.ended = true
	_ = w.cmd.Process.Kill()
	for e := range w.events {
		w.ledger.take(w.t, e)
	}
	_ = w.cmd.Wait() // "signal: killed"
}

// waitFor asks again and again until done says so, for as long as a child may be
// silent: for what the kernel does in the background, of which no event tells.
func waitFor(done func() bool) {
	for began := time.Now(); !done() && time.Since(began) < silence; {
		time.Sleep(time.Millisecond)
	}
}

// log is what the child wrote to its log, for a failure.
func (w *worker) log() string { return strings.TrimSpace(w.stderr.String()) }
