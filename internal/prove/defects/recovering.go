package defects

// recovering are defects of opening a log.
func recovering() []Defect {
	return []Defect{
		{
			Name:   "what lies behind the end of a segment stays",
			Breaks: "blocks behind the end of a segment are freed before the flush that settles it; here what a power loss left there takes the place of records that were appended over it and not flushed, at the next one",
			Edits: []Edit{{
				File: "recovery/settle.go",
				Old:  "	if trim {\n",
				New:  "	if trim && size < 0 {\n",
			}},
			Caught: []Check{
				{Package: recoveryTests, Test: "TestOrderOfRecovery", Says: "truncate 00000000000000000002.log"},
			},
		},
		{
			Name:   "a stale index of the active segment is trusted",
			Breaks: "an index that is not what its segment's records make it is written anew at open; here it stays, and once the segment is sealed reads begin at positions between records",
			Edits: []Edit{{
				File: "recovery/decide.go",
				Old:  "		if f.Full == nil || f.Full.IndexSame || (i < newest && f.End.reachesEnd()) {\n",
				New:  "		if f.Full == nil || f.Full.IndexSame || i == newest || f.End.reachesEnd() {\n",
			}},
			Caught: []Check{
				{Package: recoveryTests, Test: "TestDamageGetsItsVerdict", Says: "want \"refresh index 0; "},
			},
		},
		{
			Name:   "a truncation leaves a stale index",
			Breaks: "the index of a segment that was cut is emptied first; here entries of records that are gone stay between those of the records that follow",
			Edits: []Edit{{
				File: "engine/truncate.go",
				Old:  "entries: scan.Entries, indexStale: true,\n",
				New:  "entries: scan.Entries,\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestATruncationEmptiesTheIndexOfTheSegmentThatItCuts", Says: "and a rebuilt one"},
			},
		},
		{
			Name:   "the index of a segment that was not sealed vouches for its records",
			Breaks: "a segment before the newest one that the mark does not vouch for is read whole; here its index leads to an intact end, and the blocks that a power loss took in front of it are found by a reader",
			Edits: []Edit{{
				File: "recovery/sealed.go",
				Old:  "	return d.s.Mark != nil && d.marks.syncedThrough(f.ID) < f.Size\n",
				New:  "	return false\n",
			}},
			Caught: []Check{
				{Package: recoveryTests, Test: "TestDamageGetsItsVerdict", Says: "want \"set segment aside 1"},
			},
		},
		{
			Name:   "a log is appended to after a repair whose cut is not synced",
			Breaks: "a cut is durable before anything is appended; here a record of the same length as the damaged one can make what follows it valid again after the next crash",
			Edits: []Edit{{
				File: "recovery/apply.go",
				Old:  "	if err := a.disk.flush(f); err != nil {\n		return err\n	}\n	a.done(s)\n",
				New:  "	a.done(s)\n",
			}},
			Caught: []Check{
				{Package: recoveryTests, Test: "TestOrderOfRecovery", Says: "--- FAIL: TestOrderOfRecovery/the_copy_and_its_name_are_durable_before_the_cut"},
				{Package: powerTests, Test: "TestAFailedSyncLosesNothingAcknowledgedOrServed", Says: failedWorkloads},
			},
		},
		{
			Name:   "only the active segment is synced at open",
			Breaks: "the segment before the newest one is flushed too unless the mark vouches for it; here a log that a killed process left in the page cache is served, and its older half is gone after the next power loss",
			Edits: []Edit{{
				File: "recovery/settle.go",
				Old:  "	const withRecords = 2 // the active segment and a retired one\n",
				New:  "	const withRecords = 1\n",
			}},
			Caught: []Check{
				{Package: recoveryTests, Test: "TestOrderOfRecovery", Says: "--- FAIL: TestOrderOfRecovery/a_clean_log_is_flushed"},
				{Package: powerTests, Test: "TestAPowerLossTakesNothingAcknowledged", Says: failedWorkloads},
			},
		},
		{
			Name:   "the page cache is scanned after a failed flush",
			Breaks: "the cached copy is dropped before a log is judged; here pages that count as written since a flush failed are served, and the device never held them",
			Edits: []Edit{{
				File: "recovery/settle.go",
				Old:  "	if err := f.DropCache(min(vouched, size)); !errors.Is(err, device.ErrUnsupported) {\n		return size, err\n	}\n",
				New:  "",
			}},
			Caught: []Check{
				{Package: recoveryTests, Test: "TestOrderOfRecovery", Says: "--- FAIL: TestOrderOfRecovery/a_clean_log_is_flushed"},
				{Package: powerTests, Test: "TestAFailedSyncLosesNothingAcknowledgedOrServed", Says: failedWorkloads},
			},
		},
		{
			Name:   "a log is judged before it is flushed",
			Breaks: "what a process left in the page cache is flushed before a log is judged; here it is served, and gone after the next power loss",
			Edits: []Edit{{
				File: "recovery/open.go",
				Old:  "	if err := Settle(disk, dir, p); err != nil {\n",
				New:  "	if err := error(nil); err != nil {\n",
			}},
			Caught: []Check{
				{Package: recoveryTests, Test: "TestOrderOfRecovery", Says: "--- FAIL: TestOrderOfRecovery/a_clean_log_is_flushed"},
				{Package: powerTests, Test: "TestAPowerLossTakesNothingAcknowledged", Says: failedWorkloads},
			},
		},
		{
			Name:   "a zero tail below the mark is cut",
			Breaks: "zeros below the mark are bytes that were once on the device, and rotted, so the open is refused; here they are cut, and acknowledged records are gone without a word",
			Edits: []Edit{{
				File: "recovery/tail.go",
				Old:  "	case d.s.Mark == nil && zeroFilled(damage, size):\n",
				New:  "	case zeroFilled(damage, size):\n",
			}},
			Caught: []Check{
				{Package: recoveryTests, Test: "TestDamageGetsItsVerdict", Says: "want \"refuse 0@"},
				{Package: corruptTests, Test: "TestEveryBitAndEveryLengthOfAClosedLogHasItsVerdict", Says: "images lost"},
			},
		},
	}
}
