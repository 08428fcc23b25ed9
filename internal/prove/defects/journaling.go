package defects

// journalTests is where the tests of the journal's bytes are.
const journalTests = "journal"

// journalOnRealFiles skips where the filesystem of the temporary directory has no way
// past the page cache.
const journalOnRealFiles = "TestAPowerLossOnRealFilesTakesNothingThatAJournalHolds"

// journaling are defects of the commit journal: of its frames and files, and of the
// segments that lag behind it.
func journaling() []Defect {
	return []Defect{
		{
			Name:   "a frame in several pieces is not flushed",
			Breaks: "a dsync write covers its last piece alone when it took several; here a frame is acknowledged of which a power loss takes the beginning",
			Edits: []Edit{{
				File: "engine/journal_frame.go",
				Old:  "	if err == nil && j.op.Pieces > 1 {\n",
				New:  "	if err == nil && j.op.Pieces < 0 {\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestAFrameInSeveralPiecesIsDurableWhenItIsAcknowledged", Says: "records were acknowledged, "},
			},
		},
		{
			Name:   "a frame is acknowledged beside one before it",
			Breaks: "a frame is durable before the next is begun; here two are in flight, and a power loss leaves the later one, which is acknowledged, without the earlier",
			Edits: []Edit{
				{
					File: "engine/journal.go",
					Old:  "	op     device.Op\n	taken  []*journalEntry\n",
					New:  "	op     device.Op\n	late   *device.Op\n	taken  []*journalEntry\n",
				},
				{
					File: "engine/journal_frame.go",
					Old:  "		s.queue.Submit(&j.op)\n		looked = lookAtNames(entries) // a system call each, while the device works\n		err = j.op.Wait()\n		s.keepIfUnknown(&j.op)\n",
					New: `		j.late = &device.Op{Kind: device.WriteDsync, File: f.file, Buf: append([]byte(nil), frame...), Pos: j.pos}
		s.queue.Submit(j.late)
		j.op.Pieces = 1
		looked = lookAtNames(entries)
`,
				},
				{
					File: "engine/journal.go",
					Old:  "		answer(entries, sequence, err)\n		j.last.at",
					New: `		late, told, failed := j.late, append([]*journalEntry(nil), entries...), err
		j.late = nil
		go func() {
			if late != nil && failed == nil {
				failed = late.Wait()
			}
			answer(told, sequence, failed)
		}()
		j.last.at`,
				},
			},
			Caught: []Check{
				{Package: engineTests, Test: "TestOneFrameIsInFlight", Says: "frames were in flight at once"},
			},
		},
		{
			Name:   "a journal file is used again before its segments are synced",
			Breaks: "frames stay until the segments hold durably what they hold; here a write into the page cache is enough, and a power loss takes both copies",
			Edits: []Edit{{
				File: "engine/journal_checkpoint.go",
				Old:  "	c.wrote = true\n",
				New:  "	c.wrote = true\n	c.log.store.journal.written(c.log)\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestAPowerLossBesideAPinnedJournalTakesNothing", Says: "never found the journal full"},
			},
		},
		{
			Name:   "a journal file is used again before a durable frame gave it up",
			Breaks: "a start begins at the oldest frame that a durable one names; here that one is written over first, and a power loss that tears the new frame leaves neither",
			Edits: []Edit{{
				File: "engine/journal_room.go",
				Old:  "		case last == 0 || last < j.mu.told:\n",
				New:  "		case last == 0 || last < j.mu.oldest:\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestAPowerLossBesideAPinnedJournalTakesNothing", Says: "which was acknowledged, is damaged"},
			},
		},
		{
			Name:   "a batch is published without keeping its frame",
			Breaks: "what lags pins its frames; here nobody knows that they are needed, nothing brings the bytes to the segment, and the next round writes over them",
			Edits: []Edit{{
				File: "engine/journal_checkpoint.go",
				Old:  "	if l.pins.lagging == 0 {\n		l.pins.lagging = l.pins.framed\n	}\n	l.pins.framed = 0\n",
				New:  "	l.pins.framed = 0\n	j.dropUnpinnedLocked(l)\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestFramesStayUntilWhatLagsIsInItsSegment", Says: "records were acknowledged, "},
				{Package: powerTests, Test: journalOnRealFiles, Says: "records are lost|is not replayed, nothing was changed"},
			},
		},
		{
			Name:   "a batch skips the journal over bytes that lag",
			Breaks: "a segment is written to only behind all that it holds durably; here a large batch is written behind a hole",
			Edits: []Edit{{
				File: "engine/write.go",
				Old:  "	if err := l.settleLag(); err != nil {\n		l.fail(b, err)\n		return\n	}\n	w := &l.mu.active\n",
				New:  "	w := &l.mu.active\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestALargeBatchGoesToItsSegmentBehindWhatLags", Says: "the segment saw"},
			},
		},
		{
			Name:   "a segment is sealed before it holds what lags",
			Breaks: "a segment is brought up to the journal before it is left behind; here it is sealed with a hole where acknowledged records belong",
			Edits: []Edit{{
				File: "engine/roll.go",
				Old:  "	l.awaitReservation()\n	if err := l.settleLag(); err != nil {\n		return err\n	}\n	if err := l.sealSegment(w); err != nil {\n",
				New:  "	l.awaitReservation()\n	if err := l.sealSegment(w); err != nil {\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestASealedSegmentHoldsWhatLagged", Says: "t/n/s/0 at 0 of 10"},
				{Package: powerTests, Test: journalOnRealFiles, Says: "is not opened, nothing was repaired"},
			},
		},
		{
			Name:   "bytes that cannot follow the journal count as an append that failed",
			Breaks: "what lags was acknowledged, so that a failed write poisons the log and its frames stay; here the bytes are dropped, and the log goes on behind a hole",
			Edits: []Edit{{
				File: "engine/journal_checkpoint.go",
				Old:  "		err = l.poisonLocked(err)\n	}\n	if err == nil {\n		w := &l.mu.active\n",
				New:  "		err = l.usable(\"append\", err)\n		l.store.journal.lagBytes.Add(-int64(len(l.mu.active.lag.writing)))\n		l.mu.active.lag.writing = nil\n		l.store.journal.written(l)\n	}\n	if err == nil {\n		w := &l.mu.active\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestLaggingBytesThatCannotBeWrittenStayReadable", Says: "an append behind bytes that are lost: <nil>"},
				{Package: engineTests, Test: "TestADiskThatIsFullDuringACheckpointLosesNothing", Says: "an append behind bytes that found no space"},
			},
		},
		{
			Name:   "the mark vouches for what only the journal holds",
			Breaks: "durable.mark counts what the segment itself holds; here whoever opens the log without the journal takes what is missing for rot",
			Edits: []Edit{{
				File: "engine/mark.go",
				Old:  "	return recovery.Mark{Segment: l.mu.active.id, Synced: l.mu.active.synced}\n",
				New:  "	return recovery.Mark{Segment: l.mu.active.id, Synced: l.mu.active.durableSize()}\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestAMarkDoesNotVouchForWhatOnlyTheJournalHolds", Says: "the mark says"},
			},
		},
		{
			Name:   "a truncation does not tell the journal",
			Breaks: "before records are cut a durable fence says that the journal holds nothing of them; here the next start brings them back",
			Edits: []Edit{
				{
					File: "engine/truncate.go",
					Old:  "	if err := l.store.journal.fence(l.name, journal.AllSegments); err != nil {\n		return l.usable(\"truncate\", err)\n	}\n",
				},
				{File: "engine/truncate.go", Old: "	\"felix.local/felix/journal\"\n"},
			},
			Caught: []Check{
				{Package: engineTests, Test: "TestWhatWasTruncatedIsNotReplayed", Says: "cut to 5, and 10 are there"},
			},
		},
		{
			Name:   "a deletion does not tell the journal",
			Breaks: "before a shard is deleted a durable fence says that the journal holds nothing of it; here the next start misses its segments, and nothing of the root opens",
			Edits: []Edit{
				{
					File: "engine/delete.go",
					Old:  "	if err := s.journal.fence(name, journal.AllSegments); err != nil {\n		return err\n	}\n",
				},
				{File: "engine/delete.go", Old: "	\"felix.local/felix/journal\"\n"},
			},
			Caught: []Check{
				{Package: engineTests, Test: "TestWhatWasDeletedIsNotReplayed", Says: "the segment does not exist"},
			},
		},
		{
			Name:   "a deletion tells the journal before it has its place",
			Breaks: "what a deletion needs room for is made before the fence; here a full disk refuses the deletion, and what only the journal held of a poisoned log is void",
			Edits: []Edit{{
				File: "engine/delete.go",
				Old:  "	to, err := s.makeFreeDir(filepath.Join(bin, name))\n	if err != nil {\n",
				New:  "	err := s.journal.fence(name, journal.AllSegments)\n	if err != nil {\n		return err\n	}\n	to, err := s.makeFreeDir(filepath.Join(bin, name))\n	if err != nil {\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestADeletionOnAFullDiskKeepsWhatOnlyTheJournalHolds", Says: "ends at 0, want 20"},
			},
		},
		{
			Name:   "a segment that a log goes back to counts as left behind",
			Breaks: "a fence reaches no further than the segments that were left for good; here the removal of an older one voids what the journal holds for the active one",
			Edits: []Edit{{
				File: "engine/open_log.go",
				Old:  "		s.journal.goesOn(l)\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestASegmentThatALogGoesBackToIsNotTakenForOneThatWasLeft", Says: "records were acknowledged, "},
			},
		},
		{
			Name:   "a frame in a file without a name is acknowledged",
			Breaks: "a frame is begun in a file that a start will find; here the journal was removed under the store, and what it acknowledges is gone with the process",
			Edits: []Edit{{
				File: "engine/journal_frame.go",
				Old:  "	if err := j.inPlace(); err != nil {\n		return 0, err\n	}\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestAJournalThatIsRemovedUnderTheStoreTakesNothingWithIt", Says: "of the journal is gone|, want 10"},
			},
		},
		{
			Name:   "a file that was moved away counts as in its place",
			Breaks: "what is acknowledged is found under its path by the next process; here the file need only have a name somewhere",
			Edits: []Edit{{
				File: "engine/write.go",
				Old:  "	named, err := file.Named()\n",
				New:  "	named, err := file.Linked()\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestAJournalThatIsMovedAwayTakesNothingUntilItIsBack", Says: "frames that no start will find"},
				{Package: engineTests, Test: "TestALogWhoseDirectoryWasMovedAwayAcknowledgesNothing", Says: "in a directory that is elsewhere"},
			},
		},
		{
			Name:   "records go without a fence before the end of the journal is durable",
			Breaks: "removals of records leave their fences out of a journal that was removed once no start finds it whole; here a copy in its place, or a power loss, brings both back",
			Edits: []Edit{{
				File: "engine/journal_fence.go",
				Old:  "	if j.mu.lost && j.mu.gone {",
				New:  "	if j.mu.lost {",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestACopyOfAJournalThatWasRemovedBringsNothingBack", Says: "that the journal was not told of"},
				{Package: engineTests, Test: "TestAFlushThatFailedKeepsRemovalsFromGoingWithoutTheirFence", Says: "<nil>"},
			},
		},
		{
			Name:   "nothing is said of a journal whose directory is gone",
			Breaks: "whatever names of it come back, a durable current beside them says that they hold nothing; here a flush that failed, and then a power loss, bring them back whole",
			Edits: []Edit{{
				File: "engine/journal_frame.go",
				Old:  "	if err := recovery.MakeDirs(j.store.disk(), j.path(\"\"), j.store.cfg.DirMode); err != nil {\n		return err\n	}\n	if err := j.sayCurrent(true); err != nil {\n",
				New:  "	_ = recovery.MakeDirs\n	if err := ignoreMissing(j.sayCurrent(true)); err != nil {\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestARemovalOfRecordsOutlivesAPowerLossBehindThatOfTheJournal", Says: "not replayed|ends at"},
			},
		},
		{
			Name:   "a journal that was given up is written again",
			Breaks: "nothing is written to a journal that current says is empty; here what was staged meanwhile is acknowledged in another file of it, and a kill takes it",
			Edits: []Edit{{
				File: "engine/journal_frame.go",
				Old:  "	if !j.ready() {\n		return 0, errNoJournalRoom\n	}\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestAJournalThatWasGivenUpIsNotWrittenAgain", Says: "a frame was written to it"},
			},
		},
		{
			Name:   "a journal that is removed poisons every log",
			Breaks: "what frames held that are gone is in memory, and goes to the segments; here the logs are poisoned, and nobody writes it there",
			Edits: []Edit{{
				File: "engine/journal_frame.go",
				Old:  "		return j.lose(removed)\n",
				New:  "		return j.fail(removed)\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestAJournalThatIsRemovedUnderTheStoreTakesNothingWithIt", Says: "is poisoned|poisoned"},
			},
		},
		{
			Name:   "a journal without the name of its epoch counts as unused",
			Breaks: "frames beside a missing current refuse the root; here it opens without what only they hold",
			Edits: []Edit{{
				File: "recovery/journal_read.go",
				Old:  "		return nil, j.wantUnused(disk)\n",
				New:  "		return nil, nil\n",
			}},
			Caught: []Check{
				{Package: "recovery", Test: "TestReplay", Says: "plan <nil>"},
			},
		},
		{
			Name:   "a chain goes on past a bad frame",
			Breaks: "a frame that is missing in front of others refuses the open; here the ones behind it are replayed, and the log has a hole",
			Edits: []Edit{{
				File: "journal/scan.go",
				Old:  "			return nil, s.missing(next)\n",
				New:  "			c.refs = append(c.refs, ref)\n			next = ref.Sequence + 1\n",
			}},
			Caught: []Check{
				{Package: journalTests, Test: "TestRottenFrame", Says: "got <nil>"},
				{Package: recoveryTests, Test: "TestReplay", Says: "--- FAIL: TestReplay/a_rotted_middle_frame"},
			},
		},
		{
			Name:   "a chain ends at a rotted middle frame",
			Breaks: "only the last frame may be unfinished; here a rotted one in front of others ends the replay, and what they hold is gone without a word",
			Edits: []Edit{{
				File: "journal/scan.go",
				Old:  "			return nil, s.missing(next)\n",
				New:  "			return c, nil\n",
			}},
			Caught: []Check{
				{Package: journalTests, Test: "TestRottenFrame", Says: "got <nil>"},
				{Package: recoveryTests, Test: "TestReplay", Says: "--- FAIL: TestReplay/a_rotted_middle_frame"},
			},
		},
		{
			Name:   "a stale frame of a file that is used again is replayed",
			Breaks: "a chain begins at the largest oldest frame needed; here at the oldest one that is still to be found, whose records may have been cut since",
			Edits: []Edit{{
				File: "journal/scan.go",
				Old:  "	var next uint64\n	for _, ref := range s.intact {\n		next = max(next, ref.OldestNeeded)\n	}\n",
				New:  "	next := s.intact[0].Sequence\n",
			}},
			Caught: []Check{
				{Package: journalTests, Test: "TestChain", Says: `chain \[.*\], want \[|no intact frame is there`},
			},
		},
		{
			Name:   "records are replayed into a segment that was made again",
			Breaks: "an entry is for the segment whose header it names; here any of that number will do, and a stream gets the records of the one before it",
			Edits: []Edit{
				{
					File: "recovery/journal_judge.go",
					Old:  "	case found.headerCRC != x.headerCRC:\n",
					New:  "	case found.headerCRC != x.headerCRC && found.missing:\n",
				},
			},
			Caught: []Check{
				{Package: recoveryTests, Test: "TestReplay", Says: "--- FAIL: TestReplay/another_segment_of_that_number"},
			},
		},
		{
			Name:   "bytes that another program wrote are taken for those of the journal",
			Breaks: "where a segment holds records of others the replay is refused; here it goes on over them",
			Edits: []Edit{{
				File: "recovery/journal_judge.go",
				Old:  "	case differs >= 0:\n",
				New:  "	case differs < -1:\n",
			}},
			Caught: []Check{
				{Package: recoveryTests, Test: "TestReplay", Says: "--- FAIL: TestReplay/different_bytes "},
			},
		},
		{
			Name:   "shards are opened before the replay",
			Breaks: "the journal is replayed before anything of a root is looked at; here a generation that begins past what its segment holds is dropped, and its records come back without it",
			Edits: []Edit{
				{
					File: "engine/open.go",
					Old:  "	if err := s.replayJournal(); err != nil {\n		return nil, errors.Join(&LogError{Label: root, Op: \"open\", Err: err}, s.giveUp())\n	}\n",
					New:  "",
				},
				{
					File: "engine/open_log.go",
					Old:  "	return s.openDir(ctx, filepath.Join(s.root, name), key.Label(), opts)\n",
					New: `	dir := filepath.Join(s.root, name)
	if _, err := s.openDir(ctx, dir, key.Label(), opts); err != nil {
		return nil, err
	}
	if s.journal.state.Load() != journalReady {
		if err := s.replayJournal(); err != nil {
			return nil, err
		}
	}
	return s.openDir(ctx, dir, key.Label(), opts)
`,
				},
			},
			Caught: []Check{
				{Package: engineTests, Test: "TestAGenerationWhoseRecordsLagIsKnownAfterAReplay", Says: "record 5 is of generation 7, want 8|is of generation 0, want"},
			},
		},
	}
}
