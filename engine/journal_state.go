package engine

// JournalState says whether a store commits through a commit journal.
type JournalState struct {
	// State is "off", "waiting" until the store commits often enough, "making" while
	// its files are made, "ready", "broken" after a failed write, or "closed".
	State string
	// Reason says why it is off or broken, or ready and not written because it was moved
	// away; empty otherwise.
	Reason string
	// Files is into how many files it is divided and Bytes what they take on disk, 0
	// where there is none.
	Files int
	Bytes int64
}

// Journal says whether there is a commit journal, and why not.
func (s *Store) Journal() JournalState {
	j := s.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	state := JournalState{Reason: j.mu.reason}
	switch j.state.Load() {
	case journalOff:
		state.State = "off"
	case journalUnmade:
		state.State = "waiting"
	case journalMaking:
		state.State = "making"
	case journalReady:
		state.State, state.Files, state.Bytes = "ready", journalFileCount, j.bytes()
	case journalBroken:
		state.State, state.Files, state.Bytes = "broken", journalFileCount, j.bytes()
	case journalClosed:
		state.State = "closed"
	}
	if j.mu.broken != nil {
		state.Reason = j.mu.broken.Error()
	}
	return state
}
