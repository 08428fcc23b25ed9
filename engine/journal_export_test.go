package engine

// Checkpoint brings every segment up to the commit journal.
func (s *Store) Checkpoint() { s.journal.checkpoint(s.journal.lagging(), nil) }

// JournalLost says that the journal was removed, and may still hold something.
func (s *Store) JournalLost() bool { return s.journal.gone() }
