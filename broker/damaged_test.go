package broker_test

import (
	"os"
	"path/filepath"
	"testing"

	"felix.local/felix/broker"
	"felix.local/felix/engine"
)

// One bit in the middle of a sealed segment, which no crash explains.
func TestAShardThatIsDamagedOnDiskIsRefusedAndTheOthersServe(t *testing.T) {
	const shards, bad = 8, 3
	r := newRig(t, unflushed, func(c *broker.Config) { c.Engine.VerifyAllOnOpen = true })
	s := r.create(name("s"), broker.StreamConfig{Durable: true, Shards: shards})
	for shard := range shards {
		r.fill(s, shard, 400) // several segments
	}
	if err := r.b.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	r.b = nil
	dir := filepath.Join(r.cfg.Root, engine.ShardKey{Tenant: "t", Namespace: "n", Stream: "s", Shard: bad}.DirName())
	segments, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(segments) < 3 {
		t.Fatalf("%v, %v", segments, err)
	}
	b, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 4
	if err := os.WriteFile(segments[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	r.open()
	s = r.stream(name("s"))
	if s.Shards() != shards {
		t.Fatalf("%d shards", s.Shards())
	}
	refused := func(what string, err error) {
		t.Helper()
		e := errorAs[*broker.UnavailableError](t, err)
		if e.Stream != name("s") || e.Shard != bad || e.State != broker.StateRefused || e.Err == nil {
			t.Errorf("%s: %+v", what, e)
		}
	}
	_, err = s.Publish(r.ctx, broker.Explicit(bad), messages("x")...)
	refused("Publish", err)
	_, err = s.Read(r.ctx, bad, 0, 1000, 0)
	refused("Read", err)
	_, err = s.DeleteRecords(r.ctx, bad, 0)
	refused("DeleteRecords", err)
	for what, start := range map[string]broker.Start{
		"earliest": broker.Earliest(), "latest": broker.Latest(), "offset": broker.AtOffset(0), "time": broker.AtTime(1),
	} {
		_, err = s.Subscribe(r.ctx, bad, start, broker.SubscribeOptions{})
		refused("Subscribe "+what, err)
		_, err = s.Resolve(r.ctx, bad, start)
		refused("Resolve "+what, err)
	}
	if _, err := s.EnforceRetention(r.ctx); err != nil {
		t.Error(err)
	}

	health := r.b.Health()
	if !health.Ready || len(health.Unavailable) != 1 {
		t.Fatalf("%+v", health)
	}
	if u := health.Unavailable[0]; u.Stream != name("s") || u.Shard != bad || u.State != broker.StateRefused || u.Reason == "" {
		t.Errorf("%+v", u)
	}
	for shard, info := range r.b.Streams()[0].Shards {
		if (shard == bad) != (info.State == broker.StateRefused) || (shard == bad) != (info.Reason != nil) {
			t.Errorf("%+v", info)
		}
	}
	if stats := r.b.Stats(); stats.RefusedShards != 1 || stats.PoisonedShards != 0 || stats.Subscriptions != 0 {
		t.Errorf("%+v", stats)
	}
	for shard := range shards {
		if shard == bad {
			continue
		}
		r.fill(s, shard, 410)
		r.wantNumbered(r.subscribe(s, shard, broker.Earliest(), broker.SubscribeOptions{}), 0, 410)
	}

	// Put right, it serves again, and nothing of it was changed meanwhile.
	if err := r.b.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 4
	if err := os.WriteFile(segments[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	r.open()
	s = r.stream(name("s"))
	r.wantNumbered(r.subscribe(s, bad, broker.Earliest(), broker.SubscribeOptions{}), 0, 400)
}
