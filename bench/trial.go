package bench

import (
	"context"
	"errors"
	"fmt"
)

// Trial is one measurement: a system is opened, a load put on it, the device
// measured right before and after, and what was acknowledged read back.
type Trial struct {
	Label string
	// Dir is where the device is measured: on the filesystem of the system.
	Dir  string
	Open func(ctx context.Context) (*System, error)
	Load Load
	// FloorSamples are measured of each sort of raw write, before and after; 0 is 32.
	FloorSamples int
	// NoVerify leaves out the reading back.
	NoVerify bool
	// Opened, when not nil, is told of the system; what it returns is called before
	// the system is closed.
	Opened func(*System) (closing func())
	// Progress, when not nil, is told of the records that were added.
	Progress func(records int64)
}

// Measurement is what a trial found.
type Measurement struct {
	Row          Row
	Distribution *Distribution
	// Reason says why the backend is the one it is.
	Reason string
}

// sequentialBytesMax bounds the writes that the device is measured with.
const sequentialBytesMax = 1 << 20

// Run measures. What was acknowledged and is not there is an error, a *LostError.
func (t Trial) Run(ctx context.Context) (m Measurement, err error) {
	t.Load.Remember = !t.NoVerify
	if err := t.Load.Validate(); err != nil {
		return m, err
	}
	system, err := t.Open(ctx)
	if err != nil {
		return m, err
	}
	if system.Remove != nil {
		defer func() { err = errors.Join(err, system.Remove(context.WithoutCancel(ctx))) }()
	}
	result, row, err := t.measure(ctx, system)
	if err = errors.Join(err, system.Close(context.WithoutCancel(ctx))); err != nil {
		return m, err
	}
	m = Measurement{Row: row, Distribution: result.Distribution, Reason: system.Reason}
	if !t.NoVerify {
		m.Row.VerifiedRecords, err = verify(ctx, system, result.Ledger)
	}
	return m, err
}

// measure runs the load, between two measurements of the device.
func (t Trial) measure(ctx context.Context, system *System) (result Result, row Row, err error) {
	if t.Opened != nil {
		defer t.Opened(system)()
	}
	floor := FloorOptions{Dir: t.Dir, Samples: t.FloorSamples, SequentialBytes: min(t.Load.PayloadBytes*t.Load.Batch, sequentialBytesMax)}
	before, err := MeasureFloor(ctx, floor)
	if err != nil {
		return result, row, err
	}
	var began, work Work
	hooks := Hooks{Progress: t.Progress}
	if system.Store != nil {
		hooks.Measuring = func() { began = workOf(system.Store.Stats()) }
		hooks.Measured = func() { work = workOf(system.Store.Stats()).since(began) }
	}
	if result, err = t.Load.Run(ctx, system.Target, hooks); err != nil {
		return result, row, err
	}
	after, err := MeasureFloor(ctx, floor)
	if err != nil {
		return result, row, err
	}
	row = result.Row(t.Label, system.Fsync, system.Backend, system.Logs, before, after)
	row.addWork(work, result, system.Store != nil)
	return result, row, nil
}

// verify opens the system again and holds what it has against what it acknowledged.
func verify(ctx context.Context, system *System, ledger *Ledger) (records int64, err error) {
	read, closing, err := system.ReadBack(ctx)
	if err != nil {
		return 0, fmt.Errorf("opening again, to verify: %w", err)
	}
	defer func() { err = errors.Join(err, closing(context.WithoutCancel(ctx))) }()
	if records, err = ledger.Verify(ctx, system.Logs, read); err != nil {
		return records, fmt.Errorf("verifying what was acknowledged: %w", err)
	}
	return records, nil
}
