package kafka

import (
	"sync"

	"felix.local/felix/broker"
)

// While a publish to a shard is under way, what the same connection sends for it
// gathers, up to these bounds, and goes in the next publish. They limit no client:
// a larger request goes by itself, and so does what an idempotent producer sends,
// whose batches are told apart; the lane waits until those have their places only.
const (
	gatherBytesMax   = 1 << 20
	gatherRecordsMax = 10_000
)

// lanes keep the order of a connection's produces per shard: the records of a
// request are appended after those of the requests before it. Shards do not wait
// for each other.
type lanes struct {
	// publish appends the records of parts, or gives them their place, in order, and ends
	// each of them.
	publish func(parts []*producePart)
	mu      struct {
		sync.Mutex
		busy map[laneKey]*lane
	}
}

type laneKey struct {
	stream broker.StreamName
	shard  int32
}

// lane holds what waits for the publish that is under way.
type lane struct{ waiting []*producePart }

// add puts a part at the end of its shard's lane.
func (l *lanes) add(p *producePart) {
	key := laneKey{stream: p.stream.Name(), shard: p.index}
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.mu.busy[key]; at != nil {
		at.waiting = append(at.waiting, p)
		return
	}
	if l.mu.busy == nil {
		l.mu.busy = make(map[laneKey]*lane)
	}
	l.mu.busy[key] = &lane{}
	go l.run(key, p)
}

// run publishes until nothing waits.
func (l *lanes) run(key laneKey, first *producePart) {
	parts := []*producePart{first}
	for len(parts) > 0 {
		l.publish(parts)
		parts = l.gather(key, parts[:0])
	}
}

// gather takes what goes in the next publish; nothing ends the lane.
func (l *lanes) gather(key laneKey, parts []*producePart) []*producePart {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.mu.busy[key]
	size, count := 0, 0
	for _, p := range at.waiting {
		size, count = size+p.bytes, count+len(p.messages)
		full := size > gatherBytesMax || count > gatherRecordsMax
		if len(parts) > 0 && (full || p.isProduced() || parts[0].isProduced()) {
			break
		}
		parts = append(parts, p)
	}
	rest := copy(at.waiting, at.waiting[len(parts):])
	clear(at.waiting[rest:])
	at.waiting = at.waiting[:rest]
	if len(parts) == 0 {
		delete(l.mu.busy, key)
	}
	return parts
}
