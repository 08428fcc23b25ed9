package defects

// producing are defects of what is known of idempotent producers.
func producing() []Defect {
	return []Defect{
		{
			Name:   "a retry is answered before its batch is durable",
			Breaks: "a batch that is held is answered once its records are acknowledged; here the first try is still being written, and a power loss takes what the retry was told is there",
			Edits: []Edit{{
				File: "engine/produced_claim.go",
				Old:  "	if b := l.carrierLocked(held.Last); b != nil {\n",
				New:  "	if b := (*batch)(nil); b != nil {\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestEveryVerdictWhereverTheNewestBatchIs", Says: "held: answered true while the newest batch is staged"},
				{Package: engineTests, Test: "TestRetriesOfABatchWhoseWriteFailsFailWithIt", Says: `try 2: .*Duplicate:true}, <nil>`},
			},
		},
		{
			Name:   "what a failed batch taught about producers is kept",
			Breaks: "what staged records say of producers is undone with them; here a batch that was lost counts as held, and its next try is answered with offsets that go to other records",
			Edits: []Edit{{
				File: "engine/commit.go",
				Old:  "	l.mu.produced.undo(b, behind)\n",
				New:  "",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestRetriesOfABatchWhoseWriteFailsFailWithIt", Says: "the batch that failed is"},
			},
		},
		{
			Name:   "a truncation leaves the snapshot of producers",
			Breaks: "the snapshot goes before anything is written past the cut; here a segment that begins at its as_of again makes it look like one of the log's own, and batches that were cut count as held",
			Edits: []Edit{{
				File: "engine/truncate.go",
				Old:  "	return l.dropSnapshots()\n",
				New:  "	return nil\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestAfterAPowerLossInATruncationProducersAreKnownByTheirRecords", Says: "the log said of producers"},
			},
		},
		{
			Name:   "a snapshot of producers is written before the seal of what it tells of",
			Breaks: "a snapshot is written when the records below are durable; here a power loss leaves one that tells of batches that it took, and their retries are taken for held",
			Edits: []Edit{{
				File: "engine/background_roll.go",
				Old:  "	err := l.sealSegment(w)\n	if err == nil {\n		l.store.sealed.adopt",
				New:  "	l.saveProducers(asOf, producers)\n	err := l.sealSegment(w)\n	if err == nil {\n		l.store.sealed.adopt",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestASnapshotFollowsTheSealOfWhatItTellsOf", Says: "beside a seal that hangs"},
			},
		},
		{
			Name:   "an open leaves a snapshot of producers that it cannot use",
			Breaks: "a snapshot from past the tail, which a crash in a truncation leaves, is removed before the log can grow past its as_of; here it is used once a segment begins there",
			Edits: []Edit{{
				File: "engine/produced_open.go",
				Old:  "		if err := sidecar.Remove(l.store.fs, l.store.queue, l.dir, ProducersName); err != nil {\n",
				New:  "		if err := error(nil); err != nil {\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestASnapshotFromTheFutureIsGoneBeforeTheLogGrowsPastIt", Says: "the log said of producers"},
				{Package: engineTests, Test: "TestALogKnowsTheSameWithoutItsSnapshot", Says: "the snapshot is still there"},
			},
		},
	}
}
