package defects

// sidecarTests are of the small files themselves.
const sidecarTests = "sidecar"

// The workloads of the power losses that are about what lies beside records.
const (
	identityProof = "TestAStorageIDThatOutlivesAPowerLossVouchesForWhatWasAcknowledged"
	deletionProof = "TestADeletedStreamStaysDeletedAndItsSuccessorKeepsItsRecords"
	replicaProof  = "TestAPowerLossTakesNoPromiseOfAReplica"
	resetProof    = "TestAPowerLossInAResetOrARestoreLeavesTheOldBeginningOrTheNew"
	truncateProof = "TestAPowerLossDuringTruncationLeavesAPrefix"
)

// replacing are defects of how a small file takes another's place.
func replacing() []Defect {
	return []Defect{
		{
			Name:   "a small file takes its name before its bytes are flushed",
			Breaks: "the bytes of a small file are on the device before its name stands for them; here a power loss leaves one that cannot be read, and a log that stays closed for it",
			Edits: []Edit{{
				File: "sidecar/replace.go",
				Old:  "	if err == nil && flush {\n",
				New:  "	if err == nil && flush && len(data) < 0 {\n",
			}},
			Caught: []Check{
				{Package: powerTests, Test: replicaProof, Says: failedWorkloads},
				{Package: powerTests, Test: identityProof, Says: failedWorkloads},
			},
		},
		{
			Name:   "a small file is replaced and its directory is not flushed",
			Breaks: "a change of a small file is on the device before anybody acts on it; here a power loss brings the former one back: a promise, a storage id, a deleted stream",
			Edits: []Edit{{
				File: "sidecar/replace.go",
				Old:  "		if err = FlushDir(disk, queue, dir); err == nil {\n",
				New:  "		if err == nil {\n",
			}},
			Caught: []Check{
				{Package: powerTests, Test: replicaProof, Says: failedWorkloads},
				{Package: powerTests, Test: identityProof, Says: failedWorkloads},
				{Package: powerTests, Test: deletionProof, Says: failedWorkloads},
			},
		},
		{
			Name:   "a small file is removed and its directory is not flushed",
			Breaks: "a removal is on the device when it returns; here a power loss brings back a snapshot of producers that tells of records which were cut",
			Edits: []Edit{{
				File: "sidecar/replace.go",
				Old:  "	if err := FlushDir(disk, queue, dir); err != nil {\n		return &ChangeError{Path: path, Step: StepDirectory, Err: err}\n	}\n	return nil\n}\n\n// FlushDir",
				New:  "	return nil\n}\n\n// FlushDir",
			}},
			Caught: []Check{
				{Package: sidecarTests, Test: "TestAPowerLossLeavesARemovedFileWholeOrGone", Says: "cuts left"},
			},
		},
	}
}
