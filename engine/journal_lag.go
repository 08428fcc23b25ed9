package engine

import (
	"io"
	"math/bits"
	"sync"

	"felix.local/felix/journal"
	"felix.local/felix/segment"
)

// segmentBegins is where the first record of a segment stands.
const segmentBegins = int64(segment.HeaderSize)

// What lags of a log grows from lagBytesMin, by doubling, in memory that all logs
// share: it is full and empty again some times a second, and as garbage it would cost
// a tenth of what the journal costs.
const (
	lagBytesMin = 4 << 10
	lagClasses  = 10 // up to 2 MiB
)

var lagMemory [lagClasses]sync.Pool

func lagClass(n int) int { return bits.Len(uint(max(n-1, 0) / lagBytesMin)) }

// takeLagMemory gives empty memory for at least n bytes.
func takeLagMemory(n int) []byte {
	class := lagClass(n)
	if class >= lagClasses {
		return make([]byte, 0, n)
	}
	if held, ok := lagMemory[class].Get().(*[]byte); ok {
		return (*held)[:0]
	}
	return make([]byte, 0, lagBytesMin<<class)
}

// giveLagMemory gives memory of takeLagMemory back; nobody may look at it any more.
func giveLagMemory(b []byte) {
	if class := lagClass(cap(b)); cap(b) > 0 && class < lagClasses {
		lagMemory[class].Put(&b)
	}
}

// lag is what the journal made durable of the active segment and the segment itself
// does not hold durably yet. It ends where the segment ends. Bytes that a reader was
// lent are never changed.
type lag struct {
	// writing is under way to the segment, staged follows it; lent says that a reader
	// has a slice of them.
	writing, staged         []byte
	writingLent, stagedLent bool
}

func (g *lag) bytes() int64 { return int64(len(g.writing) + len(g.staged)) }

func (g *lag) add(b []byte) {
	if need := len(g.staged) + len(b); need > cap(g.staged) {
		bigger := append(takeLagMemory(max(need, 2*cap(g.staged))), g.staged...)
		if !g.stagedLent {
			giveLagMemory(g.staged)
		}
		g.staged, g.stagedLent = bigger, false
	}
	g.staged = append(g.staged, b...)
}

// begin takes what is staged as what is written.
func (g *lag) begin() []byte {
	g.writing, g.writingLent = g.staged, g.stagedLent
	g.staged, g.stagedLent = nil, false
	return g.writing
}

// end drops what was written: the segment holds it.
func (g *lag) end() {
	if !g.writingLent {
		giveLagMemory(g.writing)
	}
	g.writing = nil
}

// lend gives a reader the bytes, which begin at a position of the segment.
func (g *lag) lend(from int64) lagReader {
	g.writingLent, g.stagedLent = true, true
	return lagReader{from: from, writing: g.writing, staged: g.staged}
}

// durableSize is the position up to which records are durable, in the segment or in
// the journal.
func (w *writer) durableSize() int64 { return max(w.synced, w.journaled) }

// filed is the position up to which the file itself holds the records.
func (w *writer) filed() int64 { return w.size - w.lag.bytes() }

// headerCRC tells this segment from another one of its id. The commit loop calls it.
func (w *writer) headerCRC() uint32 {
	if w.headerSum == 0 {
		header := segment.Header{Version: w.version, BaseOffset: w.base, CreatedAtMicros: w.createdAt}
		w.headerSum = journal.Checksum(header.AppendTo(nil))
	}
	return w.headerSum
}

// lagReader reads a segment whose end is still in memory.
type lagReader struct {
	file io.ReaderAt
	// from is where writing stands in the segment; staged follows it.
	from            int64
	writing, staged []byte
}

// ReadAt follows io.ReaderAt.
func (r lagReader) ReadAt(p []byte, pos int64) (n int, err error) {
	if pos < r.from {
		n, err = r.file.ReadAt(p[:min(int64(len(p)), r.from-pos)], pos)
		if err != nil && (err != io.EOF || pos+int64(n) < r.from) || n == len(p) {
			return n, err
		}
		pos += int64(n)
	}
	at := pos - r.from
	for _, part := range [][]byte{r.writing, r.staged} {
		if at < int64(len(part)) {
			n += copy(p[n:], part[max(at, 0):])
		}
		at -= int64(len(part))
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
