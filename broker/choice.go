package broker

import "encoding/binary"

// ShardChoice says which shard a publish goes to.
type ShardChoice struct {
	kind  choiceKind
	shard int
	key   []byte
}

type choiceKind uint8

const (
	chooseRoundRobin choiceKind = iota
	chooseExplicit
	chooseByKey
)

// RoundRobin takes the shards in turn, one publish each.
func RoundRobin() ShardChoice { return ShardChoice{} }

// Explicit takes the shard with this number.
func Explicit(shard int) ShardChoice { return ShardChoice{kind: chooseExplicit, shard: shard} }

// ByKey takes the shard that the default partitioner of Kafka clients gives the
// key, so that all front doors agree.
func ByKey(key []byte) ShardChoice { return ShardChoice{kind: chooseByKey, key: key} }

// keyShard is murmur2 of the key with Kafka's seed, without its sign, modulo the
// number of shards.
func keyShard(key []byte, shards int) int {
	return int(murmur2(key)&0x7fffffff) % shards
}

// murmur2 is Austin Appleby's 32-bit hash with the seed that Kafka clients use.
func murmur2(data []byte) uint32 {
	const (
		seed   = 0x9747b28c
		mix    = 0x5bd1e995
		rotate = 24
	)
	h := uint32(seed) ^ uint32(len(data))
	for ; len(data) >= 4; data = data[4:] {
		k := binary.LittleEndian.Uint32(data) * mix
		k ^= k >> rotate
		h = h*mix ^ k*mix
	}
	switch len(data) {
	case 3:
		h ^= uint32(data[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(data[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(data[0])) * mix
	}
	h = (h ^ h>>13) * mix
	return h ^ h>>15
}
