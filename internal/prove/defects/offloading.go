package defects

// offloading are defects of files that another build keeps beside a log: what of it
// has a copy elsewhere, and where a cache's keys are.
func offloading() []Defect {
	return []Defect{
		{
			Name:   "a truncation cuts before it forgets the copies",
			Breaks: "what is cut leaves offload.manifest before any segment is touched; here a power loss in between leaves a manifest that names copies of other records than the log's",
			Edits: []Edit{
				{
					File: "engine/truncate.go",
					Old:  "	} else {\n		err = l.dropCopies(offset)\n	}\n",
					New:  "	}\n",
				},
				{
					File: "engine/truncate.go",
					Old:  "	return l.dropSnapshots()\n",
					New:  "	if err := l.dropSnapshots(); err != nil {\n		return err\n	}\n	return l.dropCopies(offset)\n",
				},
			},
			Caught: []Check{
				{Package: engineTests, Test: "TestAPowerLossInATruncationLeavesNoCopyPastTheCut", Says: "and the manifest still names"},
				{Package: engineTests, Test: "TestATruncationThatCannotForgetCopiesCutsNothing", Says: "the log ends at 4"},
			},
		},
		{
			Name:   "the manifest without what is cut is not flushed",
			Breaks: "what is cut leaves offload.manifest durably; here a power loss brings the names of the copies back beside a log that was cut, or leaves an empty file that keeps it closed",
			Edits: []Edit{
				{
					File: "engine/offload.go",
					Old:  "	return l.replaceFile(sidecar.OffloadName, manifest.AppendTo(nil))\n",
					New:  "	if err := sidecar.Replace(l.store.fs, l.store.queue, l.dir, sidecar.OffloadName, manifest.AppendTo(nil), l.cfg.FileMode, false); err != nil {\n		return l.usable(\"write\", err)\n	}\n	return nil\n",
				},
			},
			Caught: []Check{
				{Package: engineTests, Test: "TestATruncationThatCannotForgetCopiesCutsNothing", Says: "flush: <nil>, the log ends at 4"},
			},
		},
		{
			Name:   "a reset keeps the copies of what is no longer held",
			Breaks: "a reset forgets every copy; here those of records that retention removed stay, and the log is filled again from below them",
			Edits: []Edit{{
				File: "engine/reset.go",
				Old:  "	if err := l.dropCopies(0); err != nil {\n",
				New:  "	if err := l.dropCopies(held); err != nil {\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestAResetForgetsAllCopies", Says: "the manifest names"},
			},
		},
		{
			Name:   "a truncation leaves the index of a cache's keys",
			Breaks: "the index goes with the snapshot of producers; here it stays beside a log in which others take the offsets that it names",
			Edits: []Edit{{
				File: "engine/produced_replay.go",
				Old:  "ProducersName, sidecar.KeysIndexName)\n",
				New:  "ProducersName)\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestAPowerLossInACutLeavesNoIndexOfKeysOfWhatIsGone", Says: "the index of keys is there"},
			},
		},
		{
			Name:   "an open leaves an index of keys from past the tail",
			Breaks: "an index that a crash left behind a cut is removed before the log can grow back to what it covers; here only the checksum of one record tells it from one of the log's own",
			Edits: []Edit{{
				File: "engine/keys_index.go",
				Old:  "	if problem == nil {\n		return nil\n	}\n",
				New:  "	if problem != nil || l != nil {\n		return nil\n	}\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestAnOpenLeavesAnIndexOfKeysThatFitsItsLog", Says: "after an open there are [1-9]"},
				{Package: engineTests, Test: "TestAPowerLossInACutLeavesNoIndexOfKeysOfWhatIsGone", Says: "the index of keys is there"},
			},
		},
		{
			Name:   "what was never copied goes in front of a gap that was",
			Breaks: "a log may begin behind a gap of which every offset has a copy, and so has each segment in front of it; here segments that were never copied are deleted",
			Edits: []Edit{{
				File: "recovery/offload.go",
				Old:  "!d.s.Offload.Describes(s.ID, s.BaseOffset, s.LastOffset(), uint64(s.Size)) {\n",
				New:  "!d.s.Offload.Describes(s.ID, s.BaseOffset, s.LastOffset(), uint64(s.Size)) && s.Size < 0 {\n",
			}},
			Caught: []Check{
				{Package: "recovery", Test: "TestDamageGetsItsVerdict", Says: `planned "delete copied segment`},
			},
		},
	}
}
