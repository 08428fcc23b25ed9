package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"felix.local/felix/bench"
	"felix.local/felix/engine"
)

type writeCommand struct {
	logFlags
	payloadFlags
	Records       int64 `name:"records" default:"0" placeholder:"N" help:"records to append; 0 goes on until interrupted"`
	Batch         int   `name:"batch" default:"1" placeholder:"N" help:"records per append"`
	ReportAcks    bool  `name:"report-acks" help:"write an event per acknowledged append"`
	CleanShutdown bool  `name:"clean-shutdown" help:"close the log at the end; without it the process ends as if it had been killed"`
}

// Validate is called by kong, and for this struct alone: it judges the flags of
// what is embedded too.
func (c *writeCommand) Validate() error {
	err := validate(
		c.payloadFlags.limit(),
		limit{"records", c.Records, 0, bench.RecordsMax},
		limit{"batch", int64(c.Batch), 1, bench.BatchMax},
	)
	if err == nil && !bench.Preparable(c.PayloadBytes, c.Batch) {
		err = fmt.Errorf("batch × payload-bytes must be at most %d, is %d × %d", bench.PreparedBytesMax, c.Batch, c.PayloadBytes)
	}
	return err
}

// ackEvent says that a range of records is acknowledged, as the mode defines it.
type ackEvent struct {
	FirstOffset uint64 `json:"first_offset"`
	LastOffset  uint64 `json:"last_offset"`
}

func (ackEvent) kind() string { return "ack" }

func (e ackEvent) text() string {
	return fmt.Sprintf("acknowledged %d to %d", e.FirstOffset, e.LastOffset)
}

// doneEvent says how far the log reaches; both bounds are exclusive.
type doneEvent struct {
	TailOffset    uint64 `json:"tail_offset"`
	DurableOffset uint64 `json:"durable_offset"`
}

func (doneEvent) kind() string { return "done" }

func (e doneEvent) text() string {
	return fmt.Sprintf("done: tail %d, durable %d", e.TailOffset, e.DurableOffset)
}

func (c *writeCommand) Run(a *app) error {
	out := a.output(c.outputFlags)
	store, log, config, err := a.open(&c.logFlags, refuseRoot)
	if err != nil {
		return err
	}
	err = c.write(a, out, store, log, config)
	if err == nil && !c.CleanShutdown {
		// What a crash leaves is the point: no final flush, no durable mark.
		os.Exit(exitOK)
	}
	joined(&err, func() error { return store.Close(context.WithoutCancel(a.ctx)) })
	return err
}

func (c *writeCommand) write(a *app, out *output, store *engine.Store, log *engine.Log, config engine.Config) error {
	start := log.TailOffset()
	err := out.emit(openedEvent{Dir: c.Dir, StartOffset: start, Fsync: config.Fsync(), Backend: backendName(store.Backend())})
	if err != nil {
		return err
	}
	if err := c.appendAll(a, out, log, start); err != nil {
		return err
	}
	return out.emit(doneEvent{TailOffset: log.TailOffset(), DurableOffset: log.DurableOffset()})
}

// appendAll appends from offset next on until enough is written, or until the
// user interrupts a run without an end.
func (c *writeCommand) appendAll(a *app, out *output, log *engine.Log, next uint64) error {
	total := c.Records
	if total == 0 {
		total = -1
	}
	bar := a.progress(out, total, "writing")
	defer bar.finish()
	records := make([]engine.Record, 0, c.Batch)
	for written := int64(0); c.Records == 0 || written < c.Records; {
		n := int64(c.Batch)
		if c.Records != 0 {
			n = min(n, c.Records-written)
		}
		records = records[:0]
		for i := range uint64(n) {
			payload := bench.AppendPayload(make([]byte, 0, c.PayloadBytes), next+i, c.PayloadBytes)
			records = append(records, engine.Record{Payload: payload})
		}
		result, err := log.Append(a.ctx, records...)
		if errors.Is(err, context.Canceled) && c.Records == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		if result.First != next {
			return fmt.Errorf("append was given offset %d where %d was the tail", result.First, next)
		}
		next = result.Last + 1
		written += n
		if c.ReportAcks {
			if err := out.emit(ackEvent{FirstOffset: result.First, LastOffset: result.Last}); err != nil {
				return err
			}
		}
		bar.add(n)
	}
	return nil
}
