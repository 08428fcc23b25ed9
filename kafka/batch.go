package kafka

import "hash/crc32"

// Where the fields of a record batch, format 2, are. The checksum covers what
// follows it.
const (
	batchLengthAt      = 8  // int32: bytes after this field
	batchEpochAt       = 12 // int32: leader epoch
	batchMagicAt       = 16 // int8
	batchCRCAt         = 17 // uint32: CRC-32C
	batchAttributesAt  = 21 // int16
	batchLastDeltaAt   = 23 // int32: last offset - base offset
	batchBaseTimeAt    = 27 // int64: ms
	batchMaxTimeAt     = 35 // int64: ms
	batchProducerAt    = 43 // int64: -1 for none
	batchProducerEpoch = 51 // int16
	batchSequenceAt    = 53 // int32
	batchCountAt       = 57 // int32
	batchHeaderSize    = 61

	// batchLengthMin is what batchLength says for a batch without records.
	batchLengthMin = batchHeaderSize - batchEpochAt
	// recordSizeMin is a record with nothing in it: seven fields of a byte.
	recordSizeMin = 7
	// headerSizeMin is a header with nothing in it: two lengths.
	headerSizeMin = 2
)

// The bits of a batch's attributes.
const (
	attributeCodec         = 0x07
	attributeLogAppendTime = 0x08
	attributeTransactional = 0x10
	attributeControl       = 0x20
)

// checksum is CRC-32C.
func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }
