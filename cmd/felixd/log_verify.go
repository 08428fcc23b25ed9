package main

import (
	"context"
	"errors"
	"fmt"
	"math"

	"felix.local/felix/bench"
	"felix.local/felix/engine"
	"felix.local/felix/segment"
)

// pageBytes is how much payload one read of verify asks for.
const pageBytes = 1 << 20

type verifyCommand struct {
	logFlags
	payloadFlags
	ExpectAtLeast int64 `name:"expect-at-least" default:"0" placeholder:"N" help:"fail when there are fewer records"`
}

// Validate is called by kong, and for this struct alone: it judges the flags of
// what is embedded too.
func (c *verifyCommand) Validate() error {
	return validate(c.payloadFlags.limit(), limit{"expect-at-least", c.ExpectAtLeast, 0, math.MaxInt64})
}

// generationStartEvent tells a record of replication apart from those checked.
type generationStartEvent struct {
	Offset     uint64 `json:"offset"`
	Generation uint64 `json:"generation"`
}

func (generationStartEvent) kind() string { return "generation_start" }

func (e generationStartEvent) text() string {
	return fmt.Sprintf("generation %d starts at offset %d", e.Generation, e.Offset)
}

// verifiedEvent says what was read and found right.
type verifiedEvent struct {
	BaseOffset       uint64  `json:"base_offset"`
	TailOffset       uint64  `json:"tail_offset"`
	Records          int64   `json:"records"`
	GenerationStarts int64   `json:"generation_starts"`
	Segments         int     `json:"segments"`
	RecoverySeconds  float64 `json:"recovery_seconds"`
}

func (verifiedEvent) kind() string { return "verified" }

func (e verifiedEvent) text() string {
	return fmt.Sprintf("verified %d records (and %d generation starts) from offset %d on, next offset %d, in %d segments; recovery took %.3f s",
		e.Records, e.GenerationStarts, e.BaseOffset, e.TailOffset, e.Segments, e.RecoverySeconds)
}

func (c *verifyCommand) Run(a *app) (err error) {
	out := a.output(c.outputFlags)
	store, log, _, err := a.open(&c.logFlags, needLog)
	if err != nil {
		return err
	}
	defer joined(&err, func() error { return store.Close(context.WithoutCancel(a.ctx)) })
	verified, err := c.verify(a, out, log)
	if err != nil {
		return c.judge(err)
	}
	if err := out.emit(verified); err != nil {
		return err
	}
	if verified.Records < c.ExpectAtLeast {
		return &exitError{code: exitVerify, err: fmt.Errorf("%d records, expected at least %d", verified.Records, c.ExpectAtLeast)}
	}
	return nil
}

// judge tells what is wrong with the records from what is wrong with reading
// them. Opening has accepted the log, so rot that a read meets is a finding, not
// a refusal.
func (c *verifyCommand) judge(err error) error {
	var differs *bench.PayloadError
	var rot *segment.Corruption
	switch {
	case errors.As(err, &rot):
		return &exitError{code: exitVerify, err: fmt.Errorf("%s: %w; felixd log dump --skip-damaged exports the rest", c.Dir, err)}
	case errors.As(err, &differs):
		return &exitError{code: exitVerify, err: err}
	default:
		return err
	}
}

func (c *verifyCommand) verify(a *app, out *output, log *engine.Log) (verifiedEvent, error) {
	v := verifiedEvent{
		BaseOffset: log.BaseOffset(), TailOffset: log.TailOffset(),
		Segments: len(log.Segments()), RecoverySeconds: log.Recovery().Duration.Seconds(),
	}
	bar := a.progress(out, int64(v.TailOffset-v.BaseOffset), "verifying")
	defer bar.finish()
	for next := v.BaseOffset; next < v.TailOffset; {
		page, err := log.ReadStored(a.ctx, next, pageBytes, engine.DefaultMaxRecordsPerRead)
		if err != nil {
			return v, err
		}
		if len(page) == 0 {
			return v, &bench.PayloadError{Offset: next, Reason: fmt.Sprintf("nothing to read, below the tail %d", v.TailOffset)}
		}
		for _, record := range page {
			if record.Offset != next {
				return v, &bench.PayloadError{Offset: next, Reason: fmt.Sprintf("the next record read has offset %d", record.Offset)}
			}
			next++
			if record.Mark.Kind == segment.GenerationStart {
				generation, _ := record.Generation()
				v.GenerationStarts++
				if err := out.emit(generationStartEvent{Offset: record.Offset, Generation: generation}); err != nil {
					return v, err
				}
				continue
			}
			if err := bench.CheckPayload(record.Payload, record.Offset, c.PayloadBytes); err != nil {
				return v, err
			}
			v.Records++
		}
		bar.add(int64(len(page)))
	}
	return v, nil
}
