package engine

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"strings"

	"felix.local/felix/sidecar"
)

// ShardKey names a shard.
type ShardKey struct {
	Tenant, Namespace, Stream string
	Shard                     uint32
	// Incarnation tells apart streams of one name created one after the
	// other; 0 is none.
	Incarnation uint64
}

// Label is how errors and logs name the shard.
func (k ShardKey) Label() string {
	return fmt.Sprintf("%s/%s/%s/%d", k.Tenant, k.Namespace, k.Stream, k.Shard)
}

// DirName is the shard's directory: a readable rendering, which may lose
// characters, and a hash of the exact key, which tells shards apart. It holds no
// dot, so no key can name ".", ".." or a dotted directory.
func (k ShardKey) DirName() string {
	var b strings.Builder
	for _, part := range []string{k.Tenant, k.Namespace, k.Stream} {
		sidecar.Render(&b, part)
		b.WriteByte('_')
	}
	fmt.Fprintf(&b, "%d-%016x", k.Shard, k.hash())
	if k.Incarnation != 0 {
		fmt.Fprintf(&b, "-%016x", k.Incarnation)
	}
	return b.String()
}

// hash is FNV-1a over the components, each behind its length so that ("a","bc")
// and ("ab","c") differ, and the shard number. The incarnation is not hashed.
func (k ShardKey) hash() uint64 {
	h := fnv.New64a()
	var word [8]byte
	for _, part := range []string{k.Tenant, k.Namespace, k.Stream} {
		binary.BigEndian.PutUint64(word[:], uint64(len(part)))
		h.Write(word[:])
		h.Write([]byte(part))
	}
	binary.BigEndian.PutUint32(word[:4], k.Shard)
	h.Write(word[:4])
	return h.Sum64()
}
