package defects

// rolling are defects of the change from one segment to the next.
func rolling() []Defect {
	return []Defect{
		{
			Name:   "an inline roll does not flush the directory",
			Breaks: "the name of a segment is durable before a record in it is acknowledged; here a power loss takes the file whole",
			Edits: []Edit{{
				File: "recovery/create.go",
				Old:  "	if err := disk.flushDir(dir); err != nil {\n",
				New:  "	if err := error(nil); err != nil {\n",
			}},
			Caught: []Check{
				{Package: powerTests, Test: "TestAPowerLossTakesNothingAcknowledged", Says: failedWorkloads},
				{Package: engineTests, Test: "TestNoRecordOfANewSegmentIsAcknowledgedBeforeTheFormerIsSealed", Says: "no flush_dir of"},
			},
		},
		{
			Name:   "a background roll does not flush the directory",
			Breaks: "the name of a segment is durable before a record in it is acknowledged; here a power loss takes the file whole",
			Edits: []Edit{{
				File: "engine/background_roll.go",
				Old:  "	if err := s.flushDir(l.dir); err != nil {\n",
				New:  "	if err := error(nil); err != nil {\n",
			}},
			Caught: []Check{
				{Package: powerTests, Test: "TestAPowerLossTakesNothingAcknowledged", Says: failedWorkloads},
				{Package: engineTests, Test: "TestABatchBehindAnUnsyncedHeaderEndsWithAFlush", Says: "no flush_dir of"},
			},
		},
	}
}
