package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"sync"
	"syscall"
)

// serveProcess is a felixd serve in a process of its own.
type serveProcess struct {
	child *exec.Cmd
	// ready says where it serves.
	ready readyEvent
	// said are the events up to the ready one.
	said []processEvent
	// end has what the process ended with.
	end chan error
	mu  struct {
		sync.Mutex
		later []processEvent
	}
}

// processEvent is one event as it was printed.
type processEvent struct {
	kind string
	line []byte
}

// startServe runs program, which is felixd, and returns once it is ready.
func startServe(ctx context.Context, program string, env []string, stderr io.Writer, flags ...string) (*serveProcess, error) {
	child := exec.CommandContext(ctx, program)
	child.Args = append([]string{"felixd", "serve", "--json"}, flags...)
	child.Env = env
	child.Stderr = stderr
	stdout, err := child.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := child.Start(); err != nil {
		return nil, err
	}
	p := &serveProcess{child: child, end: make(chan error, 1)}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		e := processEvent{line: slices.Clone(lines.Bytes())}
		if e.kind, err = eventKind(e.line); err != nil {
			continue // the last line of a process that was killed may be cut off
		}
		p.said = append(p.said, e)
		if e.kind != p.ready.kind() {
			continue
		}
		if err := json.Unmarshal(e.line, &p.ready); err != nil {
			return nil, errors.Join(err, child.Process.Kill(), child.Wait())
		}
		go p.follow(lines)
		return p, nil
	}
	err = child.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, fmt.Errorf("the server ended before it was ready: %w", errOr(err, "with exit code 0"))
}

// errOr gives err, or an error that says otherwise.
func errOr(err error, otherwise string) error {
	if err == nil {
		return errors.New(otherwise)
	}
	return err
}

func eventKind(line []byte) (string, error) {
	var e struct {
		Event string `json:"event"`
	}
	err := json.Unmarshal(line, &e)
	return e.Event, err
}

// follow reads what the process prints until it ends.
func (p *serveProcess) follow(lines *bufio.Scanner) {
	for lines.Scan() {
		if kind, err := eventKind(lines.Bytes()); err == nil { // a line cut off by a kill says nothing
			p.mu.Lock()
			p.mu.later = append(p.mu.later, processEvent{kind, slices.Clone(lines.Bytes())})
			p.mu.Unlock()
		}
	}
	p.end <- p.child.Wait()
}

// later are the events after the ready one.
func (p *serveProcess) later() []processEvent {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.mu.later)
}

// kill kills the process and waits until it is gone.
func (p *serveProcess) kill() error {
	if err := p.child.Process.Kill(); err != nil {
		return err
	}
	err := <-p.end
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signal() == syscall.SIGKILL {
			return nil
		}
	}
	return fmt.Errorf("the server ended by itself before it was killed: %w", errOr(err, "with exit code 0"))
}

// stop ends the process in order and returns what it said last.
func (p *serveProcess) stop() (stopped stoppedEvent, err error) {
	if err := p.child.Process.Signal(syscall.SIGTERM); err != nil {
		return stopped, err
	}
	err = <-p.end
	for _, e := range p.later() {
		if e.kind == stopped.kind() {
			err = errors.Join(err, json.Unmarshal(e.line, &stopped))
		}
	}
	return stopped, err
}

// client talks to the process.
func (p *serveProcess) client() (*client, error) {
	flags := clientFlags{Server: "http://" + p.ready.HTTP}
	return flags.client()
}
