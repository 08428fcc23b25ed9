package broker_test

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"felix.local/felix/broker"
	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/fallback"
	"felix.local/felix/internal/faultdisk"
)

// eachMode runs a test under every fsync mode.
func eachMode(t *testing.T, test func(t *testing.T, mode engine.FsyncMode)) {
	for _, mode := range []engine.FsyncMode{engine.FsyncNone, engine.FsyncPeriodic, engine.FsyncOnCommit} {
		t.Run(mode.String(), func(t *testing.T) { test(t, mode) })
	}
}

// ofShard matches the segments of one shard of the stream "s".
func ofShard(shard int) func(path string) bool {
	dir := engine.ShardKey{Tenant: "t", Namespace: "n", Stream: "s", Shard: uint32(shard)}.DirName()
	return func(path string) bool { return filepath.Base(filepath.Dir(path)) == dir && isLog(path) }
}

// One of eight shards loses its k-th flush while it is published to.
func TestAShardThatIsPoisonedIsTheOnlyOneThatStops(t *testing.T) {
	eachMode(t, func(t *testing.T, mode engine.FsyncMode) {
		for _, k := range []int{1, 2, 5} {
			t.Run(fmt.Sprintf("flush %d", k), func(t *testing.T) { poisonOneOfEight(t, mode, k) })
		}
	})
}

func poisonOneOfEight(t *testing.T, mode engine.FsyncMode, k int) {
	const shards, bad = 8, 5
	disk, set := faulty(t)
	r := newRig(t, set, tinyRing, func(c *broker.Config) { c.Engine.FsyncInterval = time.Millisecond })
	s := r.create(name("s"), broker.StreamConfig{Durable: true, Shards: shards, Fsync: &mode})
	fault := faultdisk.Fault{Kinds: faultdisk.Flush | faultdisk.WriteDsync, At: k, Errno: syscall.EIO, Path: ofShard(bad)}
	disk.Inject(fault)
	late := r.subscribe(s, bad, broker.Earliest(), broker.SubscribeOptions{PageRecords: 3})
	live := r.subscribe(s, bad, broker.Latest(), broker.SubscribeOptions{})
	received := make(chan error, 1)
	var seen atomic.Uint64
	go func() {
		received <- func() error {
			for at := uint64(0); ; {
				d, err := live.Next(r.ctx)
				if err != nil {
					return err
				}
				for _, record := range d.Records {
					if record.Offset != at || string(record.Value) != numbered(at) {
						return fmt.Errorf("at %d: %d %q", at, record.Offset, record.Value)
					}
					at++
				}
				seen.Store(at)
			}
		}()
	}()

	// Everything is published one by one until the flush fails. Under none, only
	// rolls flush.
	acknowledged := uint64(0)
	var failed error
	for !errors.Is(failed, engine.ErrPoisoned) && r.ctx.Err() == nil {
		_, failed = s.Publish(r.ctx, broker.Explicit(bad), messages(numbered(acknowledged))...)
		switch {
		case failed == nil:
			acknowledged++
		case !errors.Is(failed, engine.ErrPoisoned):
			// It hit the header of a segment that is made anew; the one after that
			// is a commit.
			fault.At = 2
			disk.Inject(fault)
		}
	}
	isPoisoned := func(what string, err error) {
		t.Helper()
		e := errorAs[*broker.UnavailableError](t, err)
		if e.Shard != bad || e.State != broker.StatePoisoned || !errors.Is(err, engine.ErrPoisoned) || !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: %v", what, err)
		}
	}
	isPoisoned("publish", failed)
	isPoisoned("the live subscription", <-received)
	_, again := s.Publish(r.ctx, broker.Explicit(bad), messages("again")...)
	isPoisoned("publish again", again)
	_, deleted := s.DeleteRecords(r.ctx, bad, 1)
	isPoisoned("DeleteRecords", deleted)

	// Reads end at the durable bound, and a subscription gets all up to it before
	// it is told.
	info := r.info(s, bad)
	if info.State != broker.StatePoisoned || !errors.Is(info.Reason, engine.ErrPoisoned) || info.Next != info.Durable || info.Next > acknowledged {
		t.Errorf("%d acknowledged, %+v", acknowledged, info)
	}
	if mode == engine.FsyncOnCommit && (info.Next != acknowledged || seen.Load() != acknowledged) {
		t.Errorf("%d acknowledged, %d delivered live, and reads end at %d", acknowledged, seen.Load(), info.Next)
	}
	want := make([]string, info.Next)
	for i := range want {
		want[i] = numbered(uint64(i))
	}
	if info.Next > 0 {
		r.wantTexts(s, bad, 0, want...)
		r.wantNumbered(late, 0, info.Next)
	}
	_, ended := late.Next(r.ctx)
	isPoisoned("the late subscription", ended)
	fresh, err := s.Subscribe(r.ctx, bad, broker.Latest(), broker.SubscribeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, ended = fresh.Next(r.ctx)
	isPoisoned("a subscription made afterwards", ended)
	fresh.Close()

	for shard := range shards {
		if shard != bad {
			r.fill(s, shard, 3)
			r.wantTexts(s, shard, 0, numbered(0), numbered(1), numbered(2))
		}
	}
	health := r.b.Health()
	if !health.Ready || len(health.Unavailable) != 1 {
		t.Fatalf("%+v", health)
	}
	if u := health.Unavailable[0]; u.Stream != name("s") || u.Shard != bad || u.State != broker.StatePoisoned || !strings.Contains(u.Reason, "input/output error") {
		t.Errorf("%+v", u)
	}
	if stats := r.b.Stats(); stats.PoisonedShards != 1 || stats.RefusedShards != 0 || stats.Shards != shards {
		t.Errorf("%+v", stats)
	}

	// Closing says so; the next start reads what is there.
	late.Close()
	live.Close()
	if err := r.b.Close(r.ctx); !errors.Is(err, engine.ErrPoisoned) {
		t.Errorf("closing says %v", err)
	}
	r.b = nil
	r.open()
	s = r.stream(name("s"))
	if after := r.info(s, bad); after.State != broker.StateServing || after.Next < info.Next {
		t.Errorf("after a restart there is %+v, and %d were durable", after, info.Next)
	}
	r.fill(s, bad, r.info(s, bad).Next+1)
}

func TestWhenNoDurableShardServesTheBrokerIsNotReady(t *testing.T) {
	disk, set := faulty(t)
	r := newRig(t, set)
	if h := r.b.Health(); !h.Ready {
		t.Errorf("without a stream: %+v", h)
	}
	s := r.create(name("s"), broker.StreamConfig{Durable: true, Shards: 2})
	r.create(name("m"), broker.StreamConfig{})
	disk.Inject(faultdisk.Fault{Kinds: faultdisk.WriteDsync, Times: faultdisk.Forever, Errno: syscall.EIO, Path: isLog})
	for shard := range 2 {
		if h := r.b.Health(); !h.Ready || len(h.Unavailable) != shard {
			t.Errorf("with %d poisoned: %+v", shard, h)
		}
		if _, err := s.Publish(r.ctx, broker.Explicit(shard), messages("x")...); !errors.Is(err, engine.ErrPoisoned) {
			t.Fatal(err)
		}
	}
	if h := r.b.Health(); h.Ready || h.Reason == "" || len(h.Unavailable) != 2 {
		t.Errorf("%+v", h)
	}
}

// breakable is a queue that breaks on command, as a ring does.
type breakable struct {
	device.Queue
	broken atomic.Bool
}

func (q *breakable) Submit(ops ...*device.Op) {
	if !q.broken.Load() {
		q.Queue.Submit(ops...)
		return
	}
	for _, op := range ops {
		op.Prepare()
		go op.Complete(0, &device.Error{Op: op.Kind.String(), Path: op.File.Name(), Pos: -1, Class: device.ClassOutcomeUnknown, Err: io.ErrUnexpectedEOF})
	}
}

func (q *breakable) Stats() device.QueueStats {
	s := q.Queue.Stats()
	if q.broken.Load() {
		s.Lost = io.ErrUnexpectedEOF
	}
	return s
}

func TestALostRingIsNotReadyAndPoisonsAll(t *testing.T) {
	pool := fallback.Open(fallback.Options{})
	t.Cleanup(func() { _ = pool.Close() })
	q := &breakable{Queue: pool}
	r := newRig(t, func(c *broker.Config) { c.Engine.Queue = q })
	s := r.create(name("s"), broker.StreamConfig{Durable: true, Shards: 3})
	for shard := range 3 {
		r.fill(s, shard, 2)
	}
	waiting := r.subscribe(s, 2, broker.Latest(), broker.SubscribeOptions{})
	q.broken.Store(true)
	_, err := s.Publish(r.ctx, broker.Explicit(0), messages("unknown")...)
	if errorAs[*broker.UnavailableError](t, err); !errors.Is(err, device.ErrOutcomeUnknown) {
		t.Error(err)
	}
	// The others learn of it without being published to.
	_, err = waiting.Next(r.ctx)
	if errorAs[*broker.UnavailableError](t, err); !errors.Is(err, device.ErrOutcomeUnknown) {
		t.Error(err)
	}
	if h := r.b.Health(); h.Ready || !strings.Contains(h.Reason, "lost") {
		t.Errorf("%+v", h)
	}
	for shard := range 3 {
		r.wantTexts(s, shard, 0, numbered(0), numbered(1))
	}
	var lost *engine.BackendLostError
	if err := r.b.Close(r.ctx); !errors.As(err, &lost) {
		t.Errorf("closing says %v", err)
	}
	r.b = nil
}
