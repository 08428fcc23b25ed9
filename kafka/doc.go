// Package kafka lets clients of the Kafka protocol use the streams of package broker:
// a topic is a stream, a partition is a shard, an offset is the broker's.
//
// It owns the protocol: frames, requests and their versions, record batches,
// compression, fetch sessions, error codes, SASL. It never decides what is stored or
// in which order (package broker), and knows no secret (package auth). docs/kafka.md
// says what clients can count on, and a test compares its tables with this code.
//
// # A connection
//
//	reader: frame ─ header ─ Produce? decode, start publishing ─┐
//	                         else ──────────────────────────────┤ answers, in order
//	answerer: wait for the produce, or carry the request out ◄──┘ ─ write
//
// Answers leave in the order of the requests. Produces overlap: each partition of
// each of them is published in its own lane, which keeps the order of a connection's
// records per partition and gathers what comes while a publish is under way. Batches of
// idempotent producers are published one by one, and none waits for the one before to
// be acknowledged: their lane gives them their places, the answerer waits for what comes
// of them. InFlightMax and the memory of requests bound those under way. Every other
// request acts in the answerer, after all before it were answered; a produce behind it
// waits for that.
//
// # Invariants
//
//   - An acknowledgement says what the stream's fsync mode says, with acks=1 as with
//     acks=all. With acks=0 there is none; a failure then closes the connection.
//   - What a client announces allocates nothing: buffers grow as bytes come, counts
//     are checked against the bytes that are left, inflated bytes are accounted for as
//     they appear.
//   - A batch of an idempotent producer is stored once: the broker judges it, or, for
//     an in-memory stream, remembered. Nothing else here is kept of producers; their ids
//     are random.
//   - Records alias the request's buffer until the publish returns, or has its place;
//     that copies them.
//     The buffer goes back to its pool when the request was answered, not before.
//   - No input panics. There is no recover here that would hide it.
//   - Only what works is advertised, and the requests of consumer groups, which refuse to
//     whoever joins one: clients wait without end for a server that lists them.
//
// # Locks
//
// Server.mu, Server.creating, conn.mu, lanes.mu, sessions.mu and remembered.mu are never
// held together, but for conn.mu, which is taken under Server.mu when the server stops.
// The lock of a budget.Bytes is a leaf: nothing is taken under it, and none of the
// others is held by who waits for bytes. Server.creating alone is held across a change
// of the broker's, and the turn of a producer of an in-memory stream across a publish,
// with a deadline. Memory of requests is taken once per request, and only one request
// at a time may add to what it holds while there is none, so that requests never wait
// for each other in a circle.
package kafka
