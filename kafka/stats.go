package kafka

import (
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// counters are what Stats is read from.
type counters struct {
	connectionsAccepted, connectionsRefused atomic.Uint64
	requestsRefused, authenticationFailures atomic.Uint64
	producedRecords, producedBytes          atomic.Uint64
	produceFailures                         atomic.Uint64
	fetchedRecords, fetchedBytes            atomic.Uint64
	requests                                requestCounts
}

// requestCounts counts requests by key.
type requestCounts [keyMax + 1]atomic.Uint64

func (c *requestCounts) add(key int16) { c[key].Add(1) }

// Stats are totals since New, and gauges.
type Stats struct {
	// Connections are open now; Accepted and Refused (for ConnectionsMax) are totals.
	Connections                             int
	ConnectionsAccepted, ConnectionsRefused uint64
	// Requests are those answered, by name: "Produce", "Fetch", ...
	Requests map[string]uint64
	// RequestsRefused ended their connection: malformed, too large, not supported, or
	// before authentication.
	RequestsRefused, AuthenticationFailures uint64
	// ProducedRecords are acknowledged, those of a batch that came again included.
	// ProducedBytes are those of record batches as they came; ProduceFailures counts
	// partitions of requests.
	ProducedRecords, ProducedBytes, ProduceFailures uint64
	FetchedRecords, FetchedBytes                    uint64
	// FetchSessions are open now; evicted ones gave way to others.
	FetchSessions        int
	FetchSessionsEvicted uint64
	// RequestMemory and ResponseMemory are bytes that are taken.
	RequestMemory, ResponseMemory int64
}

// Stats gives the counts.
func (s *Server) Stats() Stats {
	out := Stats{
		ConnectionsAccepted:    s.stats.connectionsAccepted.Load(),
		ConnectionsRefused:     s.stats.connectionsRefused.Load(),
		Requests:               make(map[string]uint64),
		RequestsRefused:        s.stats.requestsRefused.Load(),
		AuthenticationFailures: s.stats.authenticationFailures.Load(),
		ProducedRecords:        s.stats.producedRecords.Load(),
		ProducedBytes:          s.stats.producedBytes.Load(),
		ProduceFailures:        s.stats.produceFailures.Load(),
		FetchedRecords:         s.stats.fetchedRecords.Load(),
		FetchedBytes:           s.stats.fetchedBytes.Load(),
		RequestMemory:          s.requests.Used(),
		ResponseMemory:         s.responses.Used(),
	}
	for key := range s.apis {
		out.Requests[kmsg.NameForKey(key)] = s.stats.requests[key].Load()
	}
	out.FetchSessions, out.FetchSessionsEvicted = s.sessions.stats()
	s.mu.Lock()
	out.Connections = len(s.mu.conns)
	s.mu.Unlock()
	return out
}
