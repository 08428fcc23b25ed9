package engine

// Checkpoint brings every segment up to the commit journal.
func (s *Store) Checkpoint() { s.journal.checkpoint(s.journal.lagging(), nil) }
