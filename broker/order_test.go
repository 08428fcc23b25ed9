package broker_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"felix.local/felix/broker"
	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/fallback"
	"felix.local/felix/internal/faultdisk"
)

// seen is one record as somebody saw it.
type seen struct {
	offset uint64
	text   string
}

// orderRun is many publishers and subscribers on one shard.
type orderRun struct {
	t      *testing.T
	ctx    context.Context
	stream *broker.Stream
	// publishers publish perPublisher records each, in batches of 1 to 3.
	publishers, perPublisher int
	subscribers              int
}

// run publishes, and gives what each subscriber and each publisher saw.
func (r *orderRun) run() (subscribed [][]seen, acknowledged []seen) {
	total := r.publishers * r.perPublisher
	subscribed = make([][]seen, r.subscribers)
	var subscribers, publishers sync.WaitGroup
	for i := range r.subscribers {
		sub, err := r.stream.Subscribe(r.ctx, 0, broker.Earliest(), broker.SubscribeOptions{PageRecords: 1 + 7*i})
		if err != nil {
			r.t.Fatal(err)
		}
		subscribers.Go(func() {
			defer sub.Close()
			subscribed[i] = collect(r.t, r.ctx, sub, total)
		})
	}
	byPublisher := make([][]seen, r.publishers)
	for p := range r.publishers {
		publishers.Go(func() { byPublisher[p] = r.publish(p) })
	}
	publishers.Wait()
	subscribers.Wait()
	for _, acks := range byPublisher {
		acknowledged = append(acknowledged, acks...)
	}
	return subscribed, acknowledged
}

// publish checks at each acknowledgement that the record is in the view already:
// the order is append, replay ring and fan-out, acknowledgement.
func (r *orderRun) publish(p int) []seen {
	var acks []seen
	for sent := 0; sent < r.perPublisher; {
		n := min(1+sent%3, r.perPublisher-sent)
		messages := make([]broker.Message, n)
		for i := range messages {
			messages[i].Value = fmt.Appendf(nil, "%02d-%05d", p, sent+i)
		}
		got, err := r.stream.Publish(r.ctx, broker.Explicit(0), messages...)
		if err != nil {
			r.t.Error(err)
			return acks
		}
		if info, err := r.stream.Shard(0); err != nil || info.Next <= got.Last {
			r.t.Errorf("record %d is acknowledged and the view ends at %d (%v)", got.Last, info.Next, err)
		}
		for i := range messages {
			acks = append(acks, seen{got.First + uint64(i), string(messages[i].Value)})
		}
		sent += n
	}
	return acks
}

// collect takes a number of records from a subscription.
func collect(t *testing.T, ctx context.Context, sub *broker.Subscription, total int) []seen {
	var got []seen
	for len(got) < total {
		d, err := sub.Next(ctx)
		if err != nil {
			t.Errorf("after %d records: %v", len(got), err)
			return got
		}
		if d.Missed != nil {
			t.Errorf("missed %v", *d.Missed)
			return got
		}
		for _, record := range d.Records {
			got = append(got, seen{record.Offset, string(record.Value)})
		}
	}
	return got
}

// onDisk reads the whole shard page by page.
func (r *orderRun) onDisk() []seen {
	var got []seen
	for {
		page, err := r.stream.Read(r.ctx, 0, uint64(len(got)), 4096, 0)
		if err != nil {
			r.t.Fatal(err)
		}
		if len(page.Records) == 0 {
			return got
		}
		for _, record := range page.Records {
			got = append(got, seen{record.Offset, string(record.Value)})
		}
	}
}

// check holds everything that was seen against the order on disk.
func (r *orderRun) check(subscribed [][]seen, acknowledged, disk []seen) {
	r.t.Helper()
	if len(disk) != r.publishers*r.perPublisher || len(acknowledged) != len(disk) {
		r.t.Fatalf("%d records on disk and %d acknowledged, of %d published", len(disk), len(acknowledged), r.publishers*r.perPublisher)
	}
	for i, s := range disk {
		if s.offset != uint64(i) {
			r.t.Fatalf("record %d on disk has the offset %d", i, s.offset)
		}
	}
	for _, s := range acknowledged {
		if disk[s.offset] != s {
			r.t.Fatalf("offset %d was acknowledged as %q and is %q on disk", s.offset, s.text, disk[s.offset].text)
		}
	}
	last := make(map[string]string)
	for _, s := range disk {
		if publisher := s.text[:2]; s.text <= last[publisher] {
			r.t.Fatalf("%q comes after %q", s.text, last[publisher])
		} else {
			last[publisher] = s.text
		}
	}
	for n, records := range subscribed {
		for i := range disk {
			if i >= len(records) || records[i] != disk[i] {
				r.t.Fatalf("subscriber %d: record %d differs from the one on disk (%d records seen)", n, i, len(records))
			}
		}
	}
}

// onBackends runs a test on the ring and on the pool.
func onBackends(t *testing.T, test func(t *testing.T, cfg broker.Config)) {
	for name, mode := range map[string]engine.IOURingMode{"ring": engine.IOURingRequire, "pool": engine.IOURingOff} {
		t.Run(name, func(t *testing.T) {
			cfg := broker.Config{Root: t.TempDir(), Engine: engine.DefaultConfig(), RingRecords: 256}
			cfg.Engine.IOURing = mode
			cfg.Engine.SegmentBytes = 256 << 10
			test(t, cfg)
		})
	}
}

func openBroker(t testing.TB, cfg broker.Config) *broker.Broker {
	t.Helper()
	b, err := broker.Open(t.Context(), cfg)
	var refused *engine.BackendError
	if errors.As(err, &refused) {
		t.Skipf("no ring here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil && !errors.Is(err, engine.ErrClosed) {
			t.Errorf("closing: %v", err)
		}
	})
	return b
}

var orders = broker.StreamName{Tenant: "acme", Namespace: "default", Stream: "orders"}

func TestOneOrderOnDiskInReplayAndAtEverySubscriber(t *testing.T) {
	onBackends(t, func(t *testing.T, cfg broker.Config) {
		for _, mode := range []engine.FsyncMode{engine.FsyncOnCommit, engine.FsyncPeriodic, engine.FsyncNone} {
			t.Run(mode.String(), func(t *testing.T) {
				cfg := cfg
				cfg.Root = t.TempDir()
				b := openBroker(t, cfg)
				stream, _, err := b.CreateStream(t.Context(), orders, broker.StreamConfig{Durable: true, Fsync: &mode})
				if err != nil {
					t.Fatal(err)
				}
				r := &orderRun{t: t, ctx: t.Context(), stream: stream, publishers: 64, perPublisher: 100, subscribers: 8}
				subscribed, acknowledged := r.run()
				r.check(subscribed, acknowledged, r.onDisk())

				if err := b.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				again := openBroker(t, cfg)
				if r.stream, err = again.Stream(orders); err != nil {
					t.Fatal(err)
				}
				r.check(subscribed, acknowledged, r.onDisk())
			})
		}
	})
}

func TestTheOrderIsOneInAnInMemoryStream(t *testing.T) {
	b := openBroker(t, broker.Config{RingRecords: 1 << 20, SubscriberQueue: 1 << 20})
	stream, _, err := b.CreateStream(t.Context(), orders, broker.StreamConfig{})
	if err != nil {
		t.Fatal(err)
	}
	r := &orderRun{t: t, ctx: t.Context(), stream: stream, publishers: 64, perPublisher: 100, subscribers: 8}
	subscribed, acknowledged := r.run()
	r.check(subscribed, acknowledged, r.onDisk())
}

// slowQueue lets every durable write and flush take a while.
type slowQueue struct {
	device.Queue
	took atomic.Int64
}

func (q *slowQueue) Submit(ops ...*device.Op) {
	for _, op := range ops {
		if op.Kind == device.WriteDsync || op.Kind == device.Flush {
			q.took.Add(1)
			time.Sleep(2 * time.Millisecond) // the device's time
		}
	}
	q.Queue.Submit(ops...)
}

func TestTheOrderIsOneWithASlowFlush(t *testing.T) {
	slow := &slowQueue{Queue: fallback.Open(fallback.Options{})}
	t.Cleanup(func() { _ = slow.Close() })
	cfg := broker.Config{Root: t.TempDir(), Engine: engine.DefaultConfig(), RingRecords: 64}
	cfg.Engine.FsyncMode, cfg.Engine.Queue, cfg.Engine.SegmentBytes = engine.FsyncOnCommit, slow, 64<<10
	b := openBroker(t, cfg)
	stream, _, err := b.CreateStream(t.Context(), orders, broker.StreamConfig{Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	r := &orderRun{t: t, ctx: t.Context(), stream: stream, publishers: 64, perPublisher: 30, subscribers: 8}
	subscribed, acknowledged := r.run()
	r.check(subscribed, acknowledged, r.onDisk())
	if flushes := slow.took.Load(); flushes == 0 || flushes > 64*30/2 {
		t.Errorf("%d slow flushes for %d records: they are not shared", flushes, 64*30)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestNothingIsDeliveredOrAcknowledgedWhileItsFlushHangs(t *testing.T) {
	disk := faultdisk.New(device.OS(), fallback.Open(fallback.Options{}), faultdisk.Options{})
	t.Cleanup(func() { _ = disk.Queue().Close() })
	cfg := broker.Config{Root: t.TempDir(), Engine: engine.DefaultConfig()}
	cfg.Engine.FsyncMode = engine.FsyncOnCommit
	cfg.Engine.FS, cfg.Engine.Queue = disk.FS(), disk.Queue()
	b := openBroker(t, cfg)
	stream, _, err := b.CreateStream(t.Context(), orders, broker.StreamConfig{Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	sub, err := stream.Subscribe(t.Context(), 0, broker.Latest(), broker.SubscribeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	if _, err := stream.Publish(t.Context(), broker.Explicit(0), broker.Message{Value: []byte("first")}); err != nil {
		t.Fatal(err)
	}
	collect(t, t.Context(), sub, 1)

	slow := disk.Inject(faultdisk.Fault{Kinds: faultdisk.WriteDsync | faultdisk.Flush, Stall: true})
	type outcome struct {
		got broker.Published
		err error
	}
	published := make(chan outcome, 1)
	go func() {
		got, err := stream.Publish(context.Background(), broker.Explicit(0), broker.Message{Value: []byte("second")})
		published <- outcome{got, err}
	}()
	<-slow.Reached()
	hanging, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if d, err := sub.Next(hanging); err == nil {
		t.Errorf("delivered before it was durable: %v", d.Records)
	}
	if page, err := stream.Read(t.Context(), 0, 1, 1, 1); err != nil || len(page.Records) != 0 {
		t.Errorf("read before it was durable: %v, %v", page.Records, err)
	}
	select {
	case o := <-published:
		t.Errorf("acknowledged before it was durable: %+v", o)
	default:
	}
	slow.Release()
	if o := <-published; o.err != nil || o.got.First != 1 {
		t.Errorf("got %+v", o)
	}
	if got := collect(t, t.Context(), sub, 1); len(got) != 1 || got[0] != (seen{1, "second"}) {
		t.Errorf("delivered %v", got)
	}
}
