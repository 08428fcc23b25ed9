package recovery

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"

	"felix.local/felix/device"
	"felix.local/felix/segment"
)

// bufferBytes is the size of the one buffer that Inspect reads through.
const bufferBytes = 256 << 10

// reader looks at segments one after the other, through one buffer.
type reader struct {
	disk   device.FS
	s      *Snapshot
	p      Policy
	buffer []byte
}

// look reads what is cheap: the header and, unless a full walk is coming anyway,
// the records behind the last index entry.
func (r *reader) look(f *Facts, newest bool) error {
	file, err := r.open(f)
	if err != nil {
		return err
	}
	defer file.Close()
	head := r.buffer[:segment.HeaderSize]
	n, err := readAvailable(file, head, 0)
	if err != nil {
		return err
	}
	f.Blank = segment.HeaderBlank(head[:n])
	f.Header, err = segment.DecodeHeader(head[:n])
	if err != nil {
		if !errors.As(err, &f.HeaderProblem) {
			return err
		}
		f.HeaderProblem = f.HeaderProblem.At(r.s.Label, f.ID, 0)
		if f.Blank && f.Size > segment.HeaderSize {
			f.RestZero, err = allZero(file, segment.HeaderSize, f.Size, r.buffer)
			return err
		}
		return nil
	}
	if newest || r.p.VerifyAllOnOpen {
		return nil
	}
	return r.end(f, file)
}

// open opens a segment and notes its size.
func (r *reader) open(f *Facts) (device.File, error) {
	file, err := r.disk.OpenFile(r.path(segment.LogName(f.ID)), device.ReadOnly, 0)
	if err != nil {
		return nil, err
	}
	if f.Size, err = file.Size(); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

func (r *reader) path(name string) string { return filepath.Join(r.s.Dir, name) }

// end walks from the last index entry to the end of the file.
func (r *reader) end(f *Facts, file device.File) error {
	last, ok, err := r.lastEntry(f)
	if err != nil || !ok {
		return err
	}
	result, err := segment.Scan(file, f.Size, segment.ScanOptions{From: &last, Buffer: r.buffer})
	if err != nil {
		return err
	}
	result.Entries = nil
	f.End = &Walk{ScanResult: result}
	return nil
}

// lastEntry reads the last entry of a segment's index. An index that ends in a
// part of an entry is not taken: it is no longer what appending wrote.
func (r *reader) lastEntry(f *Facts) (last segment.IndexEntry, ok bool, err error) {
	index, err := r.disk.OpenFile(r.path(segment.IndexName(f.ID)), device.ReadOnly, 0)
	if device.IsNotExist(err) {
		return last, false, nil
	}
	if err != nil {
		return last, false, err
	}
	defer index.Close()
	size, err := index.Size()
	if err != nil || (size-segment.IndexHeaderSize)%segment.IndexEntrySize != 0 {
		return last, false, err
	}
	last, ok = segment.ReadLastIndexEntry(index, size, f.Header.BaseOffset)
	return last, ok && last.Position < f.Size, nil
}

// walk reads a whole segment. The index entries are kept for the newest
// segments only: with thousands of sealed ones to rebuild they would not fit in
// memory, and Apply reads those again.
func (r *reader) walk(f *Facts) error {
	file, err := r.open(f)
	if err != nil {
		return err
	}
	defer file.Close()
	o := segment.ScanOptions{Spacing: r.p.IndexSpacingBytes, Buffer: r.buffer}
	if r.p.Marked != nil && r.keepsEntries(f.ID) && f.HeaderProblem == nil {
		take := r.p.Marked(f.ID, f.Header.BaseOffset)
		o.MarkedOnly = true
		o.Each = func(_ int64, record segment.Record) error {
			take(record)
			return nil
		}
	}
	result, err := segment.Scan(file, f.Size, o)
	if err != nil {
		return err
	}
	f.Full = &Walk{ScanResult: result}
	f.Full.IndexSame, err = r.indexSame(f.ID, result)
	if r.keepsEntries(f.ID) {
		f.Full.HasEntries = true
	} else {
		f.Full.Entries = nil
	}
	return err
}

// keepsEntries says whether a segment is near enough to the end of the log to
// become the active one.
func (r *reader) keepsEntries(id uint64) bool {
	const candidates = 2
	n := len(r.s.Segments)
	return id >= r.s.Segments[max(0, n-candidates)].ID
}

// indexSame compares the index on disk with the one a walk found.
func (r *reader) indexSame(id uint64, result segment.ScanResult) (bool, error) {
	index, err := r.disk.OpenFile(r.path(segment.IndexName(id)), device.ReadOnly, 0)
	if device.IsNotExist(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer index.Close()
	return sameContent(index, result.Header.BaseOffset, result.Entries, r.buffer), nil
}

// sameContent reports whether an index file holds exactly these entries; one
// that cannot be read does not. The buffer's content is lost.
func sameContent(index device.File, base uint64, entries []segment.IndexEntry, buffer []byte) bool {
	size, err := index.Size()
	if err != nil || size != indexBytes(entries) {
		return false
	}
	var position int64
	for piece := range indexPieces(base, entries) {
		found := buffer[:len(piece)]
		n, err := readAvailable(index, found, position)
		if err != nil || n != len(piece) || !bytes.Equal(found, piece) {
			return false
		}
		position += int64(n)
	}
	return true
}

// allZero reports whether [from, to) of a file holds zeros only.
func allZero(file io.ReaderAt, from, to int64, buffer []byte) (bool, error) {
	for from < to {
		piece := buffer[:min(int64(len(buffer)), to-from)]
		n, err := readAvailable(file, piece, from)
		if err != nil {
			return false, err
		}
		if n == 0 {
			return false, io.ErrUnexpectedEOF
		}
		if !zeros(piece[:n]) {
			return false, nil
		}
		from += int64(n)
	}
	return true, nil
}

func zeros(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// readAvailable fills b as far as the file goes.
func readAvailable(file io.ReaderAt, b []byte, position int64) (int, error) {
	n, err := file.ReadAt(b, position)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}
