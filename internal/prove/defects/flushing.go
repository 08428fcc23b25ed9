package defects

// flushing are defects of the flushes of Sync, of the timer and of seals.
func flushing() []Defect {
	const secondRound = `		p.pending = false
		p.retired.synced = max(p.retired.synced, p.retiredSize)
		l.advanceDurableLocked()
		l.notifyLocked()
		l.mu.Unlock()
		p.op.File = p.file
`
	return []Defect{
		{
			Name:   "a flush is believed although its filesystem has stopped",
			Breaks: "after a flush that succeeded the file is asked whether it still takes writes; here a flush that was under way while the filesystem stopped acknowledges records that it dropped",
			Edits: []Edit{{
				File: "engine/write.go",
				Old:  "	return file.TakesWrites()\n",
				New:  "	return nil\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestAFlushOnAFilesystemThatStoppedAcknowledgesNothing", Says: "want a \\*engine.PoisonedError"},
			},
		},
		{
			Name:   "a reservation that was refused counts as one",
			Breaks: "the next reservation begins where blocks end; here it begins behind the one that was refused, and bytes that the journal holds for the gap find no room on a full disk",
			Edits: []Edit{{
				File: "engine/reserve.go",
				Old:  "	from := max(r.backed, l.mu.active.size",
				New:  "	from := max(r.bytes, l.mu.active.size",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestTheReservationAfterARefusedOneBeginsWhereBlocksEnd", Says: "and the next begins at"},
			},
		},
		{
			Name:   "the active segment is flushed before the retired one",
			Breaks: "no record is reported durable while one before it is not; here the newer segment's flush raises the bound while the older one's is still to come",
			Edits: []Edit{
				{
					File: "engine/flush.go",
					Old:  "		if !p.pending {\n			p.op = device.Op{Kind: device.Flush, File: p.file}\n		}\n",
					New:  "		p.op = device.Op{Kind: device.Flush, File: p.file}\n",
				},
				{
					File: "engine/flush.go",
					Old:  secondRound,
					New: `		p.pending = false
		if l.mu.active.id == p.id {
			l.mu.active.synced = max(l.mu.active.synced, p.size)
		}
		l.mu.durable = max(l.mu.durable, p.next)
		l.notifyLocked()
		l.mu.Unlock()
		p.op.File = p.retiredFile
`,
				},
			},
			Caught: []Check{
				{Package: engineTests, Test: "TestAFlushBesideAPendingSealTakesTwoRounds", Says: "no flush of"},
			},
		},
		{
			Name:   "retired and active segment are flushed in one submission",
			Breaks: "the flush of the active segment is submitted after that of the retired one has returned; here the two are unordered, and whichever returns first moves the bounds",
			Edits: []Edit{{
				File: "engine/flush.go",
				Old:  "		p.op.Results = results\n",
				New: `		if p.pending {
			beside := &flushPass{log: l, started: p.started, id: p.id, file: p.file, size: p.size, next: p.next, appends: p.appends}
			beside.op = device.Op{Kind: device.Flush, File: p.file, Results: results}
			passes[&beside.op] = beside
			ops = append(ops, &beside.op)
			p.file, p.pending = nil, false
		}
		p.op.Results = results
`,
			}, {
				File: "engine/flush.go",
				Old:  "	results := make(chan *device.Op, len(logs))\n",
				New:  "	results := make(chan *device.Op, 2*len(logs))\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestNoFlushOfTheActiveSegmentIsSubmittedBesideThatOfTheRetiredOne", Says: "beside the flush of segment"},
				{Package: powerTests, Test: "TestAFailedSyncLosesNothingAcknowledgedOrServed", Says: failedWorkloads},
			},
		},
		{
			Name:   "a failed flush is ignored",
			Breaks: "a flush that fails poisons its log and is never repeated, since the next one would succeed without the bytes; here it counts as a flush that succeeded",
			Edits: []Edit{
				{
					File: "engine/write.go",
					Old:  "	err := l.store.do(op)\n	if err == nil {\n		err = file.TakesWrites()\n	}\n	l.mu.Lock()\n	defer l.mu.Unlock()\n	l.mu.flushing = false\n	if err != nil {\n		_ = l.poisonLocked(err)\n	}\n",
					New:  "	_ = l.store.do(op)\n	var err error\n	l.mu.Lock()\n	defer l.mu.Unlock()\n	l.mu.flushing = false\n",
				},
				{
					File: "engine/flush.go",
					Old:  "	err := p.op.Err\n",
					New:  "	var err error\n",
				},
			},
			Caught: []Check{
				{Package: engineTests, Test: "TestAFailedFlushIsNeverRepeated", Says: `want a \*engine\.PoisonedError`},
				{Package: powerTests, Test: "TestAFailedSyncLosesNothingAcknowledgedOrServed", Says: failedWorkloads},
			},
		},
		{
			Name:   "a flush covers what was written when it completed",
			Breaks: "a flush covers the writes that had completed when it was submitted; here the bounds move to what was written by its end, and the writes beside it are reported durable on the strength of nothing",
			Edits: []Edit{{
				File: "engine/flush.go",
				Old:  "		l.mu.active.synced = max(l.mu.active.synced, p.size)\n",
				New: `		p.size, p.next, p.appends = l.mu.active.size, l.mu.active.next, l.mu.appendsWritten
		l.mu.active.synced = max(l.mu.active.synced, p.size)
`,
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestAFlushCoversOnlyWhatWasWrittenWhenItWasSubmitted", Says: "durable is 3"},
				{Package: powerTests, Test: "TestAPowerLossTakesNothingAcknowledged", Says: failedWorkloads, Seeds: 8},
			},
		},
		{
			Name:   "two flushes of one log are in flight",
			Breaks: "whoever comes beside a flush waits for its verdict, because the kernel reports a failed write-back once per descriptor: of two at a time one gets the error and the other a success that proves nothing",
			Edits: []Edit{
				{
					File: "engine/write.go",
					Old:  "	for l.mu.flushing {\n		_ = l.waitLocked(context.Background())\n	}\n	if poison := l.mu.poison; poison != nil {\n		l.mu.Unlock()\n		return poison\n	}\n	l.mu.flushing = true\n	l.mu.Unlock()\n	op := &l.flushOp // the role's\n",
					New:  "	if poison := l.mu.poison; poison != nil {\n		l.mu.Unlock()\n		return poison\n	}\n	l.mu.flushing = true\n	l.mu.Unlock()\n	_ = context.Background\n	op := new(device.Op)\n",
				},
				{
					File: "engine/flush.go",
					Old:  "	if l.mu.flushing || l.mu.gate != nil",
					New:  "	if l.mu.gate != nil",
				},
			},
			Caught: []Check{
				{Package: engineTests, Test: "TestOfOneLogOneFlushOfASegmentIsInFlight", Says: "beside flush"},
				{Package: powerTests, Test: "TestARollReportsNothingDurableWhileAFlushOfItsSegmentHasFailedUnseen", Says: "records count as durable"},
			},
		},
	}
}
