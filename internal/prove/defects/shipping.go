package defects

// shipping are defects of what a follower does with a shipment: what it compares, where it
// appends, and whose name the records bear.
func shipping() []Defect {
	return []Defect{
		{
			Name:   "a shipment is appended behind records that were not compared",
			Breaks: "what was on its way lands before a shipment is compared, and the records go where the compare ended; here they go behind a former leader's record, and the two logs differ unnoticed",
			Edits: []Edit{
				{
					File: "engine/ship_apply.go",
					Old:  "	for l.mu.committing {\n",
					New:  "	for l.mu.committing && l.mu.closed {\n",
				},
				{
					File: "engine/ship_apply.go",
					Old:  "	for next := tail; next < s.Next(); {\n",
					New:  "	for next := l.TailOffset(); next < s.Next(); {\n",
				},
			},
			Caught: []Check{
				{Package: engineTests, Test: "TestARecordOnItsWayIsComparedWithTheNextLeaders", Says: "generations are|want a"},
			},
		},
		{
			Name:   "a log that follows takes appends of its own",
			Breaks: "from a leader's first shipment on a log takes nothing else until a generation starts on it; here a record of its own lies among the leader's, under its generation's name",
			Edits: []Edit{{
				File: "engine/replica_promise.go",
				Old:  "	case !r.following:\n",
				New:  "	case !r.following || r.promise.Generation > 0:\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestALogThatFollowsTakesNoAppendsOfItsOwn", Says: "want a"},
				{Package: engineTests, Test: "TestALogThatIsToBeCutTakesNoAppendsOfItsOwn", Says: "want a"},
			},
		},
		{
			Name:   "a note whose records were refused stays",
			Breaks: "a note goes again with the records that it was made for; here what the log gets instead of them bears their generation's name",
			Edits: []Edit{{
				File: "engine/ship_apply.go",
				Old:  "	if errors.As(cause, &unknown) || sameHistory(was, noted) {\n",
				New:  "	if errors.As(cause, &unknown) || cause != nil {\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestANoteWhoseRecordsAreRefusedIsTakenBack", Says: "generations are"},
			},
		},
		{
			Name:   "a leader that was replaced notes who wrote what",
			Breaks: "a history is changed for the leader that is followed alone; here one that was replaced meanwhile changes what its successor noted",
			Edits: []Edit{{
				File: "engine/generation.go",
				Old:  "	if err == nil && s != nil {\n",
				New:  "	if err == nil && s != nil && s.Generation == 0 {\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestALeaderThatWasReplacedNotesNothing", Says: "generations are"},
			},
		},
		{
			Name:   "a shipped record of an unknown writer bears the newest name",
			Breaks: "where a leader does not know who wrote a record, its follower knows of nobody either; here the record is taken for one of the newest generation's, and others of that for the same",
			Edits: []Edit{{
				File: "engine/ship_apply.go",
				Old:  "		return sidecar.Epochs{}\n",
				New:  "		return held\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestRecordsOfAnUnknownGenerationBearNobodysName", Says: "is said to be generation"},
				{Package: engineTests, Test: "TestALeaderThatLostItsHistoryHidesNoDifference", Says: "generations are"},
			},
		},
		{
			Name:   "a label is given to what lies behind it",
			Breaks: "records behind those that are labelled keep their name; here an older generation's take the label's, and are taken for its leader's",
			Edits: []Edit{{
				File: "engine/generation.go",
				Old:  "	if to < tail && !sayTheSame(labelled, held, to) {\n",
				New:  "	if to < tail && tail == 0 {\n",
			}},
			Caught: []Check{
				{Package: engineTests, Test: "TestALabelLeavesWhatIsNotedBehindItsRecords", Says: "generations are"},
				{Package: engineTests, Test: "TestRecordsWithoutALabelGetOneWithTheLastOfThem", Says: "generations are"},
			},
		},
	}
}
