package sidecar

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"path/filepath"
	"unicode/utf8"

	"felix.local/felix/device"
)

const (
	// KeysIndexName is the file in the directory of a cache's shard.
	KeysIndexName = "keys.idx"

	keysHeaderBytes = 35
	keysBytesMin    = keysHeaderBytes + crcBytes
	// keyFixedBytes of an entry are not its key: 4 in front, 28 behind.
	keyFixedBytes    = 32
	keyBehindBytes   = 28
	compositeMin     = 5        // a kind and a length
	compositeMax     = 64 << 20 // the key stands in one record
	keysBufferBytes  = 16 << 10
	keysStoreOfCache = 0
	keyKindOfCache   = 0
)

func keysKind() kind { return kind{KeysIndexName, 0x46584958, 1} } // "FXIX"

// castagnoli is the polynomial of this file's checksum; all others have that of
// CRC-32/ISO-HDLC.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// KeysHeader is what an index of keys says of its log.
type KeysHeader struct {
	// CoveredThrough is an offset: every record below it is reflected, none from it on.
	CoveredThrough uint64
	// LogBytes are the payload bytes of all records below it, live or not.
	LogBytes uint64
	// LastChecksum is that of the record in front of CoveredThrough, 0 without one.
	LastChecksum uint32
}

// KeysIndex maps each key of a cache's shard to the record that defines it.
type KeysIndex struct {
	KeysHeader
	// Entries ascend by their keys' lengths, and keys of one length by their bytes.
	Entries []KeyEntry
}

// KeyEntry is where a key's value is.
type KeyEntry struct {
	Key string
	// Offset is the record's. Version is what a conditional write compares.
	Offset, Version uint64
	// ExpiresAtMillis is the wall clock in milliseconds since 1970; 0 for never.
	ExpiresAtMillis uint64
	PayloadBytes    uint32
}

// KeysSummary is what can be said of an index of keys without holding it.
type KeysSummary struct {
	KeysHeader
	Entries uint64
	// OffsetMin and OffsetMax are the lowest and the highest offset of an entry; both
	// are 0 without one.
	OffsetMin, OffsetMax uint64
}

// AppendTo appends the bytes of the file. It appends nothing and fails with a
// *DecodeError for entries that could not be read back.
func (x KeysIndex) AppendTo(dst []byte) ([]byte, error) {
	start, out := len(dst), dst
	k := keysKind()
	out = binary.BigEndian.AppendUint32(out, k.magic)
	out = binary.BigEndian.AppendUint16(out, k.version)
	out = append(out, keysStoreOfCache)
	out = binary.BigEndian.AppendUint64(out, x.CoveredThrough)
	out = binary.BigEndian.AppendUint64(out, uint64(len(x.Entries)))
	out = binary.BigEndian.AppendUint64(out, x.LogBytes)
	out = binary.BigEndian.AppendUint32(out, x.LastChecksum)
	var before []byte
	for _, e := range x.Entries {
		key := append([]byte{keyKindOfCache}, binary.BigEndian.AppendUint32(nil, uint32(len(e.Key)))...)
		key = append(key, e.Key...)
		if len(key) > compositeMax {
			return dst, keyTooLong(uint64(len(key)))
		}
		if err := checkKey(before, key); err != nil {
			return dst, err
		}
		out = binary.BigEndian.AppendUint32(out, uint32(len(key)))
		out = append(out, key...)
		for _, field := range []uint64{e.Offset, e.Version, e.ExpiresAtMillis} {
			out = binary.BigEndian.AppendUint64(out, field)
		}
		out = binary.BigEndian.AppendUint32(out, e.PayloadBytes)
		before = key
	}
	return binary.BigEndian.AppendUint32(out, crc32.Checksum(out[start:], castagnoli())), nil
}

// checkKey checks a composite key, and that it belongs behind the one before it.
func checkKey(before, key []byte) error {
	switch {
	case len(key) < compositeMin || key[0] != keyKindOfCache || binary.BigEndian.Uint32(key[1:]) != uint32(len(key)-compositeMin):
		return contentError(KeysIndexName, "%x is no key of a cache", key[:min(len(key), 32)])
	case !utf8.Valid(key[compositeMin:]):
		return contentError(KeysIndexName, "the key %q is not UTF-8", key[compositeMin:min(len(key), 64)])
	case before != nil && bytes.Compare(before, key) >= 0:
		return contentError(KeysIndexName, "the key %q does not belong behind the one before it", key[compositeMin:min(len(key), 64)])
	}
	return nil
}

func keyTooLong(n uint64) error {
	return contentError(KeysIndexName, "a key of %d bytes, and none is longer than %d", n, compositeMax)
}

// DecodeKeysIndex reads an index of keys. The file is derived: on an error, a
// *DecodeError, its reader goes on without.
func DecodeKeysIndex(b []byte) (KeysIndex, error) {
	var x KeysIndex
	head, err := scanKeys(bytes.NewReader(b), int64(len(b)), func(key []byte, e KeyEntry) {
		e.Key = string(key[compositeMin:])
		x.Entries = append(x.Entries, e)
	})
	if err != nil {
		return KeysIndex{}, err
	}
	x.KeysHeader = head
	return x, nil
}

// LoadKeysIndex reads the index in the directory of a shard, through a buffer of a
// fixed size and one key, and tells what it holds; nil when there is none. On a
// *DecodeError its reader goes on without.
func LoadKeysIndex(disk device.FS, dir string) (*KeysSummary, error) {
	path := filepath.Join(dir, KeysIndexName)
	file, err := disk.OpenFile(path, device.ReadOnly, 0)
	if device.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s, err := summarizeKeys(file)
	var undecoded *DecodeError
	if errors.As(err, &undecoded) {
		undecoded.Path = path
	} else if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	return &s, nil
}

func summarizeKeys(file device.File) (s KeysSummary, err error) {
	size, err := file.Size()
	if err != nil {
		return s, err
	}
	s.KeysHeader, err = scanKeys(io.NewSectionReader(file, 0, size), size, func(_ []byte, e KeyEntry) {
		if s.Entries == 0 {
			s.OffsetMin = e.Offset
		}
		s.OffsetMin, s.OffsetMax = min(s.OffsetMin, e.Offset), max(s.OffsetMax, e.Offset)
		s.Entries++
	})
	return s, err
}

// keysScan reads an index of keys once, from the front.
type keysScan struct {
	r    io.Reader
	crc  hash.Hash32
	size int64
	// left are the bytes in front of the checksum that were not read.
	left int64
	// content is the first thing that is impossible; the checksum goes first.
	content error
	// fixed is what stands around a key.
	fixed [keyBehindBytes]byte
}

// scanKeys gives the entries as they are read: whether to believe them is known when
// it returns. key is the composite one, and is valid until each returns.
func scanKeys(r io.Reader, size int64, each func(key []byte, e KeyEntry)) (KeysHeader, error) {
	s := &keysScan{r: bufio.NewReaderSize(r, keysBufferBytes), crc: crc32.New(castagnoli()), size: size, left: size - crcBytes}
	head, count, err := s.header()
	if err != nil {
		return KeysHeader{}, err
	}
	var before, key []byte
	for range count {
		var e KeyEntry
		if key, e, err = s.entry(before, key); err != nil {
			return KeysHeader{}, err
		}
		if s.content == nil {
			each(key, e)
		}
		before, key = key, before
	}
	if err := s.end(); err != nil {
		return KeysHeader{}, err
	}
	return head, nil
}

// read reads on; what is read is in the file.
func (s *keysScan) read(b []byte) error {
	n, err := io.ReadFull(s.r, b)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("reading byte %d of %d: %w", s.size-s.left-crcBytes+int64(n), s.size, err)
	}
	s.crc.Write(b)
	s.left -= int64(len(b))
	return nil
}

func (s *keysScan) header() (head KeysHeader, count uint64, err error) {
	k := keysKind()
	b := make([]byte, min(s.size, keysHeaderBytes))
	if err := s.read(b); err != nil {
		return head, 0, err
	}
	if err := k.checkHead(b, keysBytesMin); err != nil {
		return head, 0, err
	}
	if s.size < keysBytesMin {
		return head, 0, &DecodeError{File: KeysIndexName, Problem: ErrShort, Found: uint64(s.size), Want: keysBytesMin}
	}
	if b[6] != keysStoreOfCache {
		s.content = contentError(KeysIndexName, "it is of store %d, and a cache's is %d", b[6], keysStoreOfCache)
	}
	count = binary.BigEndian.Uint64(b[15:])
	if count > uint64(s.left)/keyFixedBytes {
		return head, 0, &DecodeError{File: KeysIndexName, Problem: ErrShort, Detail: fmt.Sprintf("%d entries in %d bytes", count, s.size)}
	}
	head = KeysHeader{
		CoveredThrough: binary.BigEndian.Uint64(b[7:]), LogBytes: binary.BigEndian.Uint64(b[23:]),
		LastChecksum: binary.BigEndian.Uint32(b[31:]),
	}
	return head, count, nil
}

// entry reads the next entry, its key into buffer, which it may make longer.
func (s *keysScan) entry(before, buffer []byte) (key []byte, e KeyEntry, err error) {
	fixed := s.fixed[:]
	if s.left < keyFixedBytes {
		return nil, e, s.lacks(keyFixedBytes)
	}
	if err := s.read(fixed[:4]); err != nil {
		return nil, e, err
	}
	n := int64(binary.BigEndian.Uint32(fixed))
	switch {
	case s.left < n+keyBehindBytes:
		return nil, e, s.lacks(n + keyBehindBytes)
	case n > compositeMax:
		return nil, e, keyTooLong(uint64(n))
	}
	if int64(cap(buffer)) < n {
		buffer = make([]byte, n)
	}
	key = buffer[:n]
	if err := errors.Join(s.read(key), s.read(fixed)); err != nil {
		return nil, e, err
	}
	if s.content == nil {
		s.content = checkKey(before, key)
	}
	number := binary.BigEndian.Uint64
	return key, KeyEntry{
		Offset: number(fixed), Version: number(fixed[8:]), ExpiresAtMillis: number(fixed[16:]),
		PayloadBytes: binary.BigEndian.Uint32(fixed[24:]),
	}, nil
}

// lacks says that an entry of n more bytes does not fit.
func (s *keysScan) lacks(n int64) error {
	return &DecodeError{File: KeysIndexName, Problem: ErrShort, Found: uint64(s.size), Want: uint64(s.size - s.left + n)}
}

// end checks that nothing is left, then the checksum, then what was read.
func (s *keysScan) end() error {
	if s.left > 0 {
		return &DecodeError{File: KeysIndexName, Problem: ErrSize, Found: uint64(s.size), Want: uint64(s.size - s.left)}
	}
	computed := s.crc.Sum32()
	var stored [crcBytes]byte
	if err := s.read(stored[:]); err != nil {
		return err
	}
	if found := binary.BigEndian.Uint32(stored[:]); found != computed {
		return &DecodeError{File: KeysIndexName, Problem: ErrChecksum, Found: uint64(found), Want: uint64(computed)}
	}
	return s.content
}
