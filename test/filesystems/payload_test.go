package filesystems

import (
	"bytes"
	"encoding/binary"
)

// A payload tells which append it belongs to: shard, tag of the append, place in the
// batch, and then bytes that follow from these. A tag is never used twice for one
// shard, so a record at an offset that was acknowledged for another append is noticed.
const payloadHead = 12

func payload(shard int, tag uint32, place, size int) []byte {
	b := make([]byte, max(size, payloadHead))
	binary.LittleEndian.PutUint32(b, uint32(shard))
	binary.LittleEndian.PutUint32(b[4:], tag)
	binary.LittleEndian.PutUint32(b[8:], uint32(place))
	for i := payloadHead; i < len(b); i++ {
		b[i] = byte(tag)*31 + byte(place)*7 + byte(i) + byte(i>>8)
	}
	return b
}

// tagOf gives the tag of a payload; false when it is not what payload made for shard.
func tagOf(shard int, b []byte) (tag uint32, ok bool) {
	if len(b) < payloadHead {
		return 0, false
	}
	tag = binary.LittleEndian.Uint32(b[4:])
	place := binary.LittleEndian.Uint32(b[8:])
	return tag, bytes.Equal(b, payload(shard, tag, int(place), len(b)))
}
