package defects

// commandTests is where the tests of the tools are.
const commandTests = "cmd/felixd"

// identifying are defects of what a root says about itself and its streams.
func identifying() []Defect {
	return []Defect{
		{
			Name:   "a clean stop is noted before the last sync",
			Breaks: "run-state says \"stopped cleanly\" once every log's last flush returned; here a power loss in between leaves a directory that lacks acknowledged records and vouches for them",
			Edits: []Edit{
				{
					File: "engine/store.go",
					Old:  "	errs := s.closeLogs(ctx)\n",
					New:  "	late, err := s.noteStopped(ctx)\n	errs := s.closeLogs(ctx)\n",
				},
				{
					File: "engine/store.go",
					Old:  "	late, err := s.noteStopped(ctx)\n	if lost := ",
					New:  "	if lost := ",
				},
			},
			Caught: []Check{
				{Package: powerTests, Test: identityProof, Says: failedWorkloads},
				{Package: engineTests, Test: "TestACleanStopIsNotedLast", Says: "the last changes are"},
				{Package: engineTests, Test: "TestAfterAPowerLossAnIDVouchesForWhatWasAcknowledgedUnderIt", Says: "acknowledged records under the same id, the last run stopped cleanly"},
			},
		},
		{
			Name:   "a poisoned log does not keep a stop from being clean",
			Breaks: "a run of which a log was poisoned did not stop cleanly, also when that log was closed before; here its acknowledged records are missing and nothing says so",
			Edits: []Edit{
				{File: "engine/log.go", Old: "		l.store.unclean.Store(true)\n", New: ""},
				{File: "engine/close.go", Old: "		l.store.unclean.Store(true)\n", New: "		_ = err\n"},
			},
			Caught: []Check{
				{Package: engineTests, Test: "TestAStopThatWasNotCleanIsNotNoted", Says: "State:stopped cleanly"},
				{Package: powerTests, Test: "TestAFailedSyncLosesNothingAcknowledgedOrServed", Says: failedWorkloads},
			},
		},
		{
			Name:   "a new storage id is written after a log was opened",
			Breaks: "a new id is durable before anything else of a start; here a second crash leaves the old one, behind a run-state that no longer speaks of the first",
			Edits: []Edit{
				{
					File: "engine/identity.go",
					Old:  "	if plan.make || plan.again {\n		if err := s.replaceInRoot(sidecar.StorageIDName, id.AppendTo(nil)); err != nil {\n			return err\n		}\n	}\n",
					New:  "",
				},
				{
					File: "engine/identity.go",
					Old:  "// readIdentity reads ",
					New:  "func (s *Store) writeLate() error {\n	return s.replaceInRoot(sidecar.StorageIDName, s.Identity().ID.AppendTo(nil))\n}\n\n// readIdentity reads ",
				},
				{
					File: "engine/open_log.go",
					Old:  "	return s.openDir(ctx, filepath.Join(s.root, name), key.Label(), opts)\n",
					New:  "	l, err := s.openDir(ctx, filepath.Join(s.root, name), key.Label(), opts)\n	if err == nil {\n		err = s.writeLate()\n	}\n	return l, err\n",
				},
			},
			Caught: []Check{
				{Package: powerTests, Test: identityProof, Says: failedWorkloads},
				{Package: engineTests, Test: "TestANewIDComesBeforeAnythingElse", Says: "the changes of a start begin with"},
				{Package: engineTests, Test: "TestAPowerLossInAStartAfterACrashLeavesNoOldID", Says: "the old id is back"},
			},
		},
		{
			Name:   "a log that acknowledges ahead is not noted",
			Breaks: "run-state says that a run acknowledges before it flushes before a log of an on_commit store does; here a crash takes its records and the id stays",
			Edits: []Edit{{
				File: "engine/open_log.go",
				Old:  "	if err == nil {\n		err = s.runAcksIn(opts.apply(s.cfg).FsyncMode)\n	}\n",
				New:  "",
			}},
			Caught: []Check{
				{Package: powerTests, Test: identityProof, Says: failedWorkloads},
				{Package: engineTests, Test: "TestALaxerLogIsNotedBeforeItOpens", Says: "want a \\*engine.IdentityError"},
			},
		},
		{
			Name:   "a run is not noted when it begins",
			Breaks: "run-state says \"running\" before a record is acknowledged; here a run that crashes ahead of its flushes is taken for the one before it, which stopped cleanly",
			Edits: []Edit{{
				File: "engine/identity.go",
				Old:  "	if err := s.writeRunState(sidecar.RunState{State: sidecar.Running, AcksBeforeSync: acksBeforeSync, ID: id}); err != nil {\n",
				New:  "	if err := error(nil); err != nil {\n",
			}},
			Caught: []Check{
				{Package: powerTests, Test: identityProof, Says: failedWorkloads},
				{Package: engineTests, Test: "TestAfterAPowerLossAnIDVouchesForWhatWasAcknowledgedUnderIt", Says: "acknowledged records under the same id"},
			},
		},
		{
			Name:   "a marker whose flush failed is believed",
			Breaks: "what a marker says is durable before anybody acts on it; here a power loss brings back that a stream is being deleted, after its name was used again",
			Edits: []Edit{{
				File: "engine/incarnation.go",
				Old:  "	if !s.markers.durable[name] {\n",
				New:  "	if name == \"\" {\n",
			}},
			Caught: []Check{
				{Package: powerTests, Test: deletionProof, Says: failedWorkloads},
				{Package: engineTests, Test: "TestAMarkerWhoseFlushFailedIsNotBelieved", Says: "a power loss leaves"},
			},
		},
		{
			Name:   "a deletion is finished while a shard is there",
			Breaks: "an incarnation counts as deleted once none of its directories is left; here one that a failed deletion left is forgotten",
			Edits: []Edit{{
				File: "engine/incarnation.go",
				Old:  "		if len(left) > 0 {\n",
				New:  "		if len(left) < 0 {\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestAStreamCreatedAgainNeverOpensTheOldOnesDirectories", Says: "got <nil>"},
			},
		},
		{
			Name:   "a backup copies the small files after the segments",
			Breaks: "no file of a copy claims more than what is copied after it; here the mark vouches for records that the copy does not hold",
			Edits: []Edit{
				{
					File: "cmd/felixd/backup_shard.go",
					Old:  "	if err := c.copySmall(name, e); err != nil {\n		return nil, err\n	}\n",
				},
				{
					File: "cmd/felixd/backup_shard.go",
					Old:  "	copied, err := c.copySegments(name, e)\n	if err != nil {\n		return nil, err\n	}\n",
					New: "	copied, err := c.copySegments(name, e)\n	if err != nil {\n		return nil, err\n	}\n" +
						"	if err := c.copySmall(name, e); err != nil {\n		return nil, err\n	}\n",
				},
			},
			Caught: []Check{
				{Package: commandTests, Test: "TestACopyOfALogThatGrowsMeanwhileIsABeginningOfIt", Says: "vouches for more than the copy holds|claims more than the copy's segments hold"},
			},
		},
		{
			Name:   "a backup copies as much of a segment as there is at its turn",
			Breaks: "how much of each segment belongs to a copy is found out newest first; here the older of two that a background roll left open ends before the newer one begins",
			Edits: []Edit{{
				File: "cmd/felixd/backup_segments.go",
				Old:  "	for i, s := range segments {\n",
				New:  "	for i, s := range segments {\n		if now, err := os.Stat(filepath.Join(c.from, shard, s.name)); err == nil {\n			s.bytes = now.Size()\n		}\n",
			}},
			Caught: []Check{
				{Package: commandTests, Test: "TestACopyBesideARollInTheBackgroundIsABeginningOfTheLog", Says: "set segment aside"},
			},
		},
		{
			Name:   "a backup does not notice that a log was cut back",
			Breaks: "a copy is made again when the log lost records that it speaks of; here it joins small files and segments of two histories",
			Edits: []Edit{{
				File: "cmd/felixd/backup_shard.go",
				Old:  "	return plan, errors.Join(c.unmoved(dir, taken), c.unmoved(dir, copied))\n",
				New:  "	_, _ = taken, copied\n	return plan, nil\n",
			}},
			Caught: []Check{
				{Package: commandTests, Test: "TestACopyOfALogThatIsCutBackMeanwhileIsMadeAgain", Says: "the copy is of two histories"},
			},
		},
	}
}
