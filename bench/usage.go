package bench

import (
	"time"

	"golang.org/x/sys/unix"

	"felix.local/felix/device"
	"felix.local/felix/engine"
)

// processCPU is the processor time of all threads of this process so far, those of
// the kernel that work for its ring among them; 0 where the kernel does not tell.
func processCPU() time.Duration {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// Work is what a store did, by its own counters: the difference of two looks.
type Work struct {
	Appends, Records uint64
	// Writes are operations that wrote, through the queue or inline; Flushes those
	// that made something durable: dsync writes and flushes.
	Writes, Flushes uint64
	// Ops are all operations, of any kind.
	Ops uint64
	// Enters are calls of io_uring_enter, EnterOps the operations they took.
	Enters, EnterOps uint64
}

func workOf(s engine.StoreStats) Work {
	ops := func(kinds ...device.Kind) (total uint64) {
		for _, k := range kinds {
			total += s.Queue.Ops[k] + s.Inline[k]
		}
		return total
	}
	return Work{
		Appends: s.Appends, Records: s.AppendRecords,
		Writes:  ops(device.Write, device.WriteDsync),
		Ops:     ops(device.Write, device.WriteDsync, device.Flush, device.FlushAll, device.Allocate),
		Flushes: ops(device.WriteDsync, device.Flush, device.FlushAll),
		Enters:  s.Queue.Enters, EnterOps: s.Queue.EnterOps,
	}
}

// since is what was done after an earlier look.
func (w Work) since(before Work) Work {
	return Work{
		Appends: w.Appends - before.Appends, Records: w.Records - before.Records,
		Writes: w.Writes - before.Writes, Flushes: w.Flushes - before.Flushes, Ops: w.Ops - before.Ops,
		Enters: w.Enters - before.Enters, EnterOps: w.EnterOps - before.EnterOps,
	}
}

// ratio is 0 where nothing was counted.
func ratio(of, per uint64) float64 {
	if per == 0 {
		return 0
	}
	return float64(of) / float64(per)
}
