package defects

// The packages whose tests catch defects.
const (
	engineTests   = "engine"
	recoveryTests = "recovery"
	powerTests    = "internal/prove/powerloss"
	corruptTests  = "internal/prove/corrupt"
)

// failedWorkloads is how a power-loss test ends that found something.
const failedWorkloads = "workloads failed"

// writing are defects of the commit loop.
func writing() []Defect {
	return []Defect{
		{
			Name:   "acknowledging before the sync",
			Breaks: "under on_commit a batch is acknowledged once it is on the device; here its waiters are told first, and a power loss in between takes an acknowledged record",
			Edits: []Edit{{
				File: "engine/write.go",
				Old:  "	err := l.perform(op)\n	op.Buf = nil\n",
				New: `	var late *device.Op
	if op.Kind == device.WriteDsync {
		op.Kind = device.Write
		late = &device.Op{Kind: device.WriteDsync, File: file, Buf: append([]byte(nil), b.buf...), Pos: b.pos}
	}
	err := l.perform(op)
	op.Buf = nil
	if late != nil && err == nil {
		l.publish(b, true)
		if err := l.perform(late); err != nil {
			_ = l.poisonWith(err)
		}
		return
	}
`,
			}},
			Caught: []Check{
				{Package: powerTests, Test: "TestAPowerLossTakesNothingAcknowledged", Says: failedWorkloads},
				{Package: engineTests, Test: "TestUnderOnCommitReadersSeeOnlyWhatIsDurable", Says: "durable 2 while the device holds offset 1"},
			},
		},
		{
			Name:   "a failed write is not rewound",
			Breaks: "what a write that failed has left in the file is cut off, durably, before anything else is written; here the bytes stay, and what is written over them can make the rest of them a record",
			Edits: []Edit{{
				File: "engine/write.go",
				Old:  "	if rewindErr := l.rewind(file, b.pos); rewindErr != nil {\n",
				New:  "	if rewindErr := error(nil); rewindErr != nil {\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestARewindIsDurableBeforeTheNextWrite", Says: "no truncate of"},
				{Package: engineTests, Test: "TestARecordOfABatchThatFailedDoesNotComeBack", Says: "the tail is 3, want 2"},
			},
		},
		{
			Name:   "a dsync write raises the durable bound over an unsynced range",
			Breaks: "a dsync write covers its own bytes; here it commits a batch although the segment's header below it was never flushed, and a power loss takes the header and with it the whole segment",
			Edits: []Edit{{
				File: "engine/write.go",
				Old:  "	if onCommit && atSynced && l.store.backend.DsyncWrite {\n",
				New:  "	if onCommit && l.store.backend.DsyncWrite {\n		_ = atSynced\n",
			}},
			Caught: []Check{
				{Package: powerTests, Test: "TestAPowerLossTakesNothingAcknowledged", Says: failedWorkloads},
				{Package: engineTests, Test: "TestADsyncWriteStartsOnlyWhereTheDurableBoundStands", Says: "starts where segment"},
			},
		},
		{
			Name:   "the commit order advances over a failed range",
			Breaks: "a batch that fails takes everything staged behind it along, and its offsets are given out again; here the order goes on behind it, and the log has a hole",
			Edits: []Edit{{
				File: "engine/commit.go",
				Old:  "	behind := l.mu.staged\n	l.mu.staged, l.mu.inFlight = nil, nil\n	l.replanLocked()\n",
				New: `	behind := l.mu.staged
	if w := &l.mu.active; l.mu.poison == nil && b.pos == w.size {
		w.size, w.next, w.builder = b.end(), b.next, b.builder
		behind = nil
	} else {
		l.mu.staged, l.mu.inFlight = nil, nil
		l.replanLocked()
	}
`,
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestAFailedBatchAndAllBehindItCompleteInOrderBeforeAnOffsetIsReused", Says: "handle 1: <nil>"},
				{Package: engineTests, Test: "TestPublishersUnderARandomFaultLoseNothingAcknowledged", Says: "checksum mismatch|nothing was repaired|the mark says|is not what was acknowledged"},
			},
		},
		{
			Name:   "a roll is decided by the gathered batch",
			Breaks: "where a segment ends depends on the appends alone; here an append that joins a staged batch stays in that batch's segment, so the same appends leave other files when they come together",
			Edits: []Edit{{
				File: "engine/stage.go",
				Old:  "	if n := len(l.mu.staged); n > 0 && !roll {\n",
				New:  "	if len(l.mu.staged) > 0 && version <= p.version {\n		roll = false\n	}\n	if n := len(l.mu.staged); n > 0 && !roll {\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestSegmentBoundariesAreAFunctionOfTheAppendsAlone", Says: `\.log is missing`},
			},
		},
	}
}
