package broker

import "sync"

// rings are the durable shards whose rings share one bound. Its lock is taken with a
// shard's held, and never the other way round.
type rings struct {
	mu struct {
		sync.Mutex
		shards []*shard
		place  map[*shard]int
		hand   int
	}
}

func (r *rings) add(h *shard) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.place == nil {
		r.mu.place = make(map[*shard]int)
	}
	r.mu.place[h] = len(r.mu.shards)
	r.mu.shards = append(r.mu.shards, h)
}

func (r *rings) remove(h *shard) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, there := r.mu.place[h]
	if !there {
		return
	}
	last := len(r.mu.shards) - 1
	moved := r.mu.shards[last]
	r.mu.shards[at], r.mu.place[moved] = moved, at
	r.mu.shards[last] = nil
	r.mu.shards = r.mu.shards[:last]
	delete(r.mu.place, h)
}

// next gives the shards in turn; nil when there is none.
func (r *rings) next() *shard {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.mu.shards) == 0 {
		return nil
	}
	r.mu.hand++
	return r.mu.shards[r.mu.hand%len(r.mu.shards)]
}

// sweepMax bounds how many rings one commit looks at to make room.
const sweepMax = 256

// shareRings keeps the rings of all durable shards within their common bound. Rings of
// shards that committed nothing since they were last looked at are emptied first; if
// that is not enough, the one that grew gives up its oldest records, all if need be.
// What was in a ring is on disk.
func (b *Broker) shareRings(grown *shard) {
	for range sweepMax {
		if b.ringBytes.Load() <= b.cfg.RingBytesTotal {
			return
		}
		h := b.rings.next()
		if h == nil {
			break
		}
		if h == grown {
			continue
		}
		h.mu.Lock()
		if !h.mu.busy {
			h.changeRingLocked(func(r *ring) { r.reset(r.end()) })
		}
		h.mu.busy = false
		h.mu.Unlock()
	}
	grown.mu.Lock()
	defer grown.mu.Unlock()
	for grown.mu.ring.count > 0 && b.ringBytes.Load() > b.cfg.RingBytesTotal {
		grown.changeRingLocked(func(r *ring) { r.drop() })
	}
}
