package segment

import (
	"errors"
	"io"
	"math"
)

// ScanOptions says how to walk a segment.
type ScanOptions struct {
	// Spacing is the index spacing in bytes. Zero builds no index.
	Spacing int64
	// From resumes the walk at an index entry instead of at the first record.
	// The record there must have the entry's offset.
	From *IndexEntry
	// Buffer is used for reading if it holds at least 4 KiB; otherwise one of
	// DefaultBufferBytes (256 KiB) is allocated.
	Buffer []byte
	// DamageOnly leaves out what is found by looking behind damage: ZeroFrom and
	// IntactAfter stay zero. For who goes on there by itself.
	DamageOnly bool
	// Each is called for every intact record. The payload is only valid until
	// it returns. An error ends the scan and is returned as it is.
	Each func(pos int64, r Record) error
	// MarkedOnly leaves out of Each all records but those with a mark of a producer.
	MarkedOnly bool
}

// wants says whether Each is called for records of a kind.
func (o *ScanOptions) wants(kind Kind) bool {
	return o.Each != nil && (!o.MarkedOnly || kind == BatchOpen || kind == BatchContinue)
}

// ScanResult is what a walk over a segment found.
type ScanResult struct {
	Header Header
	// Size is the number of bytes that were to be walked.
	Size int64
	// ValidEnd is the position one past the last intact record.
	ValidEnd int64
	// NextOffset is the offset that belongs at ValidEnd; the base offset when
	// there is no record.
	NextOffset uint64
	// Records is the number of intact records walked.
	Records uint64
	// FirstTimestampMicros and NewestTimestampMicros are those of the first
	// and the last record walked, 0 when there is none.
	FirstTimestampMicros, NewestTimestampMicros uint64
	// MaxVersionNeeded is the lowest segment version that may hold all records
	// walked.
	MaxVersionNeeded uint16
	// Entries and Since are the index as appending would have left it: Since
	// is where an IndexBuilder goes on. After a resumed scan, Entries starts
	// with the entry it was resumed at.
	Entries []IndexEntry
	Since   int64
	// Damage is nil when every byte up to Size belongs to an intact record.
	Damage *Damage
}

// Scan walks the first size bytes of a segment and verifies every record. A bad
// segment header is returned as *Corruption, a failed read as the reader's
// error; damage further on is in the result.
//
// Memory is bounded by the buffer; with Each it may grow to hold one record,
// after the record's header was verified and found to fit in the file.
func Scan(r io.ReaderAt, size int64, o ScanOptions) (ScanResult, error) {
	s := scanner{w: newWindow(r, size, o.Buffer), o: o, index: IndexBuilder{Spacing: o.Spacing}}
	s.res.Size = size
	if err := s.start(); err != nil {
		return s.res, err
	}
	err := s.walk()
	s.res.Since = s.index.Since
	return s.res, err
}

type scanner struct {
	w     *window
	o     ScanOptions
	index IndexBuilder
	res   ScanResult
}

// start reads the header and decides where the walk begins.
func (s *scanner) start() error {
	var b []byte
	if s.res.Size > 0 {
		var err error
		if b, err = s.w.need(0, int(min(HeaderSize, s.res.Size))); err != nil {
			return err
		}
	}
	h, err := DecodeHeader(b)
	if err != nil {
		var c *Corruption
		if errors.As(err, &c) {
			c.setPosition(0)
		}
		return err
	}
	s.res.Header, s.res.MaxVersionNeeded = h, VersionOldest
	s.res.ValidEnd, s.res.NextOffset = HeaderSize, h.BaseOffset
	if s.o.From != nil {
		s.res.ValidEnd, s.res.NextOffset = s.o.From.Position, s.o.From.Offset
	}
	return nil
}

// walk goes from record to record until the end or the first damage.
func (s *scanner) walk() error {
	if from := s.o.From; from != nil && (from.Position < HeaderSize || from.Position >= s.res.Size) {
		// The entry promises a record where there is no room for one.
		s.res.ValidEnd = min(max(from.Position, HeaderSize), s.res.Size)
		left := s.res.Size - s.res.ValidEnd
		return s.damaged(RecordHeader{}, corruptionAt(s.res.ValidEnd, Truncated, RecordHeaderSize, uint64(left)))
	}
	for {
		if err := s.buffered(); err != nil {
			return err
		}
		if s.res.ValidEnd == s.res.Size {
			return nil
		}
		h, damage, err := s.record(s.res.ValidEnd)
		if err != nil {
			return err
		}
		if damage != nil {
			return s.damaged(h, damage)
		}
	}
}

// buffered takes the intact records that are in memory whole. It judges
// nothing: at the first record that is not, it leaves the rest to record.
func (s *scanner) buffered() error {
	pos := s.res.ValidEnd
	b := s.w.at(pos)
	for len(b) >= RecordHeaderSize {
		h, verdict := parseRecordHeader(b)
		size := h.Size()
		if verdict != 0 || size > int64(len(b)) || recordChecksum(b[:size]) != h.Checksum ||
			h.Offset != s.res.NextOffset || h.Offset == math.MaxUint64 {
			return nil
		}
		if s.o.wants(h.Kind) {
			if err := s.o.Each(pos, assemble(h, b[:size])); err != nil {
				return err
			}
		}
		s.take(pos, h)
		b, pos = b[size:], pos+size
	}
	return nil
}

// record verifies the record at pos and takes it into the result.
func (s *scanner) record(pos int64) (RecordHeader, *Corruption, error) {
	h, b, damage, err := s.w.header(pos)
	if damage != nil || err != nil {
		return h, damage, err
	}
	size := h.Size()
	if s.o.wants(h.Kind) && size > int64(len(b)) {
		if b, err = s.whole(pos, size); err != nil {
			return h, nil, err
		}
	}
	var sum uint32
	if size <= int64(len(b)) {
		sum = recordChecksum(b[:size])
	} else if sum, err = s.w.checksum(pos, h); err != nil {
		return h, nil, err
	}
	if sum != h.Checksum {
		return h, corruptionAt(pos, RecordChecksum, uint64(h.Checksum), uint64(sum)), nil
	}
	if damage = checkOffset(pos, s.res.NextOffset, h.Offset); damage != nil {
		return h, damage, nil
	}
	if s.o.wants(h.Kind) {
		if err := s.o.Each(pos, assemble(h, b[:size])); err != nil {
			return h, nil, err
		}
	}
	s.take(pos, h)
	return h, nil, nil
}

// whole brings a record of size bytes into memory in one piece. Its header was
// verified and the file is known to hold that much.
func (s *scanner) whole(pos, size int64) ([]byte, error) {
	if size > int64(len(s.w.buf)) {
		s.w.buf = make([]byte, size)
	}
	return s.w.need(pos, int(size))
}

func (s *scanner) take(pos int64, h RecordHeader) {
	if s.res.Records == 0 {
		s.res.FirstTimestampMicros = h.TimestampMicros
	}
	s.res.NewestTimestampMicros = h.TimestampMicros
	s.res.Records++
	s.res.NextOffset = h.Offset + 1
	s.res.ValidEnd = pos + h.Size()
	if v := RequiredVersion(h.Kind); v > s.res.MaxVersionNeeded {
		s.res.MaxVersionNeeded = v
	}
	if s.o.Spacing > 0 {
		if e, ok := s.index.Observe(h.Offset, pos, h.Size()); ok {
			s.res.Entries = append(s.res.Entries, e)
		}
	}
}
