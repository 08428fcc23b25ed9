package broker_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"felix.local/felix/broker"
	"felix.local/felix/engine"
)

// The directory of a shard is put back from a copy that is older than a deletion of
// records. The floor that the deletion left would hide what is published next.
func TestAFloorPastTheEndOfAnOlderCopyIsLowered(t *testing.T) {
	r := newRig(t)
	s := r.create(name("s"), broker.StreamConfig{Durable: true, Shards: 2})
	r.fill(s, 0, 10)
	r.fill(s, 1, 30)
	r.reopen()
	s = r.stream(name("s"))
	dir := filepath.Join(r.cfg.Root, engine.ShardKey{Tenant: "t", Namespace: "n", Stream: "s"}.DirName())
	older := t.TempDir()
	if err := os.CopyFS(filepath.Join(older, "copy"), os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	r.fill(s, 0, 20)
	for shard, offset := range []uint64{15, 25} {
		if _, err := s.DeleteRecords(r.ctx, shard, offset); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.b.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	r.b = nil
	if err := errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(filepath.Join(older, "copy")))); err != nil {
		t.Fatal(err)
	}
	for next := uint64(10); next < 13; next++ {
		r.open()
		s = r.stream(name("s"))
		if info := r.info(s, 0); info.Base != 10 || info.Next != next {
			t.Errorf("%+v, want [10, %d)", info, next)
		}
		if info := r.info(s, 1); info.Base != 25 || info.Next != 30 {
			t.Errorf("the other shard has %+v", info)
		}
		r.fill(s, 0, next+1)
		r.wantNumbered(r.subscribe(s, 0, broker.Earliest(), broker.SubscribeOptions{}), 10, next+1)
		if err := r.b.Close(r.ctx); err != nil {
			t.Fatal(err)
		}
		r.b = nil
	}
}

// A floor is where a deletion put it, whatever else of the definition changes.
func TestAFloorOutlivesOtherChangesOfTheDefinition(t *testing.T) {
	r := newRig(t)
	s := r.create(name("s"), broker.StreamConfig{Durable: true, Shards: 2})
	r.fill(s, 1, 10)
	if _, err := s.DeleteRecords(r.ctx, 1, 7); err != nil {
		t.Fatal(err)
	}
	if err := s.Grow(r.ctx, 4); err != nil {
		t.Fatal(err)
	}
	r.fill(s, 3, 5)
	if _, err := s.DeleteRecords(r.ctx, 3, 2); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.b.CreateStream(r.ctx, name("s"), broker.StreamConfig{Durable: true, RetentionBytes: ptr(int64(1 << 40))}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s = r.stream(name("s"))
		for shard, want := range []uint64{0, 7, 0, 2} {
			if info := r.info(s, shard); info.Base != want {
				t.Errorf("%+v, want the base %d", info, want)
			}
		}
		r.reopen()
	}
}
