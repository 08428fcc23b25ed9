package main

import (
	"fmt"

	"felix.local/felix/engine"
)

// journalReport is what becomes of the commit journal here.
type journalReport struct {
	// Setting is that of FELIX_DURABLE_COMMIT_JOURNAL; Bytes is what it would take.
	Setting string `json:"setting"`
	Bytes   int64  `json:"bytes"`
	// Auto says that one would be made under auto once there are many commits, and
	// Possible under require. Reason says why not under auto.
	Auto     bool   `json:"auto"`
	Possible bool   `json:"possible"`
	Reason   string `json:"reason"`
	// Mode is the fsync mode: it is used under on_commit alone.
	Mode string `json:"fsync"`
	// OverwriteMicros and GrowMicros are one durable write each, over written blocks
	// past the page cache as the journal does it, and of a growing file as segments
	// do; 0 where that is not to be had.
	OverwriteMicros int64 `json:"overwrite_us"`
	GrowMicros      int64 `json:"grow_us"`
}

func (j *journalReport) text() string {
	s := "setting " + j.Setting + "; "
	switch {
	case j.Auto:
		s += fmt.Sprintf("auto and require can have one here, of %d MiB", j.Bytes>>20)
	case j.Possible:
		s += "auto has none here: " + j.Reason + "; require may have one"
	default:
		s += "none can be had here: " + j.Reason
	}
	if j.Mode != engine.FsyncOnCommit.String() {
		s += "; not used under " + j.Mode
	}
	if j.OverwriteMicros > 0 {
		s += fmt.Sprintf("\n%-12s a frame costs %d µs, a flush of one segment %d µs", "", j.OverwriteMicros, j.GrowMicros)
	}
	return s
}

// journal asks a store under auto whether it would have a journal.
func (d *doctor) journal(store *engine.Store) *journalReport {
	state, backend := store.Journal(), store.Backend()
	return &journalReport{
		Setting: d.config.Journal.String(), Bytes: d.config.JournalBytes, Mode: d.config.FsyncMode.String(),
		Auto: state.State != "off", Possible: backend.DsyncWrite && d.config.Preallocate, Reason: state.Reason,
	}
}

// judgeJournal adds what writes cost: whether blocks can be written past the page cache
// is found out by doing it.
func (d *doctor) judgeJournal(j *journalReport, cost *costReport) {
	if j == nil || cost == nil {
		return
	}
	j.OverwriteMicros, j.GrowMicros = cost.DirectOverwriteMicros, cost.InlineMicros
	if cost.DirectOverwriteMicros == 0 && j.Possible {
		j.Auto, j.Possible = false, false
		if j.Reason == "" {
			j.Reason = "the filesystem takes no writes past the page cache"
		}
	}
	switch {
	case d.config.Journal == engine.JournalRequire && !j.Possible:
		d.problem("FELIX_DURABLE_COMMIT_JOURNAL=require cannot be had here (%s): a store would not open", j.Reason)
	case d.config.Journal == engine.JournalAuto && !j.Auto:
		d.warn("FELIX_DURABLE_COMMIT_JOURNAL=auto has no journal here: %s", j.Reason)
	}
}
