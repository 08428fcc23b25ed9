package broker

import "sync"

// Watch waits for several shards at once. It is woken when one of them commits, fails,
// ends, or loses records because somebody asked for that (not when retention's timer
// trims it). Add first, look at the shards then, and wait last: a
// change in between has left a wake-up in C.
type Watch struct {
	// C has room for one wake-up, which may stand for several.
	C    <-chan struct{}
	wake chan struct{}

	mu struct {
		sync.Mutex
		shards map[*shard]struct{}
	}
}

// NewWatch gives a watch of nothing.
func (b *Broker) NewWatch() *Watch {
	wake := make(chan struct{}, 1)
	w := &Watch{C: wake, wake: wake}
	w.mu.shards = make(map[*shard]struct{})
	return w
}

// Add watches a shard. A second time changes nothing.
func (w *Watch) Add(s *Stream, shard int) error {
	h, err := s.shard(shard)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, there := w.mu.shards[h]; !there {
		w.mu.shards[h] = struct{}{}
		h.watch(w.wake)
	}
	return nil
}

// Remove ends watching a shard.
func (w *Watch) Remove(s *Stream, shard int) {
	h, err := s.shard(shard)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removeLocked(h)
}

func (w *Watch) removeLocked(h *shard) {
	if _, there := w.mu.shards[h]; there {
		delete(w.mu.shards, h)
		h.unwatch(w.wake)
	}
}

// Close ends watching all of them.
func (w *Watch) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for h := range w.mu.shards {
		w.removeLocked(h)
	}
}
