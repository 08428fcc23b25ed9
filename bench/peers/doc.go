// Command peers measures Felix beside other Go libraries that keep a log durable: pebble,
// the WALs of etcd and HashiCorp's raft, tidwall/wal, bbolt, badger and NATS JetStream. It
// is a module of its own, so that whoever depends on Felix depends on none of them.
//
// It owns what is compared: how each library is configured (targets.go says so in
// one table), what a record holds and how it is found again, and the check with strace
// that an acknowledgement follows a sync. The load, the latencies and the cost of the device
// are those of package felix.local/felix/bench.
//
// It never judges a number, and never measures a library in a way that does not
// keep what it acknowledged.
//
// # Invariants
//
//   - Every target of a row runs in every round, in an order that turns from round to round,
//     in a fresh directory on the same filesystem, in one process.
//
//   - The device is measured right before each run, without any log around it.
//
//   - After a run the target is closed, opened again and read: every log holds exactly
//     the records that were acknowledged, of each publisher in the order it sent them.
//
//   - A library that is not made for concurrent appends gets a mutex under one name and
//     a group commit under another; what it has of its own is used under a third.
package main
