package uring

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"testing"
)

// What the ring itself does not use.
const (
	opReadFixed  = 4
	opWriteFixed = 5
	opRead       = 22

	entryFixedFile = 1 << 0
	entryLink      = 1 << 2

	setupDisabled     = 1 << 6
	setupCoopTaskrun  = 1 << 8
	setupSingleIssuer = 1 << 12
	setupDeferTaskrun = 1 << 13

	registerBuffers = 0
	registerFiles   = 2
	registerEnable  = 12
)

// tuned says how a ring is made, beyond what Open asks for, and what thread it is
// used from. These benchmarks always take the native driver: the other one knows
// none of this.
type tuned struct {
	name  string
	flags uint32
	// locked: the goroutine that submits stays on one thread.
	locked  bool
	workers int
}

func (t tuned) String() string {
	thread := "free"
	if t.locked {
		thread = "locked"
	}
	return fmt.Sprintf("setup=%s/loop=%s", t.name, thread)
}

func (t tuned) options(extra uint32) Options {
	o := Options{Workers: t.workers}
	o.open = func(entries, flags uint32) (driver, *openFailure) {
		return openMapped(systemKernel{}, entries, flags|t.flags|extra)
	}
	return o
}

// openTuned opens a Ring. A ring with one issuer is made disabled and enabled by
// the loop, whose thread becomes that issuer. The thread of a locked loop ends with
// its ring, and so do the kernel's workers for it.
func openTuned(b *testing.B, t tuned) *Ring {
	b.Helper()
	var extra uint32
	if t.flags&setupSingleIssuer != 0 {
		extra = setupDisabled
	}
	o := t.options(extra)
	var d driver
	openPlain := o.open
	o.open = func(entries, flags uint32) (driver, *openFailure) {
		var failure *openFailure
		d, failure = openPlain(entries, flags)
		return d, failure
	}
	begun := false
	o.Hooks.Gather = func() {
		if begun {
			return
		}
		begun = true
		if t.locked {
			runtime.LockOSThread()
		}
		if extra != 0 {
			// A ring that stays disabled refuses the first operation.
			_ = d.register(registerEnable, nil, 0)
		}
	}
	r := openRing(b, o)
	b.Cleanup(func() { closeRing(b, r) })
	return r
}

// openRaw opens a kernel ring without a loop, for drive.
func openRaw(b *testing.B, t tuned) driver {
	b.Helper()
	o := t.options(0).withDefaults()
	d, failure := climb(o)
	if failure != nil {
		b.Skipf("this kernel or container gives no such io_uring: %s: %v", failure.stage, failure.errno)
	}
	limitWorkers(d, o.Workers, &Info{})
	b.Cleanup(func() {
		if err := d.close(); err != nil {
			b.Error(err)
		}
	})
	return d
}

// chain is what one operation is made of: steps, each submitted when the one before
// it has completed; the entries of a step are submitted together. The position is
// filled in when the operation begins.
type chain [][]sqe

// rawLoop submits chains and reaps their completions on one goroutine, one chain
// per lane under way.
type rawLoop struct {
	driver   driver
	lanes    []rawLane
	left     int // operations not begun
	inFlight int // entries
	enters   uint64
	entry    sqe
	err      error
}

type rawLane struct {
	*lane
	chain   chain
	pos     int64
	step    int
	waiting int // entries of the step that have not completed
}

// drive carries out and measures b.N operations on d, all of it on the calling
// goroutine.
func drive(b *testing.B, d driver, lanes []*lane, made func(index int, l *lane) chain) {
	b.Helper()
	r := &rawLoop{driver: d, left: b.N}
	for i, l := range lanes {
		r.lanes = append(r.lanes, rawLane{lane: l, chain: made(i, l)})
	}
	m := newMeter(b)
	m.start()
	r.run()
	m.stop()
	mustWork(b, r.err)
	m.report(r.enters)
}

func (r *rawLoop) run() {
	settle := r.settle
	for i := range r.lanes {
		r.begin(uint32(i))
	}
	for r.inFlight > 0 {
		_, errno := r.driver.enter(r.driver.pending(), 1)
		r.enters++
		if errno != 0 && errno != syscall.EINTR {
			r.fail(errno)
			return
		}
		r.driver.reap(settle)
	}
}

// begin starts a lane's next operation, if there is one.
func (r *rawLoop) begin(index uint32) {
	if r.left == 0 || r.err != nil {
		return
	}
	r.left--
	at := &r.lanes[index]
	at.pos, at.step = at.place(), 0
	r.send(index)
}

// send queues the entries of a lane's step. Their label is the lane and, above it,
// the result that is due.
func (r *rawLoop) send(index uint32) {
	at := &r.lanes[index]
	for _, e := range at.chain[at.step] {
		if e.opcode != opFsync {
			e.off = uint64(at.pos)
		}
		e.userData = uint64(e.len)<<32 | uint64(index)
		r.entry = e
		r.driver.push(&r.entry)
		at.waiting++
		r.inFlight++
	}
}

func (r *rawLoop) settle(userData uint64, res int32) {
	at := &r.lanes[uint32(userData)]
	at.waiting--
	r.inFlight--
	switch due := int32(userData >> 32); {
	case res < 0:
		r.fail(syscall.Errno(-res))
	case res != due:
		r.fail(fmt.Errorf("an entry transferred %d of %d bytes", res, due))
	}
	if at.waiting > 0 {
		return
	}
	if at.step++; at.step < len(at.chain) && r.err == nil {
		r.send(uint32(userData))
	} else {
		r.begin(uint32(userData))
	}
}

func (r *rawLoop) fail(err error) {
	if r.err == nil {
		r.err = errors.Join(errors.New("uring: raw ring"), err)
	}
}
