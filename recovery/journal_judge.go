package recovery

import (
	"fmt"
	"math"

	"felix.local/felix/journal"
	"felix.local/felix/segment"
)

// standing is what a segment was found to be.
type standing struct {
	missing bool
	size    int64
	// problem is what is wrong with the header; headerCRC and base are its own.
	problem   *segment.Corruption
	headerCRC uint32
	base      uint64
	// validEnd is the end of the intact records, next the offset that belongs there
	// as far as that is known. whole says that every record up to there was read, so
	// that nothing is believed.
	validEnd  int64
	next      uint64
	nextKnown bool
	whole     bool
}

// objection is a reason against an extent. position is a byte of the segment.
type objection struct {
	position int64
	reason   string
	cause    error
}

// begin judges whether a segment is the one that the journal speaks of, and starts
// its plan.
func (s *JournalShard) begin(x *extent, found standing) *objection {
	switch {
	case found.missing:
		return &objection{position: x.position, reason: "the segment does not exist, and the journal does not say that it was removed"}
	case found.problem != nil:
		return &objection{reason: "the segment's header is damaged", cause: found.problem}
	case found.base != x.base:
		return &objection{reason: fmt.Sprintf("the segment begins at offset %d, and the journal is about one that begins at %d", found.base, x.base)}
	case found.headerCRC != x.headerCRC:
		return &objection{reason: fmt.Sprintf("the segment is another one of that number: the checksum of its header is 0x%08x, in the journal 0x%08x", found.headerCRC, x.headerCRC)}
	}
	g := JournalSegment{Segment: x.segment, Position: x.position, First: x.first, Size: found.size, headerCRC: x.headerCRC, base: x.base}
	g.stands(found)
	s.Segments = append(s.Segments, g)
	return nil
}

// vouched says whether a mark may be believed about where records end, until
// something speaks against it. One that vouches for more than there is may not.
func (f *standing) vouched(synced int64) bool {
	return synced == math.MaxInt64 || synced >= segment.HeaderSize && synced <= f.size
}

// stands takes where the intact records end.
func (s *JournalSegment) stands(found standing) {
	s.ValidEnd, s.whole = found.validEnd, found.whole
	if s.Entries == 0 || found.validEnd >= s.End {
		s.end, s.next, s.nextKnown = found.validEnd, found.next, found.nextKnown || found.whole
	}
}

// doubts says whether an extent is reason to read all records of the segment: the
// offset where it goes on is not known, or the file differs below what the mark
// vouches for. Another engine may have written there, and then all of it is intact;
// or a replay that was interrupted brought a file that had lost vouched bytes back to
// its length, with holes.
func (s *JournalSegment) doubts(x *extent, differs int64) bool {
	return !s.whole && (differs >= 0 || x.position == s.end && !s.nextKnown)
}

// take judges the next extent of a segment. differs is the first position below the
// valid end at which the file holds something else, -1 when there is none.
func (s *JournalSegment) take(x *extent, differs int64) *objection {
	switch {
	case x.headerCRC != s.headerCRC || x.base != s.base:
		return &objection{position: x.position, reason: "the journal holds entries of two segments of that number, and no fence between them"}
	case s.Entries > 0 && x.position < s.End:
		return &objection{position: x.position, reason: fmt.Sprintf("the journal's entries overlap: one ends at position %d", s.End)}
	case x.position > s.end:
		return &objection{position: s.end, reason: fmt.Sprintf("records are missing in front of those in the journal: "+
			"the intact ones end at position %d, the journal goes on at %d", s.end, x.position)}
	case differs >= 0:
		return &objection{position: differs, reason: "the segment holds other bytes than the journal: " +
			"another program wrote to it since this engine stopped, or the bytes rotted"}
	case x.position == s.end && x.first != s.next:
		return &objection{position: x.position, reason: fmt.Sprintf("offset %d belongs there, and the journal goes on with %d", s.next, x.first)}
	}
	s.Entries += x.entries()
	s.End, s.Last = x.end(), x.last
	if s.End > s.end {
		s.end, s.next = s.End, x.last+1
	}
	return nil
}

// cutsZeros says whether zeros behind the last entry may be cut: nothing says that
// anything was ever there. Whatever else follows is left for opening the shard to
// judge, which knows more and keeps a copy of what it cuts.
func (s *JournalSegment) cutsZeros(onlyZeros bool, marks evidence) bool {
	return onlyZeros && s.Size > s.End && s.End >= marks.syncedThrough(s.Segment)
}

// holdsRecords judges whether an entry is what it says: whole records, in a row.
func holdsRecords(e *journal.Entry) *objection {
	position, offset := e.Position, e.First
	for b := e.Bytes; len(b) > 0; offset++ {
		h, err := segment.DecodeRecordHeader(b)
		switch {
		case err != nil:
			return &objection{position: position, reason: "the entry does not hold whole records", cause: err}
		case h.Size() > int64(len(b)):
			return &objection{position: position, reason: "the entry ends within a record"}
		case h.Offset != offset:
			return &objection{position: position, reason: fmt.Sprintf("the entry holds offset %d where %d belongs", h.Offset, offset)}
		}
		b, position = b[h.Size():], position+h.Size()
	}
	if offset != e.Last+1 {
		return &objection{position: position, reason: fmt.Sprintf("the entry ends before offset %d and says that it holds %d", offset, e.Last)}
	}
	return nil
}
