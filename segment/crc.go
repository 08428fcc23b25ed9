package segment

import "hash/crc32"

// headerChecksum is the CRC-32 over the first 20 bytes of a record header.
func headerChecksum(b []byte) uint32 {
	return crc32.Update(0, crc32.IEEETable, b[:recordAtHeaderCRC])
}

// recordChecksum is the CRC-32 over bytes 0..24 of a record, then its tag and
// payload. The header CRC must have been verified or just written.
func recordChecksum(b []byte) uint32 {
	return crc32.Update(prefixChecksum(b), crc32.IEEETable, b[RecordHeaderSize:])
}

// prefixChecksum is the CRC-32 over bytes 0..24. The sum over the first 20 of
// them is known, it is the header CRC and the last 4 are that value, so only
// those are left to run through the table: on small records, going over the
// header twice is a good part of the time a scan takes.
func prefixChecksum(b []byte) uint32 {
	b = b[recordAtHeaderCRC:recordAtChecksum:recordAtChecksum]
	sum := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	sum = ^sum
	for _, v := range b {
		sum = crc32.IEEETable[byte(sum)^v] ^ sum>>8
	}
	return ^sum
}
