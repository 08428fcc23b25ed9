package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"felix.local/felix/segment"
)

// command is what kong would run.
type command interface{ Run(*app) error }

// inProcess runs a command and gives its exit code and what it printed.
func inProcess(c command) (code int, stdout, stderr string) {
	var out, complaints bytes.Buffer
	err := c.Run(&app{
		ctx: context.Background(), stdout: &out, stderr: &complaints,
		logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		fmt.Fprintln(&complaints, oneLine(err))
	}
	return exitCode(err), out.String(), complaints.String()
}

// dumped is the output of a dump.
type dumped struct {
	records []*recordEvent
	gaps    []*gapEvent
	// order holds both, as they came.
	order []any
}

func parseDump(stdout string) (d dumped, err error) {
	for line := range strings.Lines(stdout) {
		var kind struct{ Event string }
		if err := json.Unmarshal([]byte(line), &kind); err != nil {
			return d, err
		}
		var into any
		switch kind.Event {
		case recordEvent{}.kind():
			r := new(recordEvent)
			d.records, into = append(d.records, r), r
		case gapEvent{}.kind():
			g := new(gapEvent)
			d.gaps, into = append(d.gaps, g), g
		default:
			continue
		}
		if err := json.Unmarshal([]byte(line), into); err != nil {
			return d, err
		}
		d.order = append(d.order, into)
	}
	return d, nil
}

// exported holds that a dump has exactly these records.
func (d dumped) exported(want []segment.Record) error {
	for n, r := range want {
		if n == len(d.records) {
			return fmt.Errorf("%d records were exported, %d are intact; the first that is missing has offset %d", n, len(want), r.Offset)
		}
		got := d.records[n]
		if got.Offset != r.Offset || got.TimestampMicros != r.TimestampMicros || got.Kind != r.Mark.Kind.String() ||
			got.Producer != r.Mark.Producer || got.Sequence != r.Mark.Sequence || got.BatchLen != r.Mark.Len || !bytes.Equal(got.Payload, r.Payload) {
			return fmt.Errorf("the record %+v was exported as %+v", r, got)
		}
	}
	if extra := len(d.records) - len(want); extra > 0 {
		return fmt.Errorf("%d records were exported that are not in the log, or twice", extra)
	}
	return nil
}

// named says that a gap covers an offset.
func (d dumped) named(offset uint64) bool {
	for _, g := range d.gaps {
		if g.OffsetExpected <= offset && (g.OffsetNext == nil || offset < *g.OffsetNext) {
			return true
		}
	}
	return false
}
