package defects

// deleting are defects of the deletion of shards.
func deleting() []Defect {
	return []Defect{
		{
			Name:   "a deletion is acknowledged before the shard's name is durably gone",
			Breaks: "a shard's name is gone from the device before its deletion returns and its files are removed; here a power loss brings it back, whole or in parts",
			Edits: []Edit{{
				File: "engine/delete.go",
				Old:  "	for _, parent := range []string{s.root, bin} {\n",
				New:  "	for _, parent := range []string(nil) {\n",
			}},
			Caught: []Check{
				{Package: powerTests, Test: deletionProof, Says: failedWorkloads},
				{Package: engineTests, Test: "TestAPowerLossInADeletionLeavesAShardWholeOrGone", Says: "the shard came back after its deletion had returned|of \\[0, 17\\)"},
			},
		},
		{
			Name:   "a shard's new name is made durable before its old one is given up",
			Breaks: "the root is flushed before .deleted, for filesystems on which a rename is not one step; here a power loss between the two leaves the shard under both names",
			Edits: []Edit{{
				File: "engine/delete.go",
				Old:  "	for _, parent := range []string{s.root, bin} {\n",
				New:  "	for _, parent := range []string{bin, s.root} {\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestADeletionIsDurableBeforeAnyFileGoes", Says: "after moment [0-9]+, behind"},
			},
		},
		{
			Name:   "files of a former run's deletion go before the shard is durably gone",
			Breaks: "what an earlier process deleted may be gone in the page cache alone, so both directories are flushed first; here a power loss brings a shard back without some of its files",
			Edits: []Edit{{
				File: "engine/reclaim.go",
				Old:  "	for _, dir := range []string{s.root, bin} {\n",
				New:  "	for _, dir := range []string(nil) {\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestWhatAnEarlierRunDeletedIsDurablyGoneBeforeItsFilesAre", Says: "no .* of .deleted after moment"},
			},
		},
		{
			Name:   "files of a shard go whose deletion failed",
			Breaks: "files are removed only once the shard cannot come back; here a flush of the root failed, and what a power loss brings back lacks some of them",
			Edits: []Edit{{
				File: "engine/delete.go",
				Old:  "			s.setUnsure(name, true)\n",
				New:  "",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestADeletionAfterAFailedFlushIsNotBelievedTooEarly", Says: "of \\[0, 17\\)|flush [0-9]+ failed"},
			},
		},
	}
}
