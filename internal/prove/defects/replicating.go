package defects

// replicating are defects of what a log knows beside its records: whom it follows,
// who wrote what, and what a majority holds.
func replicating() []Defect {
	return []Defect{
		{
			Name:   "replica is written before the ballot",
			Breaks: "the ballot is on the device before the generation that it names a leader for; here a power loss in between leaves a generation without one, and a second leader is accepted at it",
			Edits: []Edit{
				{
					File: "engine/replica_promise.go",
					Old:  "	if d.Ballot != nil {\n		if err := l.storeBallot(*d.Ballot); err != nil {\n			return 0, err\n		}\n	}\n	if d.Replica {\n",
					New:  "	if d.Replica {\n",
				},
				{
					File: "engine/replica_promise.go",
					Old:  "	l.promise(d.Next)\n",
					New:  "	if d.Ballot != nil {\n		if err := l.storeBallot(*d.Ballot); err != nil {\n			return 0, err\n		}\n	}\n	l.promise(d.Next)\n",
				},
			},
			Caught: []Check{
				{Package: powerTests, Test: replicaProof, Says: failedWorkloads},
				{Package: engineTests, Test: "TestAPowerLossWhileALeaderIsAcceptedLeavesAPromise", Says: `after a power loss it is 4 from ""`},
				{Package: engineTests, Test: "TestALeaderIsAcceptedOnlyOnceBothFilesAreDurable", Says: "the ballot is not durable before replica is written"},
			},
		},
		{
			Name:   "a generation is acknowledged before replica is durable",
			Breaks: "a raised generation is on the device before anything from its leader is; here a power loss brings the former one back, and a leader that was replaced is followed again",
			Edits: []Edit{{
				File: "engine/replica.go",
				Old:  "	err := l.replaceFile(sidecar.ReplicaName, r.AppendTo(nil))\n",
				New:  "	err := sidecar.Replace(l.store.fs, l.store.queue, l.dir, sidecar.ReplicaName, r.AppendTo(nil), l.cfg.FileMode, false)\n",
			}},
			Caught: []Check{
				{Package: powerTests, Test: replicaProof, Says: failedWorkloads},
				{Package: engineTests, Test: "TestAPowerLossWhileALeaderIsAcceptedLeavesAPromise", Says: `after a power loss it is 3|replica.*too short`},
			},
		},
		{
			Name:   "a generation's first record is written before its note",
			Breaks: "where a generation begins is noted before its first record is there; here a power loss leaves that record under the former generation's name, which a later repair goes by",
			Edits: []Edit{
				{
					File: "engine/generation_start.go",
					Old:  "	if err := l.recordGeneration(generation, next); err != nil || base == next {\n		return next, false, err\n	}\n",
					New:  "	if base == next {\n		return next, false, l.recordGeneration(generation, next)\n	}\n",
				},
				{
					File: "engine/generation_start.go",
					Old:  "	return next, err == nil, err\n",
					New:  "	if err == nil {\n		err = l.recordGeneration(generation, next)\n	}\n	return next, err == nil, err\n",
				},
			},
			Caught: []Check{
				{Package: powerTests, Test: replicaProof, Says: failedWorkloads},
				{Package: engineTests, Test: "TestAPowerLossWhileAGenerationStartsLeavesNoRecordWithoutItsNote", Says: "the log ends at 3 and has 1 generations"},
			},
		},
		{
			Name:   "a truncation is acknowledged before the history of generations is stored",
			Breaks: "a truncation ends when the history without what was cut is on the device; here a restart finds generations whose records are gone, and takes records to come for theirs",
			Edits: []Edit{{
				File: "engine/generation.go",
				Old:  "	if err := l.storeEpochs(epochs); err != nil {\n		return l.poisonWith(err)\n	}\n",
				New:  "	l.mu.Lock()\n	l.mu.replication.epochs = epochs\n	l.mu.Unlock()\n",
			}},
			Caught: []Check{
				{Package: powerTests, Test: resetProof, Says: failedWorkloads},
				{Package: engineTests, Test: "TestAPowerLossInATruncationLeavesTheRightLabels", Says: "is still said to begin at"},
				{Package: engineTests, Test: "TestATruncationDropsTheGenerationsOfWhatItCuts", Says: "generations are"},
			},
		},
		{
			Name:   "the history of generations is cut before the records",
			Breaks: "the history is cut after the records are; here a power loss in between leaves records under a former generation's name",
			Edits: []Edit{{
				File: "engine/truncate.go",
				Old:  "	if err := l.truncateTo(ctx, offset); err != nil {\n		return err\n	}\n	return l.cutGenerations(offset)\n",
				New:  "	if err := l.cutGenerations(offset); err != nil {\n		return err\n	}\n	return l.truncateTo(ctx, offset)\n",
			}},
			Caught: []Check{
				{Package: powerTests, Test: resetProof, Says: failedWorkloads},
				{Package: engineTests, Test: "TestAPowerLossInATruncationLeavesTheRightLabels", Says: "is labelled with generation"},
			},
		},
		{
			Name:   "generations past the tail are kept at open",
			Breaks: "a generation whose records a crash took goes with them; here it stays, and the history is none any more once a newer one begins below it",
			Edits: []Edit{{
				File: "engine/replica.go",
				Old:  "	if !r.epochs.DropPast(tail) {\n",
				New:  "	if tail >= 0 {\n",
			}},
			Caught: []Check{
				{Package: powerTests, Test: resetProof, Says: failedWorkloads},
				{Package: engineTests, Test: "TestGenerationsPastTheTailAreDroppedAtOpen", Says: "generations are"},
				{Package: engineTests, Test: "TestAPowerLossInATruncationLeavesTheRightLabels", Says: "begins at [0-9]+ and the log ends at"},
			},
		},
		{
			Name:   "retention deletes past the commit offset it is held at",
			Breaks: "a segment that holds records which are not known to be on a majority stays; here it goes, and a replica that lacks them can never get them",
			Edits: []Edit{
				{
					File: "engine/retention.go",
					Old:  "!anchored || held {",
					New:  "!anchored || held && total < 0 {",
				},
				{
					File: "engine/retention.go",
					Old:  "	if l.heldBackLocked(d.NextOffset) {\n",
					New:  "	if l.heldBackLocked(d.NextOffset) && d.Size < 0 {\n",
				},
			},
			Caught: []Check{
				{Package: engineTests, Test: "TestRetentionIsHeldAtTheCommitOffset", Says: "the log begins at"},
			},
		},
		{
			Name:   "a restore cuts before it lowers the commit offset",
			Breaks: "the commit offset is lowered first; here a power loss in between leaves a log that ends below an offset which it takes for committed",
			Edits: []Edit{
				{
					File: "engine/restore.go",
					Old:  "	if want.Commit > offset {\n",
					New:  "	if offset < written {\n		if err := l.cutBack(ctx, offset); err != nil {\n			return err\n		}\n	}\n	if want.Commit > offset {\n",
				},
				{
					File: "engine/restore.go",
					Old:  "	return l.cutBack(ctx, offset)\n",
					New:  "	return nil\n",
				},
			},
			Caught: []Check{
				{Package: powerTests, Test: resetProof, Says: failedWorkloads},
				{Package: engineTests, Test: "TestAPowerLossInARestoreNeverLeavesACommitOffsetPastTheTail", Says: "and the commit offset is 15"},
			},
		},
		{
			Name:   "a leader that was replaced goes on adding records",
			Breaks: "records of a leader are staged only while it is the one that is followed; here those that were on their way land behind the promise to another",
			Edits: []Edit{
				{
					File: "engine/ship_apply.go",
					Old:  "	if err := l.followedLocked(c.generation, \"\"); err != nil {\n",
					New:  "	if err := l.followedLocked(c.generation, \"\"); err != nil && c.generation == 0 {\n",
				},
				{
					File: "engine/generation.go",
					Old:  "	if err == nil && s != nil {\n",
					New:  "	if err == nil && s != nil && s.Generation == 0 {\n",
				},
			},
			Caught: []Check{
				{Package: engineTests, Test: "TestALeaderThatIsReplacedAddsNothingMore", Says: "the follower ends at"},
			},
		},
		{
			Name:   "records of a shipment are stored before their leader's generation",
			Breaks: "a leader is accepted, durably, before anything from it is stored; here a power loss leaves its records and a replica that may follow its predecessor",
			Edits: []Edit{
				{
					File: "engine/ship_apply.go",
					Old:  "	if _, err := l.AcceptGeneration(ctx, s.Generation, s.Leader); err != nil {\n		return err\n	}\n	tail, err",
					New:  "	d, err := l.decide(s.Generation, s.Leader)\n	if err != nil {\n		return err\n	}\n	l.mu.Lock()\n	former := l.mu.replication.promise\n	l.mu.Unlock()\n	l.promise(d.Next)\n	tail, err",
				},
				{
					File: "engine/ship_apply.go",
					Old:  "	return l.AdvanceCommitOffset(min(s.Commit, s.Next()))\n",
					New:  "	l.promise(former)\n	if _, err := l.AcceptGeneration(ctx, s.Generation, s.Leader); err != nil {\n		return err\n	}\n	return l.AdvanceCommitOffset(min(s.Commit, s.Next()))\n",
				},
			},
			Caught: []Check{
				{Package: powerTests, Test: replicaProof, Says: failedWorkloads},
			},
		},
		{
			Name:   "records of a shipment are stored before the note of who wrote them",
			Breaks: "where a generation begins is noted before its first record is stored; here a power loss leaves shipped records under a former generation's name",
			Edits: []Edit{{
				File: "engine/ship_apply.go",
				Old:  "	was, noted, err := l.changeHistory(ctx, &s, func(held sidecar.Epochs, base, _ uint64) sidecar.Epochs {\n		return noteAhead(held, next, base, s.Generations)\n	})\n	if err != nil {\n		return 0, err\n	}\n	piece := s.piece(next)\n",
				New:  "	piece := s.piece(next)\n	var was, noted sidecar.Epochs\n	defer func() {\n		if err == nil {\n			_, _, err = l.changeHistory(ctx, &s, func(held sidecar.Epochs, base, _ uint64) sidecar.Epochs {\n				return noteAhead(held, next, base, s.Generations)\n			})\n		}\n	}()\n",
			}},
			Caught: []Check{
				{Package: powerTests, Test: replicaProof, Says: failedWorkloads},
				{Package: engineTests, Test: "TestAPowerLossLeavesNoShippedRecordUnderAFormerGenerationsName", Says: "--- FAIL"},
			},
		},
		{
			Name:   "a generation is given up before that is durable",
			Breaks: "that a generation has no leader is on the device before the log is served; here a power loss brings its leader back, with records missing that it had acknowledged",
			Edits: []Edit{{
				File: "engine/replica_promise.go",
				Old:  "	if err := l.storeBallot(ballot); err != nil {\n",
				New:  "	data, _ := ballot.AppendTo(nil)\n	if err := sidecar.Replace(l.store.fs, l.store.queue, l.dir, sidecar.BallotName, data, l.cfg.FileMode, false); err != nil {\n",
			}},
			Caught: []Check{
				{Package: powerTests, Test: replicaProof, Says: failedWorkloads},
				{Package: engineTests, Test: "TestAPowerLossWhileAGenerationIsGivenUp", Says: "given up|ballot"},
			},
		},
	}
}
