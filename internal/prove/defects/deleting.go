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
