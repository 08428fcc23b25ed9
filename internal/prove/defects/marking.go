package defects

// marking are defects of durable.mark.
func marking() []Defect {
	return []Defect{
		{
			Name:   "the mark is written ahead of its sync",
			Breaks: "the mark repeats what a sync has returned, and never leads; here it vouches for bytes that a power loss may take, and what such a loss leaves is then refused as rot",
			Edits: []Edit{{
				File: "engine/mark.go",
				Old:  "	return recovery.Mark{Segment: l.mu.active.id, Synced: l.mu.active.synced}\n",
				New:  "	return recovery.Mark{Segment: l.mu.active.id, Synced: l.mu.active.size}\n",
			}},
			Caught: []Check{
				{Package: powerTests, Test: "TestAPowerLossTakesNothingAcknowledged", Says: failedWorkloads},
				{Package: engineTests, Test: "TestAMarkNeverSaysMoreThanReturnedSyncs", Says: "the mark says"},
			},
		},
		{
			Name:   "a late write of the mark lands after a truncation's",
			Breaks: "one write of the mark is in flight per log, and a truncation waits for it; here one that was under way lands last and vouches for bytes that were cut",
			Edits: []Edit{
				{
					File: "engine/exclusive.go",
					Old:  "l.mu.flushing || l.mu.marking || l.mu.roll.preparing",
					New:  "l.mu.flushing || l.mu.roll.preparing",
				},
				{
					File: "engine/mark.go",
					Old:  "	for l.mu.marking {\n		_ = l.waitLocked(context.Background())\n	}\n",
					New:  "	_ = context.Background\n",
				},
			},
			Caught: []Check{
				{Package: engineTests, Test: "TestATruncationWaitsForTheMarkThatIsBeingWritten", Says: "the log ends with segment"},
			},
		},
	}
}
