// Package uring carries data-path operations to the disk through one io_uring.
// Ring implements device.Queue.
//
// It owns the kernel ring: setup and its fallbacks, the shared memory, the
// submission loop, and what each completion means. It never interprets a file,
// never decides what must be durable, and never runs a caller's code.
//
// # One goroutine owns the ring
//
// The loop gathers everything that was submitted, gives each operation a slot,
// and hands all of it to the kernel in one io_uring_enter that also waits for
// the next completion. It is not locked to a thread: waking a locked goroutine
// costs a thread switch on every operation. Two things follow.
//
// Requests belong to the thread that submitted them. When that thread ends, the
// kernel may cancel them (ECANCELED) or fail to finish them (EFAULT). Every
// operation here names its position and can be issued again without harm, so
// these results mean "again", within a bound: the first times at once, then with
// a growing pause that holds up no other operation.
//
// Kernel worker threads also belong to the submitting thread. The registered
// maximum is kept in the ring and applied by the kernel to every thread that
// uses the ring when it is registered, and to those whose first use of any ring
// this one is later (Linux 5.15 and later; older kernels refuse the registration).
// So it is registered once, and not again when the loop moves. It bounds the workers
// of one thread, not their sum; a worker that was idle for five seconds ends, but for
// the last one of each thread. A thread that used another ring before keeps the
// maximum it has.
//
// Workers count as threads of the user and of the control group. When a limit
// there (RLIMIT_NPROC, pids.max) keeps the kernel from starting the first worker of
// the thread that submits, it gives the work back with ECANCELED, and nothing ran.
// That is retried too, for longer than idle workers of other threads take to end,
// and fails with a *WorkerError in the end. Workers that took the last place under
// such a limit end the process all the same, because the Go runtime cannot do
// without a thread it needs: who opens a ring keeps Workers well below.
//
// # Where the loop waits, and how it is woken
//
// With nothing in flight the loop waits in the Go scheduler. With operations in
// flight it waits inside io_uring_enter. A producer pushes its operations on the
// arrivals stack and then looks at the loop's state:
//
//	awake    the loop will look at the stack before it waits: nothing to do
//	parked   the producer that moves parked → awake sends one token; a timer for
//	         operations to be tried again is such a producer
//	inKernel the producer that moves inKernel → awake writes the eventfd, which
//	         the ring polls
//
// The loop stores its state before it looks at the stack a last time; the
// producer pushes before it looks at the state. Both orders are sequentially
// consistent, so at least one of them sees the other: a wake-up cannot be lost.
// Only the producer whose compare-and-swap succeeds makes the call, so a burst
// costs one. A wake-up that is late (the loop woke for another reason) is read
// later and does no harm. While every slot is taken the loop stays "awake" even
// inside the kernel, because a producer could not make it do anything; not so
// while an operation waits to be tried again.
//
// # Invariants
//
//   - Slots are at most the submission entries less one, and the kernel gives
//     at least as many completion entries. One entry is for the poll. So the
//     submission queue always has room and the completion queue cannot overflow.
//   - A slot belongs to its operation, with file and buffer, until the completion
//     with the slot's current generation was reaped. It keeps the slot while it
//     waits to be tried again.
//   - Entries are submitted once each: how many are still to be submitted is
//     always read from the ring, never remembered across a system call.
//   - No operation is ever cancelled. A flush that failed with an error of the
//     device is never issued again.
//   - After an error of io_uring_enter other than EINTR, EAGAIN and EBUSY
//     the ring is lost. Every operation completes with "outcome unknown", and the
//     buffers and files the kernel may still use stay referenced, and the ring
//     mapped, until the process ends.
//
// # Locks
//
// None. Producers share the arrivals stack and the state word with the loop;
// everything else is the loop's own or an atomic counter.
//
// # Drivers
//
// The default build talks to the kernel itself. With the build tag giouring the
// ring memory, the entries and the system calls are those of
// github.com/pawelgaczynski/giouring; that build needs
// -ldflags=-checklinkname=0. Both pass device/devicetest, and a test compares
// their submission entries byte for byte.
package uring
