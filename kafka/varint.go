package kafka

import "math/bits"

// uvarint reads an unsigned varint of at most 32 bits. width is 0 when b ends
// within it or it is longer than it may be.
func uvarint(b []byte) (value uint32, width int) {
	var v uint64
	for i := 0; i < len(b) && i < 5; i++ {
		v |= uint64(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			if v > 1<<32-1 {
				return 0, 0
			}
			return uint32(v), i + 1
		}
	}
	return 0, 0
}

// varint reads a zigzag varint of at most 64 bits. width is 0 when b ends within it
// or it is longer than it may be.
func varint(b []byte) (value int64, width int) {
	var v uint64
	for i := 0; i < len(b) && i < 10; i++ {
		v |= uint64(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			if i == 9 && b[i] > 1 {
				return 0, 0
			}
			return int64(v>>1) ^ -int64(v&1), i + 1
		}
	}
	return 0, 0
}

func appendUvarint(dst []byte, v uint32) []byte {
	for v >= 0x80 {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v))
}

func appendVarint(dst []byte, v int64) []byte {
	u := zigzag(v)
	for u >= 0x80 {
		dst = append(dst, byte(u)|0x80)
		u >>= 7
	}
	return append(dst, byte(u))
}

// varintSize is how many bytes appendVarint writes.
func varintSize(v int64) int { return (bits.Len64(zigzag(v)|1) + 6) / 7 }

func zigzag(v int64) uint64 { return uint64(v)<<1 ^ uint64(v>>63) }
