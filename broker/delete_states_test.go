package broker

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"felix.local/felix/engine"
	"felix.local/felix/sidecar"
)

// stateRecords is what each shard of a state's directories holds.
const stateRecords = 3

// deletionState is what a root says of one stream.
type deletionState struct {
	def    *definition
	marker *sidecar.Marker
	// dirs are shards that the root has directories of.
	dirs []engine.ShardKey

	// whole is the incarnation that a start serves, with its records; -1 is none.
	whole int
	// refused says that the stream is listed and no shard of it served.
	refused bool
	// created is how many records the first shard of a stream has that is created once
	// there is none.
	created uint64
}

func stateKeys(incarnation uint64, shards ...uint32) (keys []engine.ShardKey) {
	for _, shard := range shards {
		keys = append(keys, engine.ShardKey{Tenant: memoryName.Tenant, Namespace: memoryName.Namespace, Stream: memoryName.Stream, Shard: shard, Incarnation: incarnation})
	}
	return keys
}

// put makes a root that says all this.
func (s deletionState) put(t *testing.T, cfg Config) {
	t.Helper()
	store, err := engine.OpenStore(t.Context(), cfg.Root, cfg.Engine)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range s.dirs {
		log, err := store.OpenLog(t.Context(), key)
		for range stateRecords {
			if err == nil {
				_, err = log.Append(t.Context(), engine.Record{Payload: []byte("acknowledged")})
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	write := func(path string, b []byte) {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, b, 0o640)); err != nil {
			t.Fatal(err)
		}
	}
	if s.marker != nil {
		write(engine.StreamShards.MarkerPath(cfg.Root, memoryName.Tenant, memoryName.Namespace, memoryName.Stream), s.marker.AppendTo(nil))
	}
	if s.def != nil {
		b, err := s.def.encode()
		if err != nil {
			t.Fatal(err)
		}
		write(filepath.Join(cfg.Root, DefinitionsDir, fileName(memoryName)), b)
	}
}

// Whichever of the two files a crash left behind the other, a start ends with a stream
// that is whole or with a deletion that is carried out, and what is created afterwards
// has no record of a stream that was deleted.
func TestDefinitionAndMarkerAreBroughtToSpeakOfOneStream(t *testing.T) {
	def := func(incarnation uint64, deleting bool) *definition {
		return &definition{
			Tenant: memoryName.Tenant, Namespace: memoryName.Namespace, Stream: memoryName.Stream,
			Durable: true, Shards: 2, Format: "raw", Incarnation: incarnation, Deleting: deleting,
		}
	}
	mark := func(incarnation, through uint64, deleting bool) *sidecar.Marker {
		return &sidecar.Marker{Incarnation: incarnation, DeletedThrough: through, Deleting: deleting}
	}
	join := func(lists ...[]engine.ShardKey) (all []engine.ShardKey) {
		for _, list := range lists {
			all = append(all, list...)
		}
		return all
	}
	first, second := stateKeys(1, 0, 1), stateKeys(2, 0, 1)
	for name, s := range map[string]deletionState{
		"nothing was ever deleted":                     {def: def(0, false), dirs: stateKeys(0, 0, 1), whole: 0},
		"the first deletion: defined":                  {def: def(0, true), dirs: stateKeys(0, 0, 1), whole: -1},
		"the first deletion: defined and marked":       {def: def(0, true), marker: mark(0, 0, true), dirs: stateKeys(0, 0, 1), whole: -1},
		"the first deletion: one shard is gone":        {def: def(0, true), marker: mark(0, 0, true), dirs: stateKeys(0, 1), whole: -1},
		"the first deletion: all are gone":             {def: def(0, true), marker: mark(0, 0, true), whole: -1},
		"the first deletion: finished but the removal": {def: def(0, true), marker: mark(0, 0, false), whole: -1},
		"the first deletion: marked alone":             {def: def(0, false), marker: mark(0, 0, true), dirs: stateKeys(0, 1), whole: -1},

		"a stream of a second life":              {def: def(1, false), marker: mark(1, 0, false), dirs: first, whole: 1},
		"its deletion: defined":                  {def: def(1, true), marker: mark(1, 0, false), dirs: first, whole: -1},
		"its deletion: defined and marked":       {def: def(1, true), marker: mark(1, 0, true), dirs: first, whole: -1},
		"its deletion: one shard is gone":        {def: def(1, true), marker: mark(1, 0, true), dirs: first[1:], whole: -1},
		"its deletion: finished but the removal": {def: def(1, true), marker: mark(1, 1, false), whole: -1},
		"its deletion: finished":                 {marker: mark(1, 1, false), whole: -1},
		"the definition went back, one shard":    {def: def(1, false), marker: mark(1, 0, true), dirs: first[1:], whole: -1},
		"the definition went back, none":         {def: def(1, false), marker: mark(1, 1, false), whole: -1},

		"the definition came back beside a creation":              {def: def(1, true), marker: mark(2, 1, false), dirs: second, whole: -1, created: stateRecords},
		"and before it had a shard":                               {def: def(1, true), marker: mark(2, 1, false), whole: -1},
		"the definition is older than the stream":                 {def: def(1, false), marker: mark(2, 1, false), dirs: second, whole: 2},
		"the definition is older than a deletion":                 {def: def(1, false), marker: mark(2, 1, true), dirs: second[:1], whole: -1},
		"the definition is older than a deletion that finished":   {def: def(1, false), marker: mark(2, 2, false), whole: -1},
		"a deletion that is older than another one":               {def: def(1, true), marker: mark(2, 1, true), dirs: join(first[1:], second[1:]), whole: -1},
		"the marker is older than the stream":                     {def: def(2, false), marker: mark(1, 0, false), dirs: second, whole: 2},
		"the marker speaks of an older deletion":                  {def: def(2, false), marker: mark(1, 0, true), dirs: second, whole: 2},
		"the marker is gone":                                      {def: def(2, false), dirs: second, whole: 2},
		"the marker is older than the deletion":                   {def: def(2, true), marker: mark(1, 1, false), dirs: second, whole: -1},
		"the marker of a deletion is gone":                        {def: def(2, true), dirs: second, whole: -1},
		"the definition of a deletion is gone":                    {marker: mark(1, 0, true), dirs: first, whole: -1},
		"a creation did not end":                                  {marker: mark(1, 0, false), dirs: first[:1], whole: -1, created: stateRecords},
		"more shards than the server allows":                      {def: def(1, true), marker: mark(1, 0, true), dirs: join(first, stateKeys(1, 2, 4, 7, 4_000_000_000)), whole: -1},
		"shards of lives before":                                  {def: def(2, true), marker: mark(2, 1, false), dirs: join(stateKeys(0, 0, 9), first, second), whole: -1},
		"directories of a life that the marker has as past":       {def: def(1, false), marker: mark(2, 1, false), dirs: join(first, second), refused: true, created: stateRecords},
		"directories of a life that the marker has as deleted":    {def: def(1, false), marker: mark(1, 1, false), dirs: first, refused: true},
		"a definition of a deletion, and directories from a copy": {def: def(1, true), marker: mark(1, 1, false), dirs: first, whole: -1},
	} {
		t.Run(name, func(t *testing.T) { s.check(t) })
	}
}

func (s deletionState) check(t *testing.T) {
	cfg := Config{Root: t.TempDir(), Engine: engine.DefaultConfig(), ShardsMax: 4, Logger: slog.New(slog.DiscardHandler)}
	cfg.Engine.MinFreeBytes, cfg.Engine.MinFreeInodes, cfg.Engine.SegmentBytes = 0, 0, 4096
	cfg.Engine.Logger, cfg.Engine.IOURing = cfg.Logger, engine.IOURingOff
	// The directories first, without a marker that would refuse them.
	s.put(t, cfg)
	for range 2 { // a start after the one that put things right finds nothing to do
		b, err := Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		s.checkServed(t, b)
		if err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	b, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if s.whole >= 0 || s.refused {
		if err := b.DeleteStream(t.Context(), memoryName); err != nil {
			t.Fatal(err)
		}
	}
	for _, created := range []uint64{s.created, 0} {
		stream, _, err := b.CreateStream(t.Context(), memoryName, StreamConfig{Durable: true})
		if err != nil {
			t.Fatal(err)
		}
		if info, err := stream.Shard(0); err != nil || info.Next != created {
			t.Errorf("a created stream has %+v, %v, want %d records", info, err, created)
		}
		if err := b.DeleteStream(t.Context(), memoryName); err != nil {
			t.Fatal(err)
		}
		left, err := b.store.StreamShards(t.Context(), memoryName.Tenant, memoryName.Namespace, memoryName.Stream, ^uint64(0))
		if err != nil || len(left) > 0 {
			t.Errorf("after the deletion there are %v, %v", left, err)
		}
	}
}

// checkServed checks what a start makes of the state.
func (s deletionState) checkServed(t *testing.T, b *Broker) {
	t.Helper()
	stream, err := b.Stream(memoryName)
	if s.whole < 0 {
		var none *NotFoundError
		if len(b.Streams()) > 0 || !errors.As(err, &none) {
			t.Errorf("there is %+v, %v", b.Streams(), err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for shard := range stream.Shards() {
		info, err := stream.Shard(shard)
		served := err == nil && info.State == StateServing && info.Next == stateRecords
		if served == s.refused || err == nil && !s.refused && stream.def.Incarnation != uint64(s.whole) {
			t.Errorf("shard %d is %+v, %v, of incarnation %d", shard, info, err, stream.def.Incarnation)
		}
	}
}
