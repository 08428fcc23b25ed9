package engine

import (
	"time"

	"felix.local/felix/journal"
)

// Checkpoint brings every segment up to the commit journal.
func (s *Store) Checkpoint() { s.journal.checkpoint(s.journal.lagging(), nil) }

// JournalLost says that the journal was removed, and may still hold something.
func (s *Store) JournalLost() bool { return s.journal.isLost() }

// KickJournal has the checkpointer go round.
func (s *Store) KickJournal() { s.journal.wakeCheckpointer() }

// SettleJournal settles that the journal was removed, once more.
func (s *Store) SettleJournal() {
	for !s.journal.settling.CompareAndSwap(false, true) {
		time.Sleep(time.Millisecond)
	}
	defer s.journal.settling.Store(false)
	_ = s.journal.settleLoss()
}

// JournalPins is how many logs have bytes that no segment holds durably.
func (s *Store) JournalPins() int {
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	return len(s.journal.mu.pinned)
}

// JournalGone says that the journal was removed, and that this is durable.
func (s *Store) JournalGone() bool {
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	return s.journal.mu.gone
}

// FrameAfterLoss loses the journal, which holds nothing, and writes a frame of a fence.
func (s *Store) FrameAfterLoss() error {
	j := s.journal
	_ = j.lose(errUnlinked)
	for j.isLost() {
		time.Sleep(time.Millisecond)
	}
	fence := &journalEntry{Entry: journal.Entry{Kind: journal.Fence, Shard: "shard", Segment: journal.AllSegments}, done: make(chan error, 1)}
	_, err := j.writeFrame([]*journalEntry{fence})
	return err
}

// ErrNoJournalRoom says that a frame was not written.
var ErrNoJournalRoom = errNoJournalRoom
