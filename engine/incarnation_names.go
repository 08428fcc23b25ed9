package engine

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"

	"felix.local/felix/sidecar"
)

// SubRoot is a part of a data directory that holds shards of one kind. Names of
// shards are made alike in all of them, the incarnation's suffix included.
type SubRoot string

// The parts. Below StreamShards, GroupShards and DeadLetterShards the incarnation
// is the stream's, below the others the cache's.
const (
	StreamShards     SubRoot = ""
	CacheShards      SubRoot = "caches"
	CounterShards    SubRoot = "counters"
	GroupShards      SubRoot = "groups"
	DeadLetterShards SubRoot = "dead-letters"
)

// SubRoots lists the parts.
func SubRoots() []SubRoot {
	return []SubRoot{StreamShards, CacheShards, CounterShards, GroupShards, DeadLetterShards}
}

// Dir is the part's directory in a data directory.
func (r SubRoot) Dir(root string) string { return filepath.Join(root, string(r)) }

// ShardDir is a shard's directory in a data directory.
func (r SubRoot) ShardDir(root string, key ShardKey) string {
	return filepath.Join(root, string(r), key.DirName())
}

// MarkerPath is the marker of a stream, or of a cache, in a data directory. Caches
// and counters have theirs below caches; groups and dead letters go by the stream's.
func (r SubRoot) MarkerPath(root, tenant, namespace, name string) string {
	if r == CacheShards || r == CounterShards {
		root = CacheShards.Dir(root)
	} else {
		root = StreamShards.Dir(root)
	}
	return filepath.Join(root, sidecar.MarkersDir, sidecar.MarkerName(tenant, namespace, name))
}

// streamLabel is how errors name the stream.
func (k ShardKey) streamLabel() string { return k.Tenant + "/" + k.Namespace + "/" + k.Stream }

// StreamShards lists the shards of a stream's name that the root has directories of,
// those of incarnations through the given one.
func (s *Store) StreamShards(ctx context.Context, tenant, namespace, stream string, through uint64) ([]ShardKey, error) {
	leave, err := s.enter(ctx, "list a stream's shards")
	if err != nil {
		return nil, err
	}
	defer leave()
	return s.shardsThrough(ShardKey{Tenant: tenant, Namespace: namespace, Stream: stream, Incarnation: through})
}

// shardsThrough lists the shards of key's stream that the root has directories of,
// those of key's incarnation and of lower ones.
func (s *Store) shardsThrough(key ShardKey) ([]ShardKey, error) {
	entries, err := s.fs.ReadDir(s.root)
	if err != nil {
		return nil, err
	}
	var found []ShardKey
	for _, e := range entries {
		if shard, ok := key.shardNamed(e.Name); ok && e.Type.IsDir() && shard.Incarnation <= key.Incarnation {
			found = append(found, shard)
		}
	}
	return found, nil
}

// shardNamed gives the shard of the key's stream, of any incarnation, whose directory
// has a name. Behind the last '_' stand the number of the shard, a hash, and an
// incarnation that is not 0.
func (k ShardKey) shardNamed(name string) (ShardKey, bool) {
	parts := strings.Split(name[strings.LastIndexByte(name, '_')+1:], "-")
	shard, err := strconv.ParseUint(parts[0], 10, 32)
	if err != nil || len(parts) < 2 {
		return k, false
	}
	k.Shard, k.Incarnation = uint32(shard), 0
	if len(parts) > 2 {
		if k.Incarnation, err = strconv.ParseUint(parts[2], 16, 64); err != nil {
			return k, false
		}
	}
	return k, k.DirName() == name
}
