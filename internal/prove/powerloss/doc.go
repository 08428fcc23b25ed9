// Package powerloss runs small logs on disks that lose power, opens what each
// loss may have left, and holds that nothing acknowledged is gone. It is for
// tests and for proofs alone.
//
// It owns the workloads, the record of what was promised at the moment of each
// crash, and the checks of what is found afterwards. What a crash may leave is
// for package simdisk to say, over a disk in memory or over real files.
//
// # What is checked of every image
//
//   - It opens, and holds at least what had to survive: under on_commit all that
//     was acknowledged and all that a reader got, otherwise all below the durable
//     bound; after the death of the process alone, all that was acknowledged.
//   - What it holds is, from where the log begins to its end, byte for byte what
//     was appended. It begins where the log began or where retention had got to,
//     and nothing that a finished truncation or a finished removal took is back.
//   - A storage id that is the same as before vouches for everything that was
//     acknowledged under it: less is a loss under every mode. Under on_commit it is
//     always the same, and so it is after a clean stop.
//   - A replica holds itself to the leader that it accepted last, or that it was
//     accepting; each record is of the generation that wrote it, which was accepted;
//     the commit offset and the hold of retention are what they were or were to be.
//   - A root says of a stream's name what was settled last or was being settled. A
//     stream that has the name holds its own records alone, and no shard of a former
//     incarnation opens.
//   - With a commit journal all of this holds whether those who open it use the journal
//     or not.
//   - It can be appended to, lose power again, be closed, opened and appended to
//     again. Whatever it served once, or acted upon, is there after another power loss, under
//     every mode.
//   - Of one image in some, opening is cut short in front of each of its changes,
//     and what that leaves has to pass as well.
//
// # Invariants
//
//   - What must survive is read before an image is built and what may be there
//     after it, so that neither asks too much of work that goes on meanwhile.
//   - One seed decides all that is done and every image of a workload with one
//     appender on a simulated disk, which runs in a bubble, but for the order of
//     what several goroutines of the engine do at one moment of the bubble's
//     clock. A replay that does not fail is to be tried a few times. With several
//     appenders, and on real files, the scheduler decides far more.
//   - An image that fails ends its workload and becomes a Failure. An error of Run
//     says that no workload could be run as asked.
//
// # Locks
//
// workload.mu is a leaf: hooks of the disk take it on the goroutines of queues.
package powerloss
