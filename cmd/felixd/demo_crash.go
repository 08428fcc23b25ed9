package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"felix.local/felix/bench"
	"felix.local/felix/engine"
)

// crash kills a writer in the middle of appending, recovers its log and checks
// that everything it was told is durable is there.
func (d *demo) crash(dir string, cycle int) error {
	acked, err := d.writeAndKill(dir)
	if err != nil {
		return err
	}
	return d.opened(dir, func(log *engine.Log) error {
		report := log.Recovery()
		verified := uint64(0)
		problem := records(d.app, log, func(offset uint64, payload []byte) error {
			verified++
			return bench.CheckPayload(payload, offset, demoPayloadBytes)
		})
		checked := fmt.Sprintf("cycle %d: offsets 0 to %d acknowledged, %d records read back and compared, tail %d, %d segments, %d bytes cut by recovery",
			cycle+1, acked, verified, log.TailOffset(), len(log.Segments()), report.TruncatedBytes)
		if problem != nil {
			checked += "; " + problem.Error()
		}
		return d.claim(problem == nil && log.BaseOffset() == 0 && verified == log.TailOffset() && log.TailOffset() > acked,
			"a killed writer loses nothing it was told is durable", "%s", checked)
	})
}

// writeAndKill has a writer append until it is killed.
func (d *demo) writeAndKill(dir string) (acked uint64, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	v := victim{
		program: self, acks: d.Acks, stderr: d.app.stderr,
		env: []string{"FELIX_STORAGE_IO_URING=" + ioURingSetting(d.config.IOURing)},
		flags: []string{
			"--dir", dir, "--fsync", "on_commit", "--payload-bytes", strconv.Itoa(demoPayloadBytes),
			"--segment-bytes", strconv.Itoa(demoSegmentBytes), "--index-spacing-bytes", strconv.Itoa(demoIndexSpacing),
		},
	}
	return v.run(d.app.ctx)
}

// victim is a writer that is killed while it appends.
type victim struct {
	program string
	// flags and env are added to those of an endless writer that reports.
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
	child.Env = append(os.Environ(), v.env...)
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

// ioURingSetting renders the mode as the variable takes it.
func ioURingSetting(mode engine.IOURingMode) string {
	switch mode {
	case engine.IOURingOff:
		return "0"
	case engine.IOURingRequire:
		return "require"
	default:
		return "1"
	}
}
