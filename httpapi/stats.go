package httpapi

import (
	"sync/atomic"
)

// Stats are totals (which only rise) and gauges.
type Stats struct {
	// Requests counts ended requests by route and class of status.
	Requests []RouteStats
	// Connections and Subscriptions are open now; ConnectionsAccepted and
	// ConnectionsRefused (over the bound) are totals.
	Connections, Subscriptions              int64
	ConnectionsAccepted, ConnectionsRefused uint64
	// BytesIn and BytesOut are bytes of bodies.
	BytesIn, BytesOut uint64
	// BufferedBytes are held by publishes under way, PageBytes by range reads and by
	// subscriptions that send a page.
	BufferedBytes, PageBytes int64
	// RequestsActive are under way, subscriptions included.
	RequestsActive int64
	// Heartbeats counts those written, SlowReaders the answers cut since their client
	// took nothing for WriteTimeout.
	Heartbeats, SlowReaders uint64
	// Panics counts requests that ended in one; each was logged with its stack.
	Panics uint64
}

// RouteStats counts the requests of one route.
type RouteStats struct {
	// Route is the name in the route table, or "unknown" for paths that match none.
	Route string
	// ByClass counts answers by the first digit of their status; [0] is those whose
	// client left before there was one.
	ByClass [6]uint64
}

// counters are the server's own numbers.
type counters struct {
	bytesIn, bytesOut               atomic.Uint64
	subscriptions, active           atomic.Int64
	heartbeats, slowReaders, panics atomic.Uint64
}

// routeCounters are one route's.
type routeCounters struct{ byClass [6]atomic.Uint64 }

func (c *routeCounters) count(status int) {
	class := status / 100
	if class < 0 || class >= len(c.byClass) {
		class = 0
	}
	c.byClass[class].Add(1)
}

// Stats returns the server's totals and gauges.
func (s *Server) Stats() Stats {
	stats := Stats{
		Connections:         s.door.open.Load(),
		ConnectionsAccepted: s.door.accepted.Load(),
		ConnectionsRefused:  s.door.refused.Load(),
		Subscriptions:       s.counters.subscriptions.Load(),
		BytesIn:             s.counters.bytesIn.Load(),
		BytesOut:            s.counters.bytesOut.Load(),
		BufferedBytes:       s.bodies.held(),
		PageBytes:           s.pages.held(),
		RequestsActive:      s.counters.active.Load(),
		Heartbeats:          s.counters.heartbeats.Load(),
		SlowReaders:         s.counters.slowReaders.Load(),
		Panics:              s.counters.panics.Load(),
	}
	for _, r := range s.routes {
		row := RouteStats{Route: r.name}
		for class := range row.ByClass {
			row.ByClass[class] = r.counters.byClass[class].Load()
		}
		stats.Requests = append(stats.Requests, row)
	}
	return stats
}
