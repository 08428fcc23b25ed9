package uring

import (
	"runtime"
	"syscall"
	"unsafe"
)

// setupLadder are the flag sets that are tried, richest first; EINVAL means that
// this kernel does not know one of them.
//
// What is not in it, and why:
//   - SINGLE_ISSUER and DEFER_TASKRUN need one thread that submits and
//     reaps; the loop is not locked to one.
//   - COOP_TASKRUN leaves a completion unprocessed until the thread that submitted
//     the request enters the kernel by itself. After the loop moved to another
//     thread, the former one may run Go code for a long time first, and the
//     loop would wait for a completion that is already there.
//   - SQPOLL burns a CPU, and IOPOLL rings cannot flush.
var setupLadder = [...]uint32{
	setupCQSize | setupClamp | setupSubmitAll, // Linux 5.18
	setupCQSize | setupClamp,                  // Linux 5.6
	0,
}

// neededOps are the operations a ring must have.
var neededOps = [...]struct {
	opcode uint8
	name   string
}{
	{opFsync, "FSYNC"}, {opPollAdd, "POLL_ADD"}, {opFallocate, "FALLOCATE"}, {opWrite, "WRITE"},
}

// Open makes a ring and starts its loop. A refusal is a *SetupError.
//
// An open ring is no proof that the kernel lets it be used: a filter may forbid
// only the later calls. Callers prove it with real operations.
func Open(o Options) (*Ring, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()

	// The worker maxima that are read back are those of the calling thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	d, failure := climb(o)
	if failure != nil {
		return nil, &SetupError{Stage: failure.stage, Errno: failure.errno}
	}
	info := Info{
		Driver:  DriverName,
		Entries: int(d.params().sqEntries), CQEntries: int(d.params().cqEntries),
		Features: d.params().features, SetupFlags: d.params().flags,
	}
	// One entry of each queue is for the poll of the eventfd.
	info.InFlightMax = min(info.Entries, info.CQEntries) - 1
	if info.InFlightMax < 1 {
		_ = d.close() // never used
		return nil, &SetupError{Stage: stageSetup, Errno: syscall.ENOMEM}
	}
	if missing := probeOps(d, &info); len(missing) > 0 {
		_ = d.close() // never used
		return nil, &SetupError{Stage: stageProbe, Errno: syscall.ENOSYS, Missing: missing}
	}
	limitWorkers(d, o.Workers, &info)

	r, errno := start(d, o, info)
	if errno != 0 {
		_ = d.close() // never used
		return nil, &SetupError{Stage: stageWakeup, Errno: errno}
	}
	return r, nil
}

// climb opens the richest ring the kernel gives: fewer flags on EINVAL, a smaller
// ring on ENOMEM (ring memory may count against RLIMIT_MEMLOCK, and a large ring
// may fail on fragmented memory alone).
func climb(o Options) (driver, *openFailure) {
	var failure *openFailure
	rung := 0
	for entries := o.Entries; ; entries /= 2 {
		for rung < len(setupLadder) {
			var d driver
			if d, failure = o.open(uint32(entries), setupLadder[rung]); failure == nil {
				return d, nil
			}
			if failure.errno != syscall.EINVAL {
				break
			}
			rung++
		}
		if failure.errno != syscall.ENOMEM || entries/2 < entriesFloor {
			return nil, failure
		}
	}
}

// probeOps asks which operations exist and returns the missing ones. A refused
// probe is recorded and proves nothing either way.
func probeOps(d driver, info *Info) (missing []string) {
	p := new(probe)
	errno := d.register(registerProbe, unsafe.Pointer(p), uint32(len(p.ops)))
	runtime.KeepAlive(p)
	if errno != 0 {
		info.ProbeRefused = errno
		return nil
	}
	info.OpcodeCount = int(p.lastOp) + 1
	for _, need := range neededOps {
		if p.ops[need.opcode].flags&probeSupported != 0 && need.opcode < p.opsLen {
			info.Opcodes = append(info.Opcodes, need.name)
		} else {
			missing = append(missing, need.name)
		}
	}
	return missing
}

// limitWorkers sets the maximum of kernel workers. The kernel keeps it with the
// ring and applies it to every thread that submits.
func limitWorkers(d driver, workers int, info *Info) {
	var counts [2]uint32 // bounded, unbounded; 0 asks only
	call := func() syscall.Errno {
		errno := d.register(registerIOWQMaxWorkers, unsafe.Pointer(&counts), uint32(len(counts)))
		runtime.KeepAlive(&counts)
		return errno
	}
	if workers > 0 {
		counts[0] = uint32(workers)
	}
	if errno := call(); errno != 0 {
		info.WorkersRefused = errno
		return
	}
	info.WorkersBoundedBefore = int(counts[0])
	counts = [2]uint32{}
	if errno := call(); errno != 0 {
		info.WorkersRefused = errno
		return
	}
	info.WorkersBounded, info.WorkersUnbounded = int(counts[0]), int(counts[1])
}
