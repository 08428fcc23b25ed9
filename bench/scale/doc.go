// Command scale shows how what Felix costs grows with what it is asked for, in about
// five minutes:
//
//	go run ./bench/scale [-dir DIR] [-only NAME] [-rounds 3] [-slice 400ms] [-json FILE] [-markdown]
//
// It prints a table for each curve, with a line for each point: the median of all
// rounds, the least and the most beside it; with -json it writes every sample to a
// file. It exits 1 when something could not be measured or a record was lost, and
// judges nothing else: whether a curve bends is for the reader to see.
//
//   - shards: open time, memory and rate by the number of shards of a store
//   - publishers: publishers on one log
//   - records: record sizes
//   - segments: segments of one log, opened and read through a broker
//   - log size: opening a log of one segment, by its bytes
//   - subscribers: subscriptions to one shard, each taking every record
//
// # What is verified
//
// Every load is read back as package bench does it, byte for byte, after its store was
// closed and opened again, and every subscription has to get each record once, in
// order. Counted only, by the offsets they were given and the log's end, are the few
// records with which each shard is touched before its memory is measured, and the
// records of the copy that stands for a killed process: the log it was copied from was
// read back.
//
// # What is measured around a load
//
// Memory is taken after collections that give back to the system what is free. The
// process is the same for all points, so that little memory, as that of one shard, is
// lost in what earlier points left: many of them tell what one takes. A slice that is
// shorter than a second does not always have the turn of the second in which the marks
// of all logs are made durable: a longer one shows what that takes of many shards. The
// time of opening shards is that of the logs alone, several at once, in a store that
// is open; that of segments and log sizes is from nothing to a log that serves.
package main
