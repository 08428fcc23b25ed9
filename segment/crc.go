package segment

import "hash/crc32"

// headerChecksum is the CRC-32 over the first 20 bytes of a record header.
func headerChecksum(b []byte) uint32 {
	return crc32.Update(0, crc32.IEEETable, b[:recordAtHeaderCRC])
}

// recordChecksum is the CRC-32 over bytes 0..24 of a record whose header CRC
// was verified or just written, then its tag and payload.
func recordChecksum(b []byte) uint32 {
	return crc32.Update(prefixChecksum(b), crc32.IEEETable, b[RecordHeaderSize:])
}

// prefixChecksum is the CRC-32 over bytes 0..24.
func prefixChecksum(b []byte) uint32 {
	return crc32.Update(0, crc32.IEEETable, b[:recordAtChecksum])
}
