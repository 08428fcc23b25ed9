package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
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

// writeAndKill starts a writer, kills it after some acknowledgements while it
// goes on, and returns the last offset it reported as acknowledged.
func (d *demo) writeAndKill(dir string) (acked uint64, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	child := exec.CommandContext(d.app.ctx, self, "log", "write", "--dir", dir, "--json", "--report-acks",
		"--fsync", "on_commit", "--payload-bytes", strconv.Itoa(demoPayloadBytes),
		"--segment-bytes", strconv.Itoa(demoSegmentBytes), "--index-spacing-bytes", strconv.Itoa(demoIndexSpacing))
	child.Env = append(os.Environ(), "FELIX_STORAGE_IO_URING="+ioURingSetting(d.config.IOURing))
	child.Stderr = d.app.stderr
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
		if acks == d.Acks {
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
		if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL && acks >= d.Acks {
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
