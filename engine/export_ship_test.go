package engine

// Unfollow lets a log that followed a leader take appends of its own, as one that was
// opened again does.
func (l *Log) Unfollow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.replication.following = false
}
