package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

// victim is a writer that is killed while it appends.
type victim struct {
	program string
	// flags are added to those of an endless writer that reports; env is its
	// whole environment, nil for this process's own.
	flags, env []string
	// acks is the number of acknowledgements after which it is killed.
	acks   int
	stderr io.Writer
}

// run starts the writer, kills it while it goes on, and returns the last offset
// it reported as acknowledged.
func (v victim) run(ctx context.Context) (acked uint64, err error) {
	child := exec.CommandContext(ctx, v.program)
	child.Args = append([]string{"felixd", "log", "write", "--json", "--report-acks"}, v.flags...)
	child.Env = v.env
	child.Stderr = v.stderr
	events, err := child.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := child.Start(); err != nil {
		return 0, err
	}
	acks := 0
	lines := bufio.NewScanner(events)
	for lines.Scan() {
		var e struct {
			Event string `json:"event"`
			ackEvent
		}
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Event != "ack" {
			continue // the last line may be cut off by the kill
		}
		acks++
		acked = e.LastOffset
		if acks == v.acks {
			// From here on lines are read that the writer put in the pipe
			// before it died: those acknowledgements count too.
			if err := child.Process.Kill(); err != nil {
				return 0, err
			}
		}
	}
	err = child.Wait()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signal() == syscall.SIGKILL && acks >= v.acks {
			return acked, nil
		}
	}
	return 0, fmt.Errorf("the writer ended by itself after %d acknowledgements: %v", acks, err)
}
