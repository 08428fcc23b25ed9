// Package workload is the program whose power is cut: it appends to several stores at
// once, tells what was acknowledged and what was reported durable, and after the next
// start reads everything back.
//
// It owns the records, which follow from store, log and offset, so that whoever reads
// one knows whether it is right; the lines in which the program speaks (Event); and the
// blocks of acknowledgements that it writes beside the filesystem (Marks). It judges
// records alone: whether enough of them are there is said by package powercut, outside
// of the machine whose power was cut.
//
// # Invariants
//
//   - An acknowledgement is told after the append returned, and what is reported
//     durable after the log said so: never earlier.
//   - A line that was cut off in the middle is no line.
//   - A block of acknowledgements is written without any flush. It must not make
//     anything durable that Felix did not.
package workload
