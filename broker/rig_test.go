package broker_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"felix.local/felix/broker"
	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/fallback"
	"felix.local/felix/internal/faultdisk"
)

// rig is a broker that is opened as often as a test likes.
type rig struct {
	testing.TB
	ctx context.Context
	cfg broker.Config
	b   *broker.Broker
}

// quietEngine has small segments, no guard against a full disk, and says nothing.
func quietEngine() engine.Config {
	c := engine.DefaultConfig()
	c.FsyncMode = engine.FsyncOnCommit
	c.SegmentBytes = 4096
	c.IndexSpacingBytes = 512
	c.MinFreeBytes, c.MinFreeInodes = 0, 0
	c.RetentionInterval = time.Hour
	c.Logger = slog.New(slog.DiscardHandler)
	return c
}

func newRig(t testing.TB, change ...func(*broker.Config)) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	r := &rig{TB: t, ctx: ctx, cfg: broker.Config{Root: t.TempDir(), Engine: quietEngine(), Logger: slog.New(slog.DiscardHandler)}}
	for _, f := range change {
		f(&r.cfg)
	}
	r.open()
	t.Cleanup(func() {
		if r.b != nil {
			_ = r.b.Close(context.Background()) // tests that care close it themselves
		}
	})
	return r
}

// inMemory is a broker without a root.
func inMemory(c *broker.Config) { c.Root, c.Engine = "", engine.Config{} }

// unflushed has appends acknowledged without a flush, for tests that take many.
func unflushed(c *broker.Config) { c.Engine.FsyncMode = engine.FsyncNone }

func (r *rig) open() {
	r.Helper()
	b, err := broker.Open(r.ctx, r.cfg)
	if err != nil {
		r.Fatal(err)
	}
	r.b = b
}

func (r *rig) reopen() {
	r.Helper()
	if err := r.b.Close(r.ctx); err != nil {
		r.Fatal(err)
	}
	r.b = nil
	r.open()
}

func name(stream string) broker.StreamName {
	return broker.StreamName{Tenant: "t", Namespace: "n", Stream: stream}
}

func (r *rig) create(n broker.StreamName, cfg broker.StreamConfig) *broker.Stream {
	r.Helper()
	s, created, err := r.b.CreateStream(r.ctx, n, cfg)
	if err != nil || !created {
		r.Fatalf("creating %v: created %v, %v", n, created, err)
	}
	return s
}

func (r *rig) stream(n broker.StreamName) *broker.Stream {
	r.Helper()
	s, err := r.b.Stream(n)
	if err != nil {
		r.Fatal(err)
	}
	return s
}

// publish publishes one record for each text to one shard.
func (r *rig) publish(s *broker.Stream, shard int, texts ...string) broker.Published {
	r.Helper()
	p, err := s.Publish(r.ctx, broker.Explicit(shard), messages(texts...)...)
	if err != nil {
		r.Fatal(err)
	}
	return p
}

func messages(texts ...string) []broker.Message {
	list := make([]broker.Message, len(texts))
	for i, text := range texts {
		list[i].Value = []byte(text)
	}
	return list
}

// numbered is the text of the record at an offset.
func numbered(offset uint64) string { return fmt.Sprintf("record %d", offset) }

// fill publishes records until the shard's next offset is next, each with the text
// that numbered gives.
func (r *rig) fill(s *broker.Stream, shard int, next uint64) {
	r.Helper()
	info, err := s.Shard(shard)
	if err != nil {
		r.Fatal(err)
	}
	for at := info.Next; at < next; {
		texts := make([]string, 0, 64)
		for ; at < next && len(texts) < cap(texts); at++ {
			texts = append(texts, numbered(at))
		}
		r.publish(s, shard, texts...)
	}
}

func (r *rig) read(s *broker.Stream, shard int, from uint64) broker.Page {
	r.Helper()
	p, err := s.Read(r.ctx, shard, from, 1<<20, 0)
	if err != nil {
		r.Fatal(err)
	}
	return p
}

// wantTexts checks everything that a shard holds from an offset on.
func (r *rig) wantTexts(s *broker.Stream, shard int, from uint64, texts ...string) {
	r.Helper()
	var got []string
	for at := from; ; {
		p := r.read(s, shard, at)
		if len(p.Records) == 0 {
			break
		}
		for _, record := range p.Records {
			if record.Offset != at {
				r.Fatalf("record %d where %d belongs", record.Offset, at)
			}
			got = append(got, string(record.Value))
			at++
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(texts) {
		r.Errorf("shard %d of %v holds %q from %d on, want %q", shard, s.Name(), got, from, texts)
	}
}

func (r *rig) info(s *broker.Stream, shard int) broker.ShardInfo {
	r.Helper()
	info, err := s.Shard(shard)
	if err != nil {
		r.Fatal(err)
	}
	return info
}

func (r *rig) subscribe(s *broker.Stream, shard int, start broker.Start, opts broker.SubscribeOptions) *broker.Subscription {
	r.Helper()
	sub, err := s.Subscribe(r.ctx, shard, start, opts)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(sub.Close)
	return sub
}

func (r *rig) next(sub *broker.Subscription) broker.Delivery {
	r.Helper()
	d, err := sub.Next(r.ctx)
	if err != nil {
		r.Fatal(err)
	}
	return d
}

// wantNumbered takes deliveries until the one before next was given, and checks
// that they go from the subscription's place on without a gap.
func (r *rig) wantNumbered(sub *broker.Subscription, from, next uint64) {
	r.Helper()
	if err := takeNumbered(r.ctx, sub, from, next); err != nil {
		r.Fatal(err)
	}
}

func takeNumbered(ctx context.Context, sub *broker.Subscription, from, next uint64) error {
	for at := from; at < next; {
		d, err := sub.Next(ctx)
		if err != nil {
			return fmt.Errorf("at %d: %w", at, err)
		}
		if d.Missed != nil {
			return fmt.Errorf("at %d: missed %v", at, *d.Missed)
		}
		for _, record := range d.Records {
			if record.Offset != at || string(record.Value) != numbered(at) {
				return fmt.Errorf("at %d: got %d, %q", at, record.Offset, record.Value)
			}
			at++
		}
		if d.Next != at {
			return fmt.Errorf("the delivery up to %d says that %d is next", at, d.Next)
		}
	}
	return nil
}

// errorAs fails the test unless err is a T.
func errorAs[T error](t testing.TB, err error) T {
	t.Helper()
	var want T
	if !errors.As(err, &want) {
		t.Fatalf("got %v (%T), want a %T", err, err, want)
	}
	return want
}

// faulty puts a disk under the broker whose operations a test can hold or fail.
func faulty(t testing.TB) (*faultdisk.Disk, func(*broker.Config)) {
	pool := fallback.Open(fallback.Options{})
	disk := faultdisk.New(device.OS(), pool, faultdisk.Options{})
	t.Cleanup(func() {
		if err := disk.Queue().Close(); err != nil {
			t.Error(err)
		}
	})
	return disk, func(c *broker.Config) { c.Engine.FS, c.Engine.Queue = disk.FS(), disk.Queue() }
}

// listing is every name below a directory.
func listing(t testing.TB, dir string) string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(names, "\n")
}

func ptr[T any](v T) *T { return &v }

// isLog matches segment files.
func isLog(path string) bool { return strings.HasSuffix(path, ".log") }
