package main

import "encoding/binary"

// key is where a library of keys and values keeps a record: the log, then the offset, both
// so that keys sort as records do.
func key(log uint32, offset uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(make([]byte, 0, 12), log), offset)
}

// bounds are the first key of a log and the first behind it.
func bounds(log uint32) (low, high []byte) { return key(log, 0), key(log+1, 0) }
