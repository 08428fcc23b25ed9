package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
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
		checked := fmt.Sprintf("cycle %d: the first %d records were acknowledged, %d read back from offset %d on and compared, next offset %d, %d segments, %d bytes cut by recovery",
			cycle+1, acked+1, verified, log.BaseOffset(), log.TailOffset(), len(log.Segments()), report.TruncatedBytes)
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
		env: childEnvironment(os.Environ(), given(&d.backendFlags)),
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
	// flags are added to those of an endless writer that reports; env is its
	// whole environment, nil for this process's own.
	flags, env []string
	// acks is the number of acknowledgements after which it is killed.
	acks int
	// acked, when not nil, is told the number of acknowledgements so far.
	acked  func(acks int)
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
		if v.acked != nil {
			v.acked(acks)
		}
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
	if ctx.Err() != nil {
		return 0, ctx.Err() // a signal of the terminal ends the writer too, in its own way
	}
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signal() == syscall.SIGKILL && acks >= v.acks {
			return acked, nil
		}
	}
	return 0, fmt.Errorf("the writer ended by itself after %d acknowledgements: %v", acks, err)
}

// childEnvironment is an environment with these settings and no others: the demo
// says itself how its writers run, and a setting of the user's that it did not
// take from a flag must not change what it claims.
func childEnvironment(environ []string, settings map[string]string) []string {
	child := slices.DeleteFunc(slices.Clone(environ), func(line string) bool {
		name, _, _ := strings.Cut(line, "=")
		return strings.HasPrefix(name, engine.VariablePrefix) && name != "FELIX_LOG_LEVEL"
	})
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		child = append(child, name+"="+settings[name])
	}
	return child
}
