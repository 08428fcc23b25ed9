package broker_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"felix.local/felix/broker"
	"felix.local/felix/engine"
)

func TestCreatingAStreamAgainChangesNothing(t *testing.T) {
	for what, cfg := range map[string]broker.StreamConfig{
		"durable":    {Durable: true, Shards: 3, Format: broker.FormatKafka, Fsync: ptr(engine.FsyncPeriodic), RetentionBytes: ptr(int64(9000)), RetentionAge: ptr(time.Hour)},
		"in memory":  {Shards: 2},
		"by default": {Durable: true},
	} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t)
			s := r.create(name("s"), cfg)
			r.publish(s, 0, "a")
			before := s.Config()
			for _, again := range []broker.StreamConfig{cfg, {Durable: cfg.Durable, Format: cfg.Format}, s.Config()} {
				same, created, err := r.b.CreateStream(r.ctx, name("s"), again)
				if err != nil || created || same != s {
					t.Errorf("again: %v, created %v, %v", same, created, err)
				}
			}
			if diff := cmp.Diff(before, s.Config()); diff != "" {
				t.Error(diff)
			}
			r.reopen()
			s = r.stream(name("s"))
			if diff := cmp.Diff(before, s.Config()); diff != "" {
				t.Errorf("after a restart: %s", diff)
			}
			if p := r.publish(s, 0, "b"); cfg.Durable && p.First != 1 || !cfg.Durable && p.First != 0 {
				t.Errorf("after a restart: %+v", p)
			}
		})
	}
}

func TestWhatIsFixedIsAConflictAndChangesNothing(t *testing.T) {
	r := newRig(t)
	s := r.create(name("s"), broker.StreamConfig{Durable: true, Shards: 4, Fsync: ptr(engine.FsyncNone), RetentionBytes: ptr(int64(5000))})
	m := r.create(name("m"), broker.StreamConfig{Format: broker.FormatKafka})
	before, beforeMemory := s.Config(), m.Config()
	for field, c := range map[string]struct {
		name broker.StreamName
		cfg  broker.StreamConfig
	}{
		"durable":  {name("s"), broker.StreamConfig{}},
		"durable ": {name("m"), broker.StreamConfig{Durable: true, Format: broker.FormatKafka}},
		"format":   {name("s"), broker.StreamConfig{Durable: true, Format: broker.FormatKafka, Shards: 9, RetentionBytes: ptr(int64(1))}},
		"format ":  {name("m"), broker.StreamConfig{}},
		"fsync":    {name("s"), broker.StreamConfig{Durable: true, Fsync: ptr(engine.FsyncOnCommit), RetentionBytes: ptr(int64(1))}},
		"shards":   {name("s"), broker.StreamConfig{Durable: true, Shards: 3, RetentionBytes: ptr(int64(1))}},
	} {
		_, created, err := r.b.CreateStream(r.ctx, c.name, c.cfg)
		e := errorAs[*broker.ConflictError](t, err)
		if created || e.Stream != c.name || e.Has == e.Asked || e.Field != strings.TrimSpace(field) {
			t.Errorf("%s: %+v, created %v", field, e, created)
		}
	}
	if diff := cmp.Diff(before, s.Config()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(beforeMemory, m.Config()); diff != "" {
		t.Error(diff)
	}
	r.reopen()
	if diff := cmp.Diff(before, r.stream(name("s")).Config()); diff != "" {
		t.Errorf("after a restart: %s", diff)
	}
}

func TestShardsGrowAndKeepWhatTheyHold(t *testing.T) {
	r := newRig(t)
	s := r.create(name("s"), broker.StreamConfig{Durable: true, Shards: 2})
	r.publish(s, 1, "before")
	waiting := r.subscribe(s, 1, broker.Latest(), broker.SubscribeOptions{})
	if _, _, err := r.b.CreateStream(r.ctx, name("s"), broker.StreamConfig{Durable: true, Shards: 5}); err != nil {
		t.Fatal(err)
	}
	if err := s.Grow(r.ctx, 6); err != nil {
		t.Fatal(err)
	}
	for _, shards := range []int{6, 5, 0, -1} {
		errorAs[*broker.ConflictError](t, s.Grow(r.ctx, shards))
	}
	if s.Shards() != 6 {
		t.Errorf("%d shards", s.Shards())
	}
	for shard := range 6 {
		r.publish(s, shard, "after")
	}
	if d := r.next(waiting); string(d.Records[0].Value) != "after" {
		t.Errorf("%+v", d)
	}
	waiting.Close()
	r.reopen()
	s = r.stream(name("s"))
	r.wantTexts(s, 1, 0, "before", "after")
	for _, shard := range []int{0, 2, 3, 4, 5} {
		r.wantTexts(s, shard, 0, "after")
	}
	if stats := r.b.Stats(); stats.Shards != 6 || stats.Streams != 1 {
		t.Errorf("%+v", stats)
	}
}

func TestRoundRobinTakesEachShardInTurn(t *testing.T) {
	r := newRig(t, inMemory)
	s := r.create(name("s"), broker.StreamConfig{Shards: 3})
	for i := range 9 {
		p, err := s.Publish(r.ctx, broker.RoundRobin(), messages("a", "b")...)
		if err != nil || p.Shard != i%3 || p.Last != p.First+1 {
			t.Errorf("publish %d: %+v, %v", i, p, err)
		}
	}
}

func TestStreamsAndShardsAreLimited(t *testing.T) {
	r := newRig(t, inMemory, func(c *broker.Config) { c.StreamsMax, c.ShardsMax, c.ShardsTotalMax = 3, 4, 8 })
	a := r.create(name("a"), broker.StreamConfig{Shards: 4})
	r.create(name("b"), broker.StreamConfig{Shards: 2})
	refuse := func(what string, err error) {
		t.Helper()
		var limit *broker.LimitError
		var large *broker.TooLargeError
		if !errors.As(err, &limit) && !errors.As(err, &large) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, _, err := r.b.CreateStream(r.ctx, name("c"), broker.StreamConfig{Shards: 5})
	refuse("shards of one", err)
	_, _, err = r.b.CreateStream(r.ctx, name("c"), broker.StreamConfig{Shards: math.MaxInt})
	refuse("as many shards as an int holds", err)
	refuse("growing too far", a.Grow(r.ctx, 5))
	_, _, err = r.b.CreateStream(r.ctx, name("c"), broker.StreamConfig{Shards: 3})
	refuse("shards of all", err)
	_, _, err = r.b.CreateStream(r.ctx, name("b"), broker.StreamConfig{Shards: 5})
	refuse("growing one", err)
	r.create(name("c"), broker.StreamConfig{Shards: 2})
	_, _, err = r.b.CreateStream(r.ctx, name("d"), broker.StreamConfig{})
	refuse("streams", err)
	// A deletion makes room.
	if err := r.b.DeleteStream(r.ctx, name("a")); err != nil {
		t.Fatal(err)
	}
	r.create(name("d"), broker.StreamConfig{Shards: 4})
	if stats := r.b.Stats(); stats.Streams != 3 || stats.Shards != 8 {
		t.Errorf("%+v", stats)
	}
}

func TestWhatNoStreamCouldBeIsRefused(t *testing.T) {
	r := newRig(t)
	for what, cfg := range map[string]broker.StreamConfig{
		"shards below 0":               {Shards: -1},
		"retention below 0":            {Durable: true, RetentionBytes: ptr(int64(-1))},
		"age below 0":                  {Durable: true, RetentionAge: ptr(-time.Second)},
		"fsync without a disk":         {Fsync: ptr(engine.FsyncNone)},
		"retention without a disk":     {RetentionBytes: ptr(int64(1))},
		"an age without a disk":        {RetentionAge: ptr(time.Hour)},
		"an age that rounds to 0":      {Durable: true, RetentionAge: ptr(time.Nanosecond)},
		"a mode that does not exist":   {Durable: true, Fsync: ptr(engine.FsyncMode(77))},
		"a format that does not exist": {Durable: true, Format: broker.Format(9)},
	} {
		_, created, err := r.b.CreateStream(r.ctx, name("s"), cfg)
		var invalid *broker.InvalidError
		if !errors.As(err, &invalid) || created {
			t.Errorf("%s: created %v, %v", what, created, err)
		}
	}
	if n := len(r.b.Streams()); n != 0 {
		t.Errorf("%d streams", n)
	}
	if left, err := filepath.Glob(filepath.Join(r.cfg.Root, broker.DefinitionsDir, "*")); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Bounds that the store could not follow are refused, when a stream is made and
// when it changes, or the next start would refuse the stream.
func TestARetentionThatTheStoreCannotFollowIsRefused(t *testing.T) {
	r := newRig(t, func(c *broker.Config) { c.Engine.RetentionInterval = 0 })
	bounded := broker.StreamConfig{Durable: true, RetentionBytes: ptr(int64(1 << 20))}
	if _, created, err := r.b.CreateStream(r.ctx, name("s"), bounded); err == nil || created {
		t.Errorf("created %v, %v", created, err)
	}
	s := r.create(name("s"), broker.StreamConfig{Durable: true})
	r.publish(s, 0, "a")
	if _, _, err := r.b.CreateStream(r.ctx, name("s"), bounded); err == nil {
		t.Error("a bound that nobody looks at")
	}
	if c := s.Config(); *c.RetentionBytes != 0 {
		t.Errorf("%+v", c)
	}
	r.reopen()
	r.wantTexts(r.stream(name("s")), 0, 0, "a")
}

func TestADurableStreamNeedsARootAndIsNeverMadeLess(t *testing.T) {
	r := newRig(t, inMemory)
	_, created, err := r.b.CreateStream(r.ctx, name("s"), broker.StreamConfig{Durable: true})
	if e := errorAs[*broker.NoStorageError](t, err); created || e.Stream != name("s") {
		t.Errorf("%+v, created %v", e, created)
	}
	if _, err := r.b.Stream(name("s")); err == nil {
		t.Error("there is a stream of that name")
	}
}

func TestAnInMemoryStreamSurvivesARestartAndBeginsEmpty(t *testing.T) {
	r := newRig(t)
	s := r.create(name("m"), broker.StreamConfig{Shards: 3, Format: broker.FormatKafka})
	r.fill(s, 2, 100)
	if _, err := s.DeleteRecords(r.ctx, 2, 50); err != nil {
		t.Fatal(err)
	}
	r.reopen()
	s = r.stream(name("m"))
	if c := s.Config(); c.Durable || c.Shards != 3 || c.Format != broker.FormatKafka {
		t.Errorf("%+v", c)
	}
	for shard := range 3 {
		if info := r.info(s, shard); info.Base != 0 || info.Next != 0 || info.State != broker.StateServing {
			t.Errorf("%+v", info)
		}
	}
	if p := r.publish(s, 2, "anew"); p.First != 0 {
		t.Errorf("%+v", p)
	}
	sub := r.subscribe(s, 2, broker.Earliest(), broker.SubscribeOptions{})
	if d := r.next(sub); string(d.Records[0].Value) != "anew" {
		t.Errorf("%+v", d)
	}
}

// Shard directories that are there already, with records that another Felix wrote,
// are served as they are.
func TestANewStreamAdoptsTheShardsThatAreThere(t *testing.T) {
	root := t.TempDir()
	store, err := engine.OpenStore(t.Context(), root, quietEngine())
	if err != nil {
		t.Fatal(err)
	}
	log, err := store.OpenLogAt(t.Context(), engine.ShardKey{Tenant: "t", Namespace: "n", Stream: "s", Shard: 1}, 70)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.Append(t.Context(), engine.Record{Payload: []byte("from elsewhere")}); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(c *broker.Config) { c.Root = root })
	if n := len(r.b.Streams()); n != 0 {
		t.Fatalf("%d streams that nobody registered", n)
	}
	s := r.create(name("s"), broker.StreamConfig{Durable: true, Shards: 2})
	r.wantTexts(s, 1, 70, "from elsewhere")
	if info := r.info(s, 1); info.Base != 70 || info.Next != 71 || info.Durable != 71 {
		t.Errorf("%+v", info)
	}
	if info := r.info(s, 0); info.Next != 0 {
		t.Errorf("%+v", info)
	}
}

// A stream whose shard cannot be opened is not registered, and what was opened for
// it is closed.
func TestAStreamThatCannotServeIsNotCreated(t *testing.T) {
	r := newRig(t)
	dir := filepath.Join(r.cfg.Root, engine.ShardKey{Tenant: "t", Namespace: "n", Stream: "s", Shard: 1}.DirName())
	if err := os.WriteFile(dir, []byte("in the way"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, created, err := r.b.CreateStream(r.ctx, name("s"), broker.StreamConfig{Durable: true, Shards: 3})
	if e := errorAs[*broker.UnavailableError](t, err); created || e.Shard != 1 {
		t.Errorf("%+v, created %v", e, created)
	}
	if _, err := r.b.Stream(name("s")); err == nil {
		t.Error("it is registered")
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	r.create(name("s"), broker.StreamConfig{Durable: true, Shards: 3})
	if stats := r.b.Stats(); stats.Shards != 3 || stats.Streams != 1 {
		t.Errorf("%+v", stats)
	}
}

func TestManyWhoCreateOneStreamGetTheSame(t *testing.T) {
	r := newRig(t)
	const callers = 16
	type answer struct {
		s       *broker.Stream
		created bool
		err     error
	}
	answers := make(chan answer, callers)
	for range callers {
		go func() {
			s, created, err := r.b.CreateStream(context.Background(), name("s"), broker.StreamConfig{Durable: true, Shards: 2})
			answers <- answer{s, created, err}
		}()
	}
	var first *broker.Stream
	created := 0
	for range callers {
		a := <-answers
		if a.err != nil {
			t.Fatal(a.err)
		}
		if first == nil {
			first = a.s
		}
		if a.s != first {
			t.Error("two streams of one name")
		}
		if a.created {
			created++
		}
	}
	if created != 1 {
		t.Errorf("%d of them created it", created)
	}
}

func TestABatchIsRefusedAsAWhole(t *testing.T) {
	eachKind(t, func(r *rig, s *broker.Stream) {
		long := broker.Message{Value: make([]byte, 100)}
		raw := func(err error) string { return errorAs[*broker.FormatError](r, err).What }
		for what, c := range map[string]struct {
			batch []broker.Message
			check func(error)
		}{
			"nothing": {nil, func(err error) { errorAs[*broker.InvalidError](r, err) }},
			"a key":   {[]broker.Message{{Value: []byte("a")}, {Key: []byte{}, Value: []byte("b")}}, func(err error) { raw(err) }},
			"headers": {[]broker.Message{long, {Headers: []broker.Header{{Key: "h"}}}}, func(err error) { raw(err) }},
			"too many records": {make([]broker.Message, broker.DefaultBatchRecordsMax+1), func(err error) {
				if e := errorAs[*broker.TooLargeError](r, err); e.Size != broker.DefaultBatchRecordsMax+1 || e.Max != broker.DefaultBatchRecordsMax {
					r.Errorf("%+v", e)
				}
			}},
			"too many bytes": {[]broker.Message{long, {Value: make([]byte, broker.DefaultBatchBytesMax)}}, func(err error) {
				if e := errorAs[*broker.TooLargeError](r, err); e.Size != 100+broker.DefaultBatchBytesMax {
					r.Errorf("%+v", e)
				}
			}},
		} {
			before := r.b.Stats()
			_, err := s.Publish(r.ctx, broker.Explicit(0), c.batch...)
			c.check(err)
			after := r.b.Stats()
			if r.info(s, 0).Next != 0 || after.PublishFailures != before.PublishFailures+1 || after.PublishedRecords != 0 {
				r.Errorf("%s: %+v", what, after)
			}
		}
	})
}

// Who published may use the bytes again.
func TestAPublishKeepsNoBytesOfItsCaller(t *testing.T) {
	eachKind(t, func(r *rig, s *broker.Stream) {
		b := []byte("mine")
		if _, err := s.Publish(r.ctx, broker.Explicit(0), broker.Message{Value: b}); err != nil {
			r.Fatal(err)
		}
		copy(b, "gone")
		r.wantTexts(s, 0, 0, "mine")
	})
}

func TestAKafkaStreamGivesBackKeysHeadersAndTombstones(t *testing.T) {
	want := []broker.Message{
		{Key: []byte("k"), Value: []byte("v"), TimestampMicros: 5},
		{Key: []byte("k"), TimestampMicros: 6},
		{Key: []byte{}, Value: []byte{}, Headers: []broker.Header{{"a", []byte("1")}, {"a", nil}, {"", []byte{}}}, TimestampMicros: 7},
	}
	for what, set := range map[string]func(*broker.Config){"durable": tinyRing, "in memory": inMemory} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t, set)
			s := r.create(name("s"), broker.StreamConfig{Durable: r.cfg.Root != "", Format: broker.FormatKafka})
			if _, err := s.Publish(r.ctx, broker.ByKey([]byte("k")), want...); err != nil {
				t.Fatal(err)
			}
			check := func(records []broker.Record) {
				t.Helper()
				var got []broker.Message
				for _, record := range records {
					got = append(got, record.Message)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			}
			check(r.read(s, 0, 0).Records)
			sub := r.subscribe(s, 0, broker.Earliest(), broker.SubscribeOptions{})
			check(r.next(sub).Records)
			if r.cfg.Root == "" {
				return
			}
			r.reopen() // from disk
			check(r.read(r.stream(name("s")), 0, 0).Records)
		})
	}
}

// The server's mode is in effect where a stream names none, at each start anew.
func TestAStreamWithoutAModeOfItsOwnFollowsTheServer(t *testing.T) {
	r := newRig(t, unflushed)
	r.create(name("follows"), broker.StreamConfig{Durable: true})
	r.create(name("own"), broker.StreamConfig{Durable: true, Fsync: ptr(engine.FsyncOnCommit), RetentionBytes: ptr(int64(0))})
	check := func(follows engine.FsyncMode, bytes int64) {
		t.Helper()
		if c := r.stream(name("follows")).Config(); *c.Fsync != follows || *c.RetentionBytes != bytes {
			t.Errorf("%v, %d; want %v, %d", *c.Fsync, *c.RetentionBytes, follows, bytes)
		}
		if c := r.stream(name("own")).Config(); *c.Fsync != engine.FsyncOnCommit || *c.RetentionBytes != 0 {
			t.Errorf("%v, %d", *c.Fsync, *c.RetentionBytes)
		}
	}
	check(engine.FsyncNone, 0)
	r.cfg.Engine.FsyncMode, r.cfg.Engine.RetentionBytes = engine.FsyncPeriodic, 1<<20
	r.reopen()
	check(engine.FsyncPeriodic, 1<<20)
}
