package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/internal/simdisk"
)

const historyRoot = "/felix"

// historyEpoch is the life of a log from one opening to the end of its process, on
// a disk of its own: the next epoch gets what a crash, or closing, left of it.
type historyEpoch struct {
	*historyRun
	disk   *simdisk.Disk
	faults *faultdisk.Disk
	store  *engine.Store
	log    *engine.Log
	// ctx ends with the process.
	ctx        context.Context
	cancel     context.CancelFunc
	impatience *impatience
	// helpers work beside the clients.
	helpers sync.WaitGroup

	// kind is the crash that the epoch may come to, in front of change crashAt
	// of the disk; 0 is none.
	kind    simdisk.CrashKind
	crashAt int64
	changes atomic.Int64
	// truncates says that clients truncate: in every second epoch.
	truncates bool
	// dirsFail says that the fault, if it hits, hits the flush of a directory; cuts
	// that files may have been cut.
	dirsFail bool
	cuts     atomic.Bool
	crashed  chan struct{}
	// The recorder's lock guards what follows until crashed is closed.
	endedAt int64
	image   *simdisk.Disk
	ending  historyEnding
}

// openEpoch opens the log on a disk that works.
func (h *historyRun) openEpoch(disk *simdisk.Disk) (*historyEpoch, error) {
	queue := disk.NewQueue(simdisk.QueueOptions{Mode: simdisk.Adversarial, Seed: h.random.Uint64(), ShortPercent: 5})
	e := &historyEpoch{
		historyRun: h, disk: disk, faults: faultdisk.New(disk, queue, faultdisk.Options{}),
		impatience: newImpatience(), crashed: make(chan struct{}),
	}
	e.ctx, e.cancel = context.WithCancel(h.ctx)
	cfg := h.config()
	cfg.FS, cfg.Queue = e.faults.FS(), e.faults.Queue()
	if h.liar != nil {
		cfg.Queue = h.liar.over(cfg.Queue)
	}
	var err error
	if e.store, err = engine.OpenStore(e.ctx, historyRoot, cfg); err == nil {
		e.log, err = e.store.OpenLog(e.ctx, testKey(0))
	}
	if err != nil {
		e.tearDown()
		return nil, err
	}
	return e, nil
}

// config draws what may differ from one opening to the next.
func (h *historyRun) config() engine.Config {
	c := testConfig()
	c.FsyncMode, c.FsyncInterval = h.mode, time.Hour
	if h.random.IntN(2) == 0 {
		c.FsyncInterval = time.Millisecond
	}
	c.SegmentBytes, c.IndexSpacingBytes = 500+h.random.Int64N(700), 128
	c.RolloverThresholdPercent = []int{100, 50}[h.random.IntN(2)]
	c.MaxRecordsPerRead = historyReadMax
	c.RetentionBytes, c.RetentionInterval = 1000+h.random.Int64N(1000), time.Hour
	c.OpenSealedMax = 2
	c.StagedBytesPerLogMax = []int64{400, 1 << 20}[h.random.IntN(2)]
	return c
}

// work has the clients use the log beside a fault that may hit it and a crash
// that may come.
func (e *historyEpoch) work() {
	e.kind = []simdisk.CrashKind{simdisk.PowerLoss, simdisk.ProcessDeath}[e.random.IntN(2)]
	if e.random.IntN(2) == 0 {
		e.crashAt = 1 + e.random.Int64N(150)
	}
	e.truncates = e.random.IntN(2) == 0
	e.disk.BeforeChange(func(simdisk.Change) {
		if e.changes.Add(1) == e.crashAt {
			e.crash()
		}
	})
	if e.liar == nil {
		e.arm()
	}
	var clients sync.WaitGroup
	for i := range historyClients {
		c := &historyClient{e, i, rand.New(rand.NewPCG(e.random.Uint64(), uint64(i)))}
		clients.Go(c.run)
	}
	ended := make(chan struct{})
	e.helpers.Go(func() { // a process that ended holds nobody
		select {
		case <-e.crashed:
			e.cancel()
		case <-ended:
		}
	})
	clients.Wait()
	close(ended)
}

// arm puts faults to work.
func (e *historyEpoch) arm() {
	if e.random.IntN(3) == 0 {
		fault := simdisk.SyncFault{Files: true, At: 1 + e.random.IntN(20), Revert: e.random.IntN(2) == 0, Partly: e.random.Uint64N(3)}
		if e.random.IntN(4) == 0 {
			fault.Files, fault.Dirs, fault.At = false, true, 1+e.random.IntN(6)
			e.dirsFail = true
		}
		e.disk.FailSync(fault)
	}
	if e.random.IntN(4) == 0 {
		e.cuts.Store(true) // what a failed write left is cut off
		e.faults.Inject(faultdisk.Fault{
			Kinds: faultdisk.Writes, Path: isLog, At: 1 + e.random.IntN(15), Times: 1 + e.random.IntN(2),
			Errno: []syscall.Errno{syscall.ENOSPC, syscall.EIO}[e.random.IntN(2)],
			Lands: faultdisk.Lands(e.random.IntN(3)),
		})
	}
	if e.random.IntN(3) == 0 {
		e.stall(e.faults.Inject(faultdisk.Fault{
			Kinds: faultdisk.Writes | faultdisk.Flush, Path: isLog, At: 1 + e.random.IntN(10), Stall: true,
		}))
	}
}

// stallMax is more than an append waits for its batch alone before it looks at its
// context, and bounds a stall in which the caller itself is held by the disk.
const stallMax = 4 * time.Millisecond

// stall has an operation held until the impatient have given up.
func (e *historyEpoch) stall(held *faultdisk.Injected) {
	e.helpers.Go(func() {
		defer held.Remove()
		select {
		case <-held.Reached():
		case <-e.ctx.Done():
			return
		}
		bound := time.NewTimer(stallMax)
		defer bound.Stop()
		select {
		case <-e.impatience.giveUp():
		case <-bound.C:
		case <-e.ctx.Done():
		}
	})
}

// crash takes what a crash at this moment leaves. Whatever returns from here on
// returns to nobody.
func (e *historyEpoch) crash() {
	r := &e.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	r.over = true
	e.endedAt = r.tickLocked()
	e.leave(afterDeath)
	close(e.crashed)
}

// leave makes the image. After some failed flushes it is what the device holds,
// also when the process alone ended:
//
//   - of a directory: filesystems stop when they cannot write names, and what is
//     left is found when they are mounted the next time.
//   - where a file was cut: the cut bytes are still on the device, past the end
//     that the page cache shows, and nothing that reads the file finds them. Once
//     the file grew over them, the next power loss may.
func (e *historyEpoch) leave(ending historyEnding) {
	kind, failed := e.kind, e.disk.Counts().FailedSyncs > 0
	if failed && (e.dirsFail || e.cuts.Load()) {
		kind = simdisk.PowerLoss
	} else if ending == afterClose {
		kind = simdisk.ProcessDeath
	}
	e.image = e.disk.Crash(simdisk.CrashOptions{Kind: kind, Seed: e.seed + uint64(e.endedAt)})
	switch {
	case kind == simdisk.PowerLoss:
		e.ending = afterPowerLoss
	case e.disk.Counts().FailedSyncs > 0 && ending != afterClose:
		e.ending = afterFailure
	default:
		e.ending = ending
	}
}

// finish ends the epoch, if no crash has, and gives the disk it leaves.
func (e *historyEpoch) finish() *simdisk.Disk {
	if e.random.IntN(3) > 0 {
		e.crash()
	} else {
		e.close()
	}
	e.tearDown()
	return e.image
}

func (e *historyEpoch) close() {
	r := &e.recorder
	r.mu.Lock()
	over := r.over
	r.over = true
	at := r.tickLocked()
	r.mu.Unlock()
	if over {
		return
	}
	e.endedAt = at
	if err := e.store.Close(e.ctx); err != nil {
		// Either the log is poisoned, or durable.mark could not be written.
		e.leave(afterFailure)
		return
	}
	e.leave(afterClose)
}

// tearDown ends what an ended process leaves running here.
func (e *historyEpoch) tearDown() {
	e.disk.BeforeChange(nil)
	e.cancel()
	e.helpers.Wait()
	if e.store != nil {
		_ = e.store.Close(e.historyRun.ctx) // again, or of a process that is no more
	}
	if err := e.faults.Queue().Close(); err != nil {
		e.problem("%v", err)
	}
}

// poison tells that the log was poisoned, nil if it was not.
func (e *historyEpoch) poison() *historyOp {
	if e.log.Poisoned() == nil {
		return nil
	}
	return &historyOp{kind: opPoison, value: e.log.DurableOffset()}
}

// contents reads everything, as the only one who uses the log.
func (e *historyEpoch) contents() (*historyOp, error) {
	op := &historyOp{kind: opReopen, value: e.log.BaseOffset()}
	tail := e.log.TailOffset()
	for next := op.value; next < tail; next = op.value + uint64(len(op.records)) {
		got, err := e.log.ReadRange(e.ctx, next, 1<<20)
		if err != nil || len(got) == 0 {
			return nil, fmt.Errorf("a read at %d below the tail %d gave %d records, %v", next, tail, len(got), err)
		}
		e.recorder.mu.Lock()
		op.records = append(op.records, e.recorder.numbersLocked(next, got)...)
		e.recorder.mu.Unlock()
	}
	return op, nil
}

// liar has the disk say that bytes are durable when they are in the page cache,
// from the moment it is told to. It is honest about directories.
type liar struct{ armed atomic.Bool }

func (l *liar) over(q device.Queue) device.Queue { return &lyingQueue{q, l} }

type lyingQueue struct {
	device.Queue
	*liar
}

func (q *lyingQueue) Submit(ops ...*device.Op) {
	for _, op := range ops {
		if !q.armed.Load() || op.Kind != device.WriteDsync && op.Kind != device.Flush {
			q.Queue.Submit(op)
			continue
		}
		op.Prepare()
		if op.Kind == device.Flush {
			op.Complete(0, nil)
			continue
		}
		shadow := &device.Op{Kind: device.Write, File: op.File, Buf: op.Buf, Pos: op.Pos}
		q.Queue.Submit(shadow)
		go func() {
			err := shadow.Wait()
			op.Pieces = shadow.Pieces
			op.Complete(shadow.N, err)
		}()
	}
}
