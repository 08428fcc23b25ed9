package defects

// cutting are defects of truncation and reset.
func cutting() []Defect {
	return []Defect{
		{
			Name:   "a truncation moves the mark back after the cut",
			Breaks: "the mark moves back before anything is cut; here a power loss in between leaves a segment shorter than the mark vouches for, which is refused as rot",
			Edits: []Edit{{
				File: "engine/truncate.go",
				Old:  "	if err := l.saveMark(true); err != nil {\n		return err\n	}\n	for _, d := range slices.Backward(removed) {\n",
				New:  "	for _, d := range slices.Backward(removed) {\n",
			}},
			Caught: []Check{
				{Package: powerTests, Test: truncateProof, Says: failedWorkloads},
				{Package: powerTests, Test: resetProof, Says: failedWorkloads},
			},
		},
		{
			Name:   "a truncation cuts before its removals are durable",
			Breaks: "a segment's removal is on the device before anything in front of it is shortened; here a power loss brings it back behind a gap",
			Edits: []Edit{{
				File: "engine/truncate.go",
				Old:  "	return l.store.flushDir(l.dir)\n",
				New:  "	return nil\n",
			}},
			Caught: []Check{
				{Package: powerTests, Test: truncateProof, Says: failedWorkloads},
				{Package: powerTests, Test: resetProof, Says: failedWorkloads},
			},
		},
		{
			Name:   "a truncation removes the oldest segment first",
			Breaks: "segments past the cut go newest first; here a power loss in between leaves a gap",
			Edits: []Edit{{
				File: "engine/truncate.go",
				Old:  "	for _, d := range slices.Backward(removed) {\n",
				New:  "	for _, d := range slices.All(removed) {\n",
			}},
			Caught: []Check{
				{Package: powerTests, Test: truncateProof, Says: failedWorkloads},
			},
		},
		{
			Name:   "a cut is not flushed",
			Breaks: "a segment's new length is on the device before anything is written past it; here a power loss brings back what was cut",
			Edits: []Edit{{
				File: "engine/truncate.go",
				Old:  "	if err := l.flushFile(w.file); err != nil {\n		return err\n	}\n	// An index",
				New:  "	// An index",
			}},
			Caught: []Check{
				{Package: powerTests, Test: truncateProof, Says: failedWorkloads},
				{Package: powerTests, Test: resetProof, Says: failedWorkloads},
			},
		},
		{
			Name:   "an emptied segment is removed before the one that takes its place is there",
			Breaks: "a log that is to begin elsewhere always has a segment that says where it is; here a power loss in between leaves a directory without one",
			Edits: []Edit{
				{
					File: "engine/truncate.go",
					Old:  "	f, err := l.createSegment(old.id+1, header)\n",
					New:  "	if err := l.removeSegment(old.id); err != nil {\n		return err\n	}\n	f, err := l.createSegment(old.id+1, header)\n",
				},
				{
					File: "engine/truncate.go",
					Old:  "	return l.removeSegment(old.id)\n",
					New:  "	return nil\n",
				},
			},
			Caught: []Check{
				{Package: powerTests, Test: resetProof, Says: failedWorkloads},
				{Package: engineTests, Test: "TestAPowerLossInAResetLeavesTheOldBeginningOrTheNewBase", Says: "a power loss in a reset of a log from"},
			},
		},
		{
			Name:   "a reset has the log begin elsewhere before it empties the history",
			Breaks: "the history of generations goes with the records, before the log begins elsewhere; here a power loss in between leaves generations of records that were never there",
			Edits: []Edit{{
				File: "engine/reset.go",
				Old:  "	if err := l.cutGenerations(0); err != nil || base == held {\n		return err\n	}\n	if err := l.moveTo(base); err != nil {\n		return l.poisonWith(err)\n	}\n	return nil\n",
				New:  "	if base != held {\n		if err := l.moveTo(base); err != nil {\n			return l.poisonWith(err)\n		}\n	}\n	return l.cutGenerations(0)\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestAPowerLossInAResetLeavesTheOldBeginningOrTheNewBase", Says: "and [1-9][0-9]* generations"},
			},
		},
	}
}
