package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
)

// faultRun is one pass of the workload over a disk with a fault in it, with a
// model of what the log promised on the way. Problems are collected, so that a
// failure names the cell of the table and everything that went wrong in it.
type faultRun struct {
	*faultWorld
	ctx    context.Context
	store  *engine.Store
	log    *engine.Log
	step   string
	errs   []stepError
	faults []string
	// hit says whether the fault has hit; hitStep is the step in which it did.
	hit     func() bool
	hitStep string

	// mu lets a test take a copy of the model while the workload waits for the
	// disk.
	mu sync.Mutex
	// acked holds every acknowledged payload; base and next bound them. floor is
	// the lowest tail that recovery may come back with, durable the lowest one
	// if the page cache is lost.
	acked                      map[uint64][]byte
	base, next, floor, durable uint64
	// baseMax is the highest base that recovery may come back with: a failed
	// removal may have happened.
	baseMax  uint64
	attempts int
	// unknown are payloads of appends whose outcome is unknown, inFlight those of
	// the append under way.
	unknown, inFlight [][]byte
}

// stepError is an error that one step of the workload returned.
type stepError struct {
	step string
	err  error
}

func newFaultRun(ctx context.Context, w *faultWorld) *faultRun {
	return &faultRun{faultWorld: w, ctx: ctx, acked: make(map[uint64][]byte)}
}

func (r *faultRun) problem(format string, args ...any) {
	r.faults = append(r.faults, r.step+": "+fmt.Sprintf(format, args...))
}

// noted records a step's error and says whether there was one.
func (r *faultRun) noted(err error) bool {
	if err == nil {
		return false
	}
	r.errs = append(r.errs, stepError{r.step, err})
	return true
}

// workload rolls, batches, syncs, seals, truncates, trims, closes and opens
// again.
func (r *faultRun) workload() {
	if !r.openStore() {
		return
	}
	for _, step := range []func(){
		func() { r.append(1, 1, 1, 3) },
		r.sync,
		func() { r.append(1, 1, 1, 1, 2) },
		r.seal,
		func() { r.append(1, 1, 4, 1, 1, 1, 1, 1) },
		r.read,
		func() { r.truncate(r.next - min(r.next-r.base, 10)) },
		func() { r.append(1, 1, 3, 1, 1, 1) },
		r.retain,
		func() { r.append(1, 2) },
		r.sync,
	} {
		step()
		r.watchHit()
	}
	poisoned := r.poisoned()
	r.closeStore()
	if poisoned || len(r.errs) > 0 && r.errs[len(r.errs)-1].step == "close" {
		return // what the disk holds is for a fresh disk to tell
	}
	if r.openStore() {
		r.append(1)
		r.watchHit()
		r.closeStore()
	}
}

// watchHit notes the step in which the fault hit.
func (r *faultRun) watchHit() {
	if r.hitStep == "" && r.hit != nil && r.hit() {
		r.hitStep = r.step
	}
}

func (r *faultRun) openStore() bool {
	r.step = "open"
	store, log, err := r.faultWorld.open(r.ctx)
	r.watchHit()
	r.store, r.log = store, log
	if !r.noted(err) {
		if base, tail := log.BaseOffset(), log.TailOffset(); base != r.base || tail != r.next {
			r.problem("the log is [%d, %d), want [%d, %d)", base, tail, r.base, r.next)
		}
		return true
	}
	if store != nil {
		r.closeStore()
	}
	return false
}

func (r *faultRun) poisoned() bool { return r.log.Poisoned() != nil }

func (r *faultRun) change(model func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	model()
}

// append makes one append per size, each of that many records.
func (r *faultRun) append(sizes ...int) {
	for _, n := range sizes {
		r.step = "append"
		records := make([]engine.Record, n)
		var payloads [][]byte
		for i := range records {
			r.attempts++
			payloads = append(payloads, payload(uint64(r.attempts), 60+r.attempts%50))
			records[i].Payload = payloads[i]
		}
		r.change(func() { r.inFlight = payloads })
		got, err := r.log.Append(r.ctx, records...)
		if r.noted(err) {
			if r.poisoned() {
				r.unknown = append(r.unknown, payloads...)
			}
			continue
		}
		if got.First != r.next || got.Last != r.next+uint64(n)-1 {
			r.problem("append of %d got %v, want %d", n, got, r.next)
		}
		r.change(func() {
			for _, p := range payloads {
				r.acked[r.next] = p
				r.next++
			}
			r.floor, r.inFlight = r.next, nil
		})
		if r.cfg.FsyncMode == engine.FsyncOnCommit {
			r.promise()
		}
	}
}

// promise checks that everything acknowledged up to now would survive a power
// cut.
func (r *faultRun) promise() {
	r.durable = r.next
	if d := r.log.DurableOffset(); d != r.next {
		r.problem("durable is %d, want %d", d, r.next)
	}
	if lost := durableState(r.disk.Log(faultdisk.All)).segments(r.log.Dir(), r.log.Segments()); lost != "" {
		r.problem("acknowledged, but %s", lost)
	}
}

func (r *faultRun) sync() {
	r.step = "sync"
	if !r.noted(r.log.Sync(r.ctx)) {
		r.promise()
	}
}

func (r *faultRun) seal() {
	r.step = "seal"
	sealed, err := r.log.Seal(r.ctx)
	if r.noted(err) {
		return
	}
	if sealed.Descriptor.NextOffset != r.next {
		r.problem("sealed %+v at %d", sealed, r.next)
	}
	r.promise()
}

func (r *faultRun) truncate(offset uint64) {
	r.step = "truncate"
	before := r.floor
	r.change(func() { r.floor = min(r.floor, offset) })
	if r.noted(r.log.Truncate(r.ctx, offset)) {
		if r.poisoned() {
			r.durable = min(r.durable, offset)
		} else {
			r.floor = before
		}
		return
	}
	r.change(func() {
		for o := offset; o < r.next; o++ {
			delete(r.acked, o)
		}
		r.next = offset
	})
	r.promise()
}

func (r *faultRun) retain() {
	r.step = "retention"
	_, err := r.log.EnforceRetention(r.ctx)
	base := r.log.BaseOffset()
	if r.noted(err) {
		r.baseMax = r.next
		if r.poisoned() {
			return
		}
	}
	r.base = base
	r.baseMax = max(r.baseMax, base)
}

// read checks that the log reads back as promised, and no further than its tail.
func (r *faultRun) read() {
	r.step = "read"
	poisoned, found := r.poisoned(), len(r.faults)
	defer func() {
		if r.poisoned() != poisoned {
			// A seal in the background failed meanwhile and moved the tail.
			r.faults = r.faults[:found]
			r.read()
		}
	}()
	tail := r.log.TailOffset()
	want := r.next
	if r.poisoned() {
		want = r.log.DurableOffset()
	}
	if tail != want || tail > r.next {
		r.problem("the tail is %d, want %d of %d", tail, want, r.next)
	}
	next := r.log.BaseOffset()
	for {
		records, err := r.log.ReadRange(r.ctx, next, 1000)
		if err != nil {
			r.problem("reading at %d of %d: %v", next, tail, err)
			return
		}
		if len(records) == 0 {
			break
		}
		for _, record := range records {
			if record.Offset != next || !bytes.Equal(record.Payload, r.acked[next]) {
				r.problem("record %d reads back as %d, differently", next, record.Offset)
			}
			next++
		}
	}
	if next != tail {
		r.problem("reads end at %d, the tail is %d", next, tail)
	}
}

// closeStore closes everything; nothing may stay open, whatever happened.
func (r *faultRun) closeStore() {
	if r.log != nil && r.poisoned() {
		r.refusesAll()
		r.read()
	}
	r.step = "close"
	r.noted(r.store.Close(r.ctx))
	r.watchHit()
	if n := r.store.Stats().StagedBytes; n != 0 {
		r.problem("%d staged bytes are still reserved", n)
	}
	if n := r.fs.open.Load(); n != 0 {
		r.problem("%d files are still open", n)
	}
	r.store, r.log = nil, nil
}

// segmentOps counts writes and flushes of segments.
func (r *faultRun) segmentOps() (n int) {
	for _, e := range r.disk.Log(faultdisk.Flushes | faultdisk.Writes) {
		if isLog(e.Path) {
			n++
		}
	}
	return n
}

// refusesAll checks that a poisoned log promises nothing more.
func (r *faultRun) refusesAll() {
	r.step = "poisoned"
	before := r.segmentOps()
	_, appended := r.log.Append(r.ctx, engine.Record{Payload: []byte("x")})
	_, sealed := r.log.Seal(r.ctx)
	_, retained := r.log.EnforceRetention(r.ctx)
	for what, err := range map[string]error{
		"append": appended, "seal": sealed, "retention": retained,
		"sync": r.log.Sync(r.ctx), "truncate": r.log.Truncate(r.ctx, 0),
	} {
		if !errors.Is(err, engine.ErrPoisoned) {
			r.problem("%s of a poisoned log: %v", what, err)
		}
	}
	background := r.cfg.RolloverThresholdPercent < 100
	if n := r.segmentOps() - before; n != 0 && !background {
		r.problem("a poisoned log wrote or flushed %d times", n)
	}
}

// verify opens the directory on a healthy disk and compares it with the model.
// lostCache says that bytes which no flush covered may be gone.
func (r *faultRun) verify(pool device.Queue, lostCache bool) {
	r.step = "verify"
	cfg := r.cfg
	cfg.FS, cfg.Queue = device.OS(), pool
	for range 2 {
		store, err := engine.OpenStore(r.ctx, r.root, cfg)
		if err != nil {
			r.problem("the store does not open again: %v", err)
			return
		}
		r.compare(store, lostCache)
		if err := store.Close(r.ctx); err != nil {
			r.problem("closing: %v", err)
		}
		if len(r.faults) > 0 {
			return
		}
	}
}

func (r *faultRun) compare(store *engine.Store, lostCache bool) {
	log, err := store.OpenLog(r.ctx, testKey(0))
	if err != nil {
		r.problem("the log does not open again: %v", err)
		return
	}
	floor := r.floor
	if lostCache {
		floor = r.durable
	}
	base, tail := log.BaseOffset(), log.TailOffset()
	if base < r.base && r.baseMax == r.base || base > r.baseMax || tail < floor {
		r.problem("recovered [%d, %d), want [%d to %d, at least %d)", base, tail, r.base, r.baseMax, floor)
		return
	}
	if tail > r.next && len(r.unknown) == 0 {
		r.problem("recovered through %d, only %d were ever appended", tail, r.next)
	}
	for next := base; next < tail; {
		records, err := log.ReadRange(r.ctx, next, 4096)
		if err != nil || len(records) == 0 {
			r.problem("reading at %d of %d: %d records, %v", next, tail, len(records), err)
			return
		}
		for _, record := range records {
			if record.Offset != next || !r.mayBe(next, record.Payload) {
				r.problem("record %d came back as %d, differently", next, record.Offset)
			}
			next++
		}
	}
	// And the log goes on.
	got, err := log.Append(r.ctx, engine.Record{Payload: []byte("more")})
	if err != nil || got.First != tail {
		r.problem("append after recovery: %v %v, want %d", got, err, tail)
		return
	}
	for o := tail; o < r.next; o++ {
		delete(r.acked, o)
	}
	for o := r.next; o < tail; o++ {
		r.acked[o] = nil // of unknown outcome, and there
	}
	r.acked[tail] = []byte("more")
	r.base, r.baseMax, r.next, r.floor, r.durable = base, base, tail+1, tail+1, 0
}

// mayBe says whether a record is what was acknowledged, or, past that, one whose
// outcome nobody knows.
func (r *faultRun) mayBe(offset uint64, payload []byte) bool {
	if want, ok := r.acked[offset]; ok && want != nil {
		return bytes.Equal(payload, want)
	}
	for _, p := range r.unknown {
		if bytes.Equal(payload, p) {
			return true
		}
	}
	return false
}
