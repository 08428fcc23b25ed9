package main

import (
	"context"
	"path/filepath"

	"felix.local/felix/bench"
	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/fallback"
	"felix.local/felix/uring"
)

// costReport is what one durable write costs; 0 where it is not to be had.
type costReport struct {
	Bytes                 int    `json:"bytes"`
	Samples               int    `json:"samples"`
	Method                string `json:"method"`
	InlineMicros          int64  `json:"inline_us"`
	PoolMicros            int64  `json:"pool_us"`
	RingMicros            int64  `json:"ring_us"`
	DirectOverwriteMicros int64  `json:"direct_overwrite_us"`
}

// doctorPrefix is what the names of doctor's directories begin with.
const doctorPrefix = ".felix-doctor-"

// scratch makes a directory on the filesystem in question. A store opened in it
// takes no lock that a running server holds. A health check is killed when it
// takes too long, so what such a run left is removed first.
func (d *doctor) scratch() (*scratch, error) {
	if err := removeAbandoned(d.dir, doctorPrefix); err != nil {
		d.warn("%v", err)
	}
	return newScratch(d.dir, doctorPrefix)
}

// backend opens a store to learn what it would choose. One that may have a commit
// journal says whether it would make one here, and makes none yet.
func (d *doctor) backend(scratch string) (*backendReport, *journalReport) {
	config := d.config
	config.Journal = engine.JournalAuto
	store, err := engine.OpenStore(d.app.ctx, filepath.Join(scratch, "store"), config)
	if err != nil {
		d.problem("a store cannot be opened: %v", err)
		return nil, nil
	}
	b := store.Backend()
	journal := d.journal(store)
	if err := store.Close(context.WithoutCancel(d.app.ctx)); err != nil {
		d.problem("closing the store: %v", err)
	}
	return &backendReport{
		Name: b.Name, Driver: b.Driver, Requested: b.Requested.String(), Reason: b.Reason, Remedy: b.Remedy,
		DirectOverwrite: b.DirectOverwrite, DirectReason: b.DirectReason, DsyncWrite: b.DsyncWrite,
	}, journal
}

// cost measures on every route there is.
func (d *doctor) cost(scratch string, ring *uring.Ring) *costReport {
	pool := fallback.Open(fallback.Options{Workers: d.config.PoolWorkers})
	defer pool.Close()
	options := bench.FloorOptions{Dir: scratch, Samples: d.samples, Queue: pool}
	floor, err := bench.MeasureFloor(d.app.ctx, options)
	if err != nil {
		d.problem("a durable write failed: %v", err)
		return nil
	}
	report := &costReport{
		Bytes: floor.Bytes, Samples: floor.Samples, Method: floor.Method, InlineMicros: floor.Inline.Microseconds(),
		PoolMicros: floor.Queue.Microseconds(), DirectOverwriteMicros: floor.DirectOverwrite.Microseconds(),
	}
	if ring == nil {
		return report
	}
	options.Queue = ring
	if floor, err = bench.MeasureFloor(d.app.ctx, options); err != nil {
		d.warn("a durable write through the ring failed: %v", err)
		return report
	}
	report.RingMicros = floor.Queue.Microseconds()
	return report
}

// The range of plausible costs. A flush that takes less than the fastest
// device's write is answered by a cache; one that takes longer than a turning
// disk's is behind something slow.
const (
	costMicrosLow  = 10
	costMicrosHigh = 50_000
)

func (d *doctor) judgeCost(cost *costReport, filesystem string) {
	switch {
	case cost == nil:
	case cost.InlineMicros < costMicrosLow && filesystem != "tmpfs" && filesystem != "ramfs":
		d.warn("a durable write took %d µs, faster than any device; check that flushes reach it", cost.InlineMicros)
	case cost.InlineMicros > costMicrosHigh:
		d.warn("a durable write took %d ms; under on_commit a lone publisher waits that long for every append", cost.InlineMicros/1000)
	}
}

// spaceOf reports free space, for the filesystem's section.
func spaceOf(dir string) (device.Space, error) { return device.OS().Space(dir) }
