package sidecar

import (
	"encoding/binary"
	"hash/crc32"
)

// Every binary file begins with a magic number and a version.
const (
	kindBytes = 6
	crcBytes  = 4
)

// kind is what a file of one sort begins with.
type kind struct {
	file    string
	magic   uint32
	version uint16
}

// appendHead appends magic and version, and what stands in the two bytes behind.
func (k kind) appendHead(dst []byte, word uint16) []byte {
	dst = binary.BigEndian.AppendUint32(dst, k.magic)
	dst = binary.BigEndian.AppendUint16(dst, k.version)
	return binary.BigEndian.AppendUint16(dst, word)
}

// appendChecksum appends the CRC-32 of what dst holds from start on.
func appendChecksum(dst []byte, start int) []byte {
	return binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(dst[start:]))
}

// checkHead checks the magic and the version. size is told to who wrote too
// little to know them.
func (k kind) checkHead(b []byte, size int) error {
	if len(b) < kindBytes {
		return k.short(b, size)
	}
	if magic := binary.BigEndian.Uint32(b); magic != k.magic {
		return &DecodeError{File: k.file, Problem: ErrMagic, Found: uint64(magic), Want: uint64(k.magic)}
	}
	if version := binary.BigEndian.Uint16(b[4:]); version != k.version {
		return &DecodeError{File: k.file, Problem: ErrVersion, Found: uint64(version), Want: uint64(k.version)}
	}
	return nil
}

// checkWhole checks that b is exactly size bytes, the last four being the
// checksum of those before.
func (k kind) checkWhole(b []byte, size int) error {
	switch {
	case len(b) < size:
		return k.short(b, size)
	case len(b) > size:
		return &DecodeError{File: k.file, Problem: ErrSize, Found: uint64(len(b)), Want: uint64(size)}
	}
	return k.checkSum(b[:size-crcBytes], binary.BigEndian.Uint32(b[size-crcBytes:]))
}

func (k kind) checkSum(covered []byte, stored uint32) error {
	if computed := crc32.ChecksumIEEE(covered); computed != stored {
		return &DecodeError{File: k.file, Problem: ErrChecksum, Found: uint64(stored), Want: uint64(computed)}
	}
	return nil
}

func (k kind) short(b []byte, size int) error {
	return &DecodeError{File: k.file, Problem: ErrShort, Found: uint64(len(b)), Want: uint64(size)}
}
