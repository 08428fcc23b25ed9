package kafka

import (
	"container/list"
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

// sessionIdleMin is how long a fetch session is safe from giving way to another:
// with more clients than sessions, those without one fetch in full, instead of all
// of them losing theirs in turn.
const sessionIdleMin = 2 * time.Minute

// sessions are the incremental fetch sessions: what a client fetches, remembered so
// that its requests name only what changes, and answers only what is new. A session
// ends with the connection that made it. They are bounded in number and in
// partitions; the least recently used gives way.
type sessions struct {
	max, partsMax int
	now           func() time.Time
	mu            struct {
		sync.Mutex
		byID    map[int32]*session
		recent  list.List // of *session, the most recently used first
		parts   int
		evicted uint64
	}
}

// session is used by the answerer of its connection alone, but for what sessions.mu
// covers.
type session struct {
	id    int32
	owner *conn
	// epoch is what the next request has to carry, once turn has set it.
	epoch int32
	parts map[partKey]*fetchPart
	// order is fair: partitions that gave records go to its end.
	order []*fetchPart

	// Under sessions.mu.
	place   *list.Element
	used    time.Time
	counted int
}

type partKey struct {
	topic string
	index int32
}

func newSessions(most, partsMax int) *sessions {
	s := &sessions{max: most, partsMax: partsMax, now: time.Now}
	s.mu.byID = make(map[int32]*session)
	return s
}

// open makes a session of parts, or nil when there is no room.
func (s *sessions) open(owner *conn, parts []*fetchPart) *session {
	n := &session{owner: owner, parts: make(map[partKey]*fetchPart, len(parts))}
	n.add(parts)
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.mu.byID) >= s.max || s.mu.parts+len(n.parts) > s.partsMax {
		if !s.evictLocked() {
			return nil
		}
	}
	for n.id == 0 || s.mu.byID[n.id] != nil {
		n.id = rand.Int32N(math.MaxInt32) + 1
	}
	n.counted, n.used = len(n.parts), s.now()
	s.mu.parts += n.counted
	s.mu.byID[n.id] = n
	n.place = s.mu.recent.PushFront(n)
	return n
}

// evictLocked removes the least recently used session, if it is old enough.
func (s *sessions) evictLocked() bool {
	last := s.mu.recent.Back()
	if last == nil {
		return false
	}
	oldest := last.Value.(*session)
	if s.now().Sub(oldest.used) < sessionIdleMin {
		return false
	}
	s.dropLocked(oldest)
	s.mu.evicted++
	return true
}

// find gives a connection's session.
func (s *sessions) find(id int32, owner *conn) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.mu.byID[id]
	if n == nil || n.owner != owner {
		return nil
	}
	n.used = s.now()
	s.mu.recent.MoveToFront(n.place)
	return n
}

// recount accounts for a session whose partitions changed, and says whether it may
// stay.
func (s *sessions) recount(n *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.byID[n.id] != n {
		return false
	}
	s.mu.parts += len(n.parts) - n.counted
	n.counted = len(n.parts)
	if s.mu.parts > s.partsMax {
		s.dropLocked(n)
		return false
	}
	return true
}

// drop ends a connection's session, if there is one with this id.
func (s *sessions) drop(id int32, owner *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.mu.byID[id]; n != nil && n.owner == owner {
		s.dropLocked(n)
	}
}

// dropAll ends a connection's sessions.
func (s *sessions) dropAll(owner *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.mu.byID {
		if n.owner == owner {
			s.dropLocked(n)
		}
	}
}

func (s *sessions) dropLocked(n *session) {
	delete(s.mu.byID, n.id)
	s.mu.recent.Remove(n.place)
	s.mu.parts -= n.counted
}

func (s *sessions) stats() (open int, evicted uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.byID), s.mu.evicted
}

// add puts partitions into the session, or changes those that are in it.
func (n *session) add(parts []*fetchPart) {
	for _, p := range parts {
		if have := n.parts[p.partKey]; have != nil {
			have.offset, have.bytesMax, have.epoch = p.offset, p.bytesMax, p.epoch
			continue
		}
		n.parts[p.partKey] = p
		n.order = append(n.order, p)
	}
}

// forget takes partitions out of the session.
func (n *session) forget(keys []partKey) {
	for _, key := range keys {
		delete(n.parts, key)
	}
	if len(keys) == 0 {
		return
	}
	kept := n.order[:0]
	for _, p := range n.order {
		if n.parts[p.partKey] == p {
			kept = append(kept, p)
		}
	}
	clear(n.order[len(kept):])
	n.order = kept
}

// turn ends a request, whose answer is put together: the next carries the following epoch, and begins with the
// partitions that gave no records.
func (n *session) turn() {
	n.epoch++
	if n.epoch <= 0 {
		n.epoch = 1
	}
	var gave []*fetchPart
	rest := n.order[:0]
	for _, p := range n.order {
		p.pieces = nil // their buffers go back
		if p.bytes > 0 {
			gave = append(gave, p)
		} else {
			rest = append(rest, p)
		}
	}
	n.order = append(rest, gave...)
}
