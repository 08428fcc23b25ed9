// Package httpapi is the HTTP front door: streams, records and subscriptions of
// package broker under /v1, for people and scripts.
//
// # What it owns
//
//   - Routes, parameters, bodies and answers; openapi.json describes them and is
//     served.
//   - The one table that gives every error its status, code and advice.
//   - The bounds of a listener: connections, header and body sizes, how slow a
//     client may be, and how many bytes all requests may hold in memory together.
//
// # What it never does
//
// It decides nothing about storage or order (package broker), knows no metrics
// system (Stats is read by the daemon), and applies no TLS: the caller hands in a
// listener that does. HTTP/2 is served where such a listener negotiates it.
//
// # Invariants
//
//   - A publish is answered 200 only after Stream.Publish returned without an error.
//   - A body is held in memory only as far as it has arrived, and every byte of
//     capacity was taken from Server.bodies first, as what a batch is parsed into is. A
//     page of a read is taken from Server.pages the same way: what was asked for
//     before it is read, what it is afterwards. Subscriptions hold at most a page of
//     FeedPageBytes each while they send, and nothing while they are silent; where
//     there is no room they wait, holding none.
//   - Of either, one client has at most its share.
//   - A batch is appended whole or not at all, in one shard.
//   - A client that neither sends nor takes bytes loses its request: reading a
//     body and writing an answer both have deadlines that progress alone extends.
//   - Nothing writes to a subscription after its handler returned: the heartbeat
//     writes under feed.mu, and only while the feed is open.
//   - Every answer of 400 or more has the JSON form of problem, except those that
//     net/http gives before a request exists (malformed requests, 431).
//
// # Locks
//
// feed.mu orders a subscription's pages and heartbeats; it is held while writing to
// the client, and nothing else is taken under it. pageHold.mu orders a request that
// lent what it holds and the timer that gives it back; budget.mu alone is taken under
// it. budget.mu orders takers, givers and those who wait; nothing is taken under it.
// Counters are atomic.
package httpapi
