package engine

import (
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

// shardDirs lists the directories of a stream's shards in the root, those of the
// key's incarnation alone.
func (s *Store) shardDirs(key ShardKey) ([]string, error) {
	entries, err := s.fs.ReadDir(s.root)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		if shard, ok := shardOf(e.Name); ok && e.Type.IsDir() {
			key.Shard = shard
			if key.DirName() == e.Name {
				found = append(found, e.Name)
			}
		}
	}
	return found, nil
}

// shardOf reads the number of the shard from the name of its directory: it stands
// between the last '_' and the '-' behind it.
func shardOf(name string) (uint32, bool) {
	number, _, found := strings.Cut(name[strings.LastIndexByte(name, '_')+1:], "-")
	shard, err := strconv.ParseUint(number, 10, 32)
	return uint32(shard), found && err == nil
}
