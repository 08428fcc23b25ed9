package recovery

import (
	"iter"
	"path/filepath"

	"felix.local/felix/device"
	"felix.local/felix/segment"
)

// indexPieceEntries bounds the memory that writing or comparing an index takes.
const indexPieceEntries = 4096

func indexBytes(entries []segment.IndexEntry) int64 {
	return segment.IndexHeaderSize + int64(len(entries))*segment.IndexEntrySize
}

// indexPieces gives the bytes of an index file in pieces, each valid until the
// next.
func indexPieces(base uint64, entries []segment.IndexEntry) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		piece := segment.AppendIndexHeader(make([]byte, 0, segment.IndexHeaderSize+min(len(entries), indexPieceEntries)*segment.IndexEntrySize), base)
		for len(entries) > indexPieceEntries {
			for _, e := range entries[:indexPieceEntries] {
				piece = segment.AppendIndexEntry(piece, e)
			}
			entries = entries[indexPieceEntries:]
			if !yield(piece) {
				return
			}
			piece = piece[:0]
		}
		for _, e := range entries {
			piece = segment.AppendIndexEntry(piece, e)
		}
		yield(piece)
	}
}

// writeIndex writes a whole index in place and flushes it. The file is emptied
// first, so that a crash on the way leaves a short index or zeros, and never old
// entries between new ones; either is rebuilt at the next open.
func writeIndex(disk Disk, dir string, id, base uint64, entries []segment.IndexEntry, p Policy) error {
	f, err := disk.FS.OpenFile(filepath.Join(dir, segment.IndexName(id)), device.OpenOrCreate, p.FileMode)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(0); err != nil {
		return err
	}
	var position int64
	for piece := range indexPieces(base, entries) {
		if err := disk.write(f, piece, position); err != nil {
			return err
		}
		position += int64(len(piece))
	}
	return disk.flush(f)
}
