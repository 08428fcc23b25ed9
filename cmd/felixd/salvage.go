package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"felix.local/felix/segment"
)

// export prints the records of files in order. next is the offset that belongs
// at the current place, known once a header or an index told.
func (d *dump) export(files []dumpFile) error {
	next, known := uint64(0), false
	for _, file := range files {
		if known && next > d.To {
			return nil
		}
		s := salvage{dump: d, path: file.path, next: next, known: known}
		if err := s.file(file.size); err != nil {
			return err
		}
		next, known = s.next, s.known
	}
	return nil
}

// salvage prints one file. Damage ends it with an error, or is passed over as a
// gap when the dump skips damage.
type salvage struct {
	*dump
	path  string
	r     io.ReaderAt
	size  int64
	shift int64 // bytes that a made-up header stands before the file's first
	next  uint64
	known bool
}

// file prints size bytes of a file, all of them for -1.
func (s *salvage) file(size int64) error {
	// Without O_NONBLOCK a FIFO keeps the open waiting for somebody to write.
	f, err := os.OpenFile(s.path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file, and what is read from it would not be a segment", s.path)
	}
	if size < 0 {
		size = info.Size()
	}
	return s.read(f, size)
}

// read prints the size bytes of r. The work is proportional to those, with a
// buffer or two more for each gap.
func (s *salvage) read(r io.ReaderAt, size int64) error {
	s.r, s.size = r, size
	pos, err := s.start()
	if err != nil {
		return err
	}
	for pos < s.size {
		if pos, err = s.stretch(pos); err != nil {
			return err
		}
	}
	return nil
}

// start reads the header and returns where the records begin.
func (s *salvage) start() (int64, error) {
	head := make([]byte, segment.HeaderSize)
	n, err := s.r.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	header, err := segment.DecodeHeader(head[:n])
	if err != nil {
		if !s.SkipDamaged {
			return 0, s.refuse(err, 0)
		}
		return s.headless(err)
	}
	if s.known && header.BaseOffset != s.next {
		reason := fmt.Sprintf("the segment starts at offset %d", header.BaseOffset)
		if !s.SkipDamaged {
			return 0, s.refuse(errors.New(reason), 0)
		}
		if err := s.gap(0, 0, &header.BaseOffset, reason); err != nil {
			return 0, err
		}
	}
	s.next, s.known = header.BaseOffset, true
	return segment.HeaderSize, nil
}

// headless prepares a file whose header is no use: a made-up one is put in
// front of all its bytes, and the first record is searched for.
func (s *salvage) headless(cause error) (int64, error) {
	pos, offset, found, err := s.firstRecord()
	if err != nil {
		return 0, err
	}
	if !found {
		return s.size, s.gap(0, s.size, nil, cause.Error())
	}
	if pos > 0 || s.known && offset != s.next {
		if err := s.gap(0, pos, &offset, cause.Error()); err != nil {
			return 0, err
		}
	}
	s.next, s.known = offset, true
	header := segment.Header{Version: segment.VersionNewest, BaseOffset: offset}.AppendTo(nil)
	s.r, s.shift = &prefixed{head: header, body: s.r}, segment.HeaderSize
	s.size += s.shift
	return pos + s.shift, nil
}

// firstRecord searches for the first intact record, at first for one that belongs
// here if that is known.
func (s *salvage) firstRecord() (pos int64, offset uint64, found bool, err error) {
	if s.known {
		pos, found, err = segment.Resync(s.r, 0, s.size, s.next)
	}
	if err == nil && !found {
		pos, found, err = segment.Resync(s.r, 0, s.size, 0)
	}
	if err == nil && found {
		offset, err = s.offsetAt(pos)
	}
	return pos, offset, found, err
}

// stretch prints the run of intact records at pos and returns where the next
// run begins, the end of the file when there is none.
func (s *salvage) stretch(pos int64) (int64, error) {
	result, err := segment.Scan(s.r, s.size, segment.ScanOptions{
		// Where the first record has an offset of its own, that counts and not the
		// header's: going by the header would find the same damage for ever.
		From:       &segment.IndexEntry{Offset: s.next, Position: pos},
		DamageOnly: true,
		Each:       func(_ int64, r segment.Record) error { return s.emitRecord(r) },
	})
	if err != nil {
		return 0, err
	}
	s.next = result.NextOffset
	damage := result.Damage
	if damage == nil {
		return s.size, nil
	}
	if !s.SkipDamaged {
		return 0, s.refuse(damage.Cause, damage.Position)
	}
	at, found, err := s.resume(damage)
	if err != nil {
		return 0, err
	}
	if !found {
		return s.size, s.gap(damage.Position-s.shift, s.size-s.shift, nil, damage.Cause.Error())
	}
	offset, err := s.offsetAt(at)
	if err != nil {
		return 0, err
	}
	if err := s.gap(damage.Position-s.shift, at-s.shift, &offset, damage.Cause.Error()); err != nil {
		return 0, err
	}
	s.next = offset
	return at, nil
}

// resume finds the record to go on with behind damage.
func (s *salvage) resume(damage *segment.Damage) (at int64, found bool, err error) {
	from := damage.Position + 1
	switch cause := damage.Cause; cause.Kind {
	case segment.RecordChecksum, segment.Truncated:
		// The length was vouched for; what lies inside the payload is no record.
		from = damage.ClaimedEnd
	case segment.OffsetOutOfOrder:
		// Intact, and records in front of it are missing. The last 64-bit offset
		// is out of order even where it is expected: going back to it then would
		// never end.
		if cause.Found > cause.Expected {
			return damage.Position, true, nil
		}
	}
	at, found, err = segment.ResyncNear(s.r, damage.Position, from, s.size, s.next)
	if err != nil || found {
		return at, found, err
	}
	return segment.Resync(s.r, from, s.size, s.next)
}

// offsetAt is the offset of the record at pos, which is known to be intact.
func (s *salvage) offsetAt(pos int64) (uint64, error) {
	var head [segment.RecordHeaderSize]byte
	if _, err := s.r.ReadAt(head[:], pos); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	h, err := segment.DecodeRecordHeader(head[:])
	return h.Offset, err
}

func (s *salvage) gap(position, end int64, next *uint64, reason string) error {
	return s.emitGap(gapEvent{
		File: filepath.Base(s.path), Position: position, End: end,
		OffsetExpected: s.next, OffsetNext: next, Reason: reason,
	})
}

func (s *salvage) refuse(cause error, position int64) error {
	return &exitError{code: exitRefused, err: fmt.Errorf(
		"%s at position %d: %w; --skip-damaged exports what is readable", s.path, position, cause)}
}

// prefixed is head followed by body.
type prefixed struct {
	head []byte
	body io.ReaderAt
}

// ReadAt implements io.ReaderAt.
func (p *prefixed) ReadAt(b []byte, pos int64) (int, error) {
	n := 0
	if pos < int64(len(p.head)) {
		n = copy(b, p.head[pos:])
		if n == len(b) {
			return n, nil
		}
	}
	m, err := p.body.ReadAt(b[n:], pos+int64(n)-int64(len(p.head)))
	return n + m, err
}
