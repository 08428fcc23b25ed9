package engine_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/segment"
)

const (
	stallRecord = 1000    // payload bytes
	stallPerLog = 8 << 10 // staging bytes
	stallStore  = 12 << 10
)

// stalled is a log whose device hangs, beside another on the same store whose
// operations do not.
type stalled struct {
	*rig
	queue *hangingQueue
	other *engine.Log
	mode  engine.FsyncMode
	// handles are the appends that were staged, in order.
	handles []engine.Pending
	since   time.Time // hanging
}

// eachStall runs a test on a ring and on a pool, with what each mode waits for
// hanging: the durable writes, or the flushes.
func eachStall(t *testing.T, test func(s *stalled)) {
	for _, backend := range []engine.IOURingMode{engine.IOURingRequire, engine.IOURingOff} {
		t.Run(backendName(backend), func(t *testing.T) {
			eachMode(t, func(t *testing.T, choose func(*engine.Config)) {
				s := newStalled(t, backend, choose)
				s.queue.hang(opsOn(s.log, device.WriteDsync, device.Flush))
				test(s)
			})
		})
	}
}

// newStalled opens both logs, the first with one durable record; nothing hangs
// yet.
func newStalled(t *testing.T, backend engine.IOURingMode, choose func(*engine.Config)) *stalled {
	t.Helper()
	q := newHangingQueue(t, backend)
	s := &stalled{queue: q}
	s.rig = newRig(t, choose, func(c *engine.Config) {
		c.Queue, s.mode = q, c.FsyncMode
		c.StagedBytesPerLogMax, c.StagedBytesMax = stallPerLog, stallStore
		c.FsyncInterval = time.Millisecond
	})
	t.Cleanup(q.release) // before the store is closed
	var err error
	if s.other, err = s.store.OpenLog(s.ctx, testKey(1)); err != nil {
		t.Fatal(err)
	}
	s.appendSizes(stallRecord)
	if err := s.log.Sync(s.ctx); err != nil {
		t.Fatal(err)
	}
	return s
}

// fill appends until there is no staging memory left, and no append can complete
// before the device comes back.
func (s *stalled) fill() {
	s.Helper()
	for s.ctx.Err() == nil && len(s.handles) < 100 {
		ctx, cancel := context.WithCancel(s.ctx)
		p := newPatience(ctx)
		got := make(chan error, 1)
		go func() {
			next := 1 + len(s.handles)
			handle, err := s.log.AppendAsync(p, engine.Record{Payload: payload(uint64(next), stallRecord)})
			if err == nil {
				s.handles = append(s.handles, handle)
			}
			got <- err
		}()
		select {
		case err := <-got:
			if err != nil {
				s.Fatal(err)
			}
			cancel()
			continue
		case <-p.waiting:
		}
		cancel()
		if err := <-got; err != nil {
			s.refused(err)
			if s.stuck() {
				return
			}
		}
	}
	s.Fatalf("%d appends are staged: %v", len(s.handles), s.ctx.Err())
}

// stuck says that all staging memory is taken by appends that only the hanging
// device can complete.
func (s *stalled) stuck() bool {
	select {
	case <-s.queue.reached:
	default:
		return false
	}
	if s.since.IsZero() {
		s.since = time.Now()
	}
	size := int64(segment.EncodedSize(segment.Mark{}, stallRecord))
	segments := s.log.Segments()
	if s.mode != engine.FsyncOnCommit && segments[len(segments)-1].Size+size <= s.cfg.SegmentBytes {
		return false // what is written into the page cache has yet to reach the roll
	}
	under := int64(0)
	for _, handle := range s.handles {
		if !isDone(handle) {
			under++
		}
	}
	return s.store.Stats().StagedBytes == under*size && under == stallPerLog/size
}

func (s *stalled) refused(err error) {
	s.Helper()
	full := errorAs[*engine.BackPressureError](s, err)
	if full.Bound != "StagedBytesPerLogMax" || full.Max != stallPerLog || !errors.Is(err, context.Canceled) {
		s.Errorf("refused with %v", err)
	}
}

// While a device hangs appends are staged up to a bound and refused past it when
// their context ends. What was refused leaves nothing behind.
func TestAppendsMeetBackPressureAndABoundInMemoryWhileTheDeviceHangs(t *testing.T) {
	eachStall(t, func(s *stalled) {
		s.fill()
		before, goroutines := s.store.Stats(), runtime.NumGoroutine()
		if before.StagedBytes > stallPerLog || before.StagedBytes < stallPerLog/2 {
			s.Errorf("%d bytes are staged of %d", before.StagedBytes, stallPerLog)
		}
		// Every batch's buffer is rounded up, to at most twice and a page, and
		// comes from a slab of its size.
		if before.StagedMappedBytes > 4<<20 {
			s.Errorf("%d bytes are mapped for %d", before.StagedMappedBytes, stallPerLog)
		}
		if unsynced := s.log.UnsyncedBytes(); unsynced > s.cfg.SegmentBytes {
			s.Errorf("%d bytes wait for a flush in segments of %d", unsynced, s.cfg.SegmentBytes)
		}
		const rounds, each = 4, 64
		for range rounds {
			ctx, cancel := context.WithCancel(s.ctx)
			refused := make(chan error, each)
			for i := range each {
				p := newPatience(ctx)
				go func() {
					var err error
					if record := (engine.Record{Payload: make([]byte, stallRecord)}); i%2 == 0 {
						_, err = s.log.Append(p, record)
					} else {
						_, err = s.log.AppendAsync(p, record)
					}
					refused <- err
				}()
				select {
				case <-p.waiting:
				case err := <-refused:
					s.Fatalf("an append did not wait: %v", err)
				}
			}
			cancel()
			for range each {
				s.refused(<-refused)
			}
			after := s.store.Stats()
			if after.StagedBytes != before.StagedBytes || after.StagedMappedBytes != before.StagedMappedBytes {
				s.Errorf("%d appends were refused, and staged are %d bytes, were %d; mapped %d, were %d",
					each, after.StagedBytes, before.StagedBytes, after.StagedMappedBytes, before.StagedMappedBytes)
			}
		}
		// Workers and timers come and go; a goroutine for each that was refused
		// would be a multiple.
		for soon := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > goroutines+each/2 && time.Now().Before(soon); {
			runtime.Gosched()
		}
		if n := runtime.NumGoroutine(); n > goroutines+each/2 {
			s.Errorf("%d goroutines, were %d before %d appends were refused", n, goroutines, rounds*each)
		}
		s.comeBack()
	})
}

// The bound over all logs is met by a log that is below its own.
func TestTheStoresBoundOnStagedBytesHoldsWhileTheDeviceHangsForTwoLogs(t *testing.T) {
	onBoth(t, func(t *testing.T, choose func(*engine.Config)) {
		var c engine.Config
		choose(&c)
		s := newStalled(t, c.IOURing, func(c *engine.Config) { c.FsyncMode = engine.FsyncOnCommit })
		first, second := opsOn(s.log, device.WriteDsync), opsOn(s.other, device.WriteDsync)
		s.queue.hang(func(op *device.Op) bool { return first(op) || second(op) })
		s.fill()
		var handles []engine.Pending
		for len(handles) < 100 {
			ctx, cancel := context.WithCancel(s.ctx)
			p := newPatience(ctx)
			got := make(chan error, 1)
			go func() {
				handle, err := s.other.AppendAsync(p, engine.Record{Payload: make([]byte, stallRecord)})
				if err == nil {
					handles = append(handles, handle)
				}
				got <- err
			}()
			var err error
			select {
			case err = <-got:
			case <-p.waiting:
				cancel()
				err = <-got
			}
			cancel()
			if staged := s.store.Stats().StagedBytes; staged > stallStore {
				t.Fatalf("%d bytes are staged of %d", staged, stallStore)
			}
			if err != nil {
				full := errorAs[*engine.BackPressureError](t, err)
				if full.Bound != "StagedBytesMax" || full.Max != stallStore || !errors.Is(err, context.Canceled) {
					t.Errorf("refused with %v", err)
				}
				break
			}
		}
		if n := len(handles); n == 0 || n == 100 {
			t.Errorf("%d appends of the second log are staged", n)
		}
		s.queue.release()
		for _, handle := range handles {
			if _, err := handle.Wait(s.ctx); err != nil {
				t.Error(err)
			}
		}
		// What was refused gave back all that it had reserved: there is room for
		// an append that takes everything the log may have.
		ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
		defer cancel()
		if _, err := s.other.Append(ctx, engine.Record{Payload: make([]byte, stallPerLog)}); err != nil {
			t.Error(err)
		}
		s.comeBack()
	})
}

// The other log's durable writes, flushes and rolls need the same ring, pool and
// staging memory.
func TestAnotherLogGoesOnWhileTheDeviceHangsForOne(t *testing.T) {
	eachStall(t, func(s *stalled) {
		s.fill()
		ctx, cancel := context.WithTimeout(s.ctx, 20*time.Second)
		defer cancel()
		const n = 50
		for range n {
			got, err := s.other.Append(ctx, engine.Record{Payload: make([]byte, 300)})
			if err == nil && s.mode == engine.FsyncPeriodic {
				err = s.other.WaitDurable(ctx, got.Last)
			}
			if err != nil {
				s.Fatalf("record %v: %v", got, err)
			}
		}
		if _, err := s.other.Seal(ctx); err != nil {
			s.Error(err)
		}
		if err := s.other.Sync(ctx); err != nil {
			s.Error(err)
		}
		if got := len(readAll(s, ctx, s.other)); got != n || s.other.DurableOffset() != n {
			s.Errorf("%d records of %d, durable %d", got, n, s.other.DurableOffset())
		}
		if err := s.other.Close(ctx); err != nil {
			s.Error(err)
		}
		s.stillHanging()
		s.comeBack()
	})
}

// stillHanging checks that nothing was promised over what hangs, and that the
// statistics say so.
func (s *stalled) stillHanging() {
	s.Helper()
	if durable := s.log.DurableOffset(); durable != 1 {
		s.Errorf("durable is %d while the device hangs", durable)
	}
	for what, err := range map[string]error{
		"WaitDurable": s.log.WaitDurable(expired(), 1), "Sync": s.log.Sync(expired()),
	} {
		// Under on_commit nothing is written that Sync could have to flush.
		if promised := err == nil; promised && (what != "Sync" || s.mode != engine.FsyncOnCommit) {
			s.Errorf("%s succeeded while the device hangs", what)
		} else if !promised && !errors.Is(err, context.Canceled) {
			s.Errorf("%s: %v", what, err)
		}
	}
	tail := s.log.TailOffset()
	if s.mode == engine.FsyncOnCommit && tail != 1 {
		s.Errorf("readers see %d records while the device hangs", tail)
	}
	for _, handle := range s.handles {
		if first := handle.Offsets().First; isDone(handle) && first >= tail {
			s.Errorf("offset %d was acknowledged, the tail is %d", first, tail)
		}
	}
	for range 2 {
		hanging := time.Since(s.since)
		if stats := s.store.Stats(); stats.OldestOpAge() < hanging || stats.Queue.InFlight == 0 {
			s.Errorf("the oldest operation is said to be %v old, it has been hanging for %v; %d in flight",
				stats.OldestOpAge(), hanging, stats.Queue.InFlight)
		}
	}
}

// comeBack lets the device go on: everything that was staged is acknowledged, in
// order, and is there.
func (s *stalled) comeBack() {
	s.Helper()
	s.queue.release()
	last := len(s.handles) - 1
	if _, err := s.handles[last].Wait(s.ctx); err != nil {
		s.Error(err)
	}
	for i, handle := range s.handles {
		if !isDone(handle) {
			s.Fatalf("append %d completed after append %d", i, last)
		}
		if got, err := handle.Wait(s.ctx); err != nil || got.First != uint64(i)+1 {
			s.Errorf("append %d got %v, %v", i, got, err)
		}
	}
	if err := s.log.Sync(s.ctx); err != nil && !errors.Is(err, engine.ErrClosed) {
		s.Error(err)
	}
	if err := s.store.Close(s.ctx); err != nil {
		s.Error(err)
	}
	s.open()
	if tail, want := s.log.TailOffset(), uint64(1+len(s.handles)); tail != want {
		s.Errorf("%d records, %d were acknowledged", tail, want)
	}
	s.checkPayloads(func(offset uint64) int { return stallRecord })
}

func isDone(handle engine.Pending) bool {
	select {
	case <-handle.Done():
		return true
	default:
		return false
	}
}

// A shutdown whose time is up returns; it has acknowledged nothing, and takes
// nothing away from what is under way.
func TestClosingAStoreWhileItsDeviceHangsEndsWithItsContextAndAcknowledgesNothing(t *testing.T) {
	eachStall(t, func(s *stalled) {
		s.fill()
		for range 2 {
			ctx, cancel := context.WithTimeout(s.ctx, 10*time.Millisecond)
			err := s.store.Close(ctx)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "not flushed") {
				s.Errorf("closing: %v", err)
			}
			s.stillHanging()
		}
		if _, err := s.log.Append(s.ctx, engine.Record{}); !errors.Is(err, engine.ErrClosed) {
			s.Errorf("an append after it: %v", err)
		}
		s.comeBack()
	})
}
