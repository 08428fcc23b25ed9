package recovery

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"path/filepath"
	"slices"

	"felix.local/felix/device"
	"felix.local/felix/journal"
	"felix.local/felix/segment"
)

// InspectJournal says what a replay of the root's commit journal would do, and
// changes nothing; nil when there is no journal, or an empty one. A journal that
// must not be replayed is a plan with refusals. An error is a failed read.
//
// Memory is bounded by one frame, one reference for each frame, 32 MiB of record
// bytes, and what the plan holds: a few words for each segment that the journal
// speaks of.
func InspectJournal(disk device.FS, root string, p Policy) (*JournalPlan, error) {
	if err := p.withDefaults().validate(); err != nil {
		return nil, err
	}
	i, err := newJournalInspector(disk, root, device.ReadOnly)
	if i == nil || err != nil {
		return nil, err
	}
	defer i.close()
	if err := i.scan(); err != nil {
		return nil, err
	}
	return i.plan, i.judge()
}

// journalInspector reads the journal and the segments it speaks of.
type journalInspector struct {
	disk device.FS
	plan *JournalPlan
	// files is nil when the journal is not whole; then the plan refuses.
	files  *journalFiles
	chain  *journal.Chain
	fences fences
	// spokenOf are the segments with entries, whether these count or not.
	spokenOf map[string][]uint64
	buffer   []byte
	// budget is gatherBytes.
	budget int
}

// newJournalInspector gives nil when there is nothing to replay.
func newJournalInspector(disk device.FS, root string, mode device.OpenMode) (*journalInspector, error) {
	i := &journalInspector{
		disk: disk, plan: &JournalPlan{Root: root}, fences: make(fences),
		spokenOf: make(map[string][]uint64), buffer: make([]byte, bufferBytes), budget: gatherBytes,
	}
	var err error
	if i.files, err = openJournal(disk, root, mode); err != nil {
		return i, i.refused(err)
	}
	if i.files == nil {
		return nil, nil
	}
	i.plan.Current = i.files.current
	return i, nil
}

func (i *journalInspector) close() error {
	if i.files == nil {
		return nil
	}
	return i.files.close()
}

// refused takes a reason to refuse into the plan; any other error stays one.
func (i *journalInspector) refused(err error) error {
	var reason *JournalError
	if !errors.As(err, &reason) {
		return err
	}
	i.plan.refuse(reason)
	return nil
}

// scan finds the chain, the fences in it and the segments it speaks of.
func (i *journalInspector) scan() (err error) {
	if i.plan.Refused() {
		return nil
	}
	if i.chain, err = i.files.scan(); err != nil {
		return i.refused(err)
	}
	if refs := i.chain.Frames(); len(refs) > 0 {
		i.plan.Frames, i.plan.First, i.plan.Last = len(refs), refs[0].Sequence, refs[len(refs)-1].Sequence
	}
	frame := -1
	return i.refused(rotten(i.chain.Each(func(_ journal.Header, entries []journal.Entry) error {
		frame++
		for n, e := range entries {
			if e.Kind == journal.Fence {
				i.plan.Fences++
				i.fences.add(e.Shard, place{frame, n}, e.Segment)
				continue
			}
			i.plan.Entries++
			if list := i.spokenOf[e.Shard]; !slices.Contains(list, e.Segment) {
				i.spokenOf[e.Shard] = append(list, e.Segment)
			}
		}
		return nil
	})))
}

// judge fills the plan in. The reads are here, the verdicts are those of
// journal_judge.go.
func (i *journalInspector) judge() error {
	if i.plan.Refused() {
		return nil
	}
	shards := make(map[string]*JournalShard)
	counted := uint64(0)
	take := func(e *journal.Entry, frame int) bool {
		counted++
		s := shards[e.Shard]
		if s == nil {
			s = &JournalShard{Shard: e.Shard}
			shards[e.Shard] = s
		}
		if o := holdsRecords(e); o != nil {
			i.object(s, e.Segment, frame, o)
		}
		return !s.refused
	}
	err := gather(i.chain, i.fences, i.budget, take, func(name string, x *extent) error {
		s := shards[name]
		if s.refused {
			return nil
		}
		o, err := i.extent(s, x)
		if o != nil {
			i.object(s, x.segment, x.frameAt(o.position), o)
		}
		return err
	})
	if err != nil {
		return i.refused(rotten(err))
	}
	i.plan.Void = i.plan.Entries - counted
	for _, name := range slices.Sorted(maps.Keys(shards)) {
		s := shards[name]
		if err := i.tails(s); err != nil {
			return err
		}
		i.plan.Shards = append(i.plan.Shards, *s)
	}
	return nil
}

// object refuses a shard.
func (i *journalInspector) object(s *JournalShard, id uint64, frame int, o *objection) {
	if s.refused {
		return
	}
	s.refused = true
	ref := i.chain.Frames()[frame]
	i.plan.refuse(&JournalError{
		File: i.files.files[ref.File].Name(), Position: ref.Position, Shard: s.Shard, Segment: id,
		SegmentPosition: o.position, Reason: o.reason, Remedy: remedyShard, Cause: o.cause,
	})
}

func (i *journalInspector) dir(shard string) string { return filepath.Join(i.plan.Root, shard) }

// extent looks at what a segment holds where an extent goes.
func (i *journalInspector) extent(s *JournalShard, x *extent) (o *objection, err error) {
	f, err := i.disk.OpenFile(filepath.Join(i.dir(s.Shard), segment.LogName(x.segment)), device.ReadOnly, 0)
	if device.IsNotExist(err) {
		return s.begin(x, standing{missing: true}), nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	g := s.segment(x.segment)
	if g == nil {
		if s.Mark, err = readMark(i.disk, i.dir(s.Shard)); err != nil {
			return nil, err
		}
		found, err := i.stands(f, x.segment, evidence{s.Mark})
		if err != nil {
			return nil, err
		}
		if o := s.begin(x, found); o != nil {
			return o, nil
		}
		g = s.segment(x.segment)
	}
	differs, err := i.differs(f, x, g.ValidEnd)
	if err != nil {
		return nil, err
	}
	if g.doubts(x, differs) {
		if err := i.walkWhole(f, g); err != nil {
			return nil, err
		}
		if differs, err = i.differs(f, x, g.ValidEnd); err != nil {
			return nil, err
		}
	}
	return g.take(x, differs), nil
}

// stands finds out where the intact records of a segment end, where the mark spares
// it a walk over all of them.
func (i *journalInspector) stands(f device.File, id uint64, marks evidence) (found standing, err error) {
	if found.size, err = f.Size(); err != nil {
		return found, err
	}
	head := i.buffer[:segment.HeaderSize]
	n, err := readAvailable(f, head, 0)
	if err != nil {
		return found, err
	}
	h, err := segment.DecodeHeader(head[:n])
	if err != nil {
		if !errors.As(err, &found.problem) {
			return found, err
		}
		return found, nil
	}
	found.base, found.headerCRC = h.BaseOffset, journal.Checksum(head)
	synced := marks.syncedThrough(id)
	if found.vouched(synced) {
		found.validEnd = min(synced, found.size)
		return found, i.walkFrom(f, &found)
	}
	found.whole = true
	result, err := segment.Scan(f, found.size, segment.ScanOptions{DamageOnly: true, Buffer: i.buffer})
	found.validEnd, found.next = result.ValidEnd, result.NextOffset
	return found, err
}

// walkFrom goes on where the mark ends. The record there says its offset; without
// one, nothing intact follows.
func (i *journalInspector) walkFrom(f device.File, found *standing) error {
	head := make([]byte, segment.RecordHeaderSize)
	n, err := readAvailable(f, head, found.validEnd)
	if err != nil {
		return err
	}
	h, err := segment.DecodeRecordHeader(head[:n])
	if err != nil {
		return nil
	}
	result, err := segment.Scan(f, found.size, segment.ScanOptions{
		From: &segment.IndexEntry{Offset: h.Offset, Position: found.validEnd}, DamageOnly: true, Buffer: i.buffer,
	})
	found.validEnd, found.next, found.nextKnown = result.ValidEnd, result.NextOffset, result.Records > 0
	return err
}

// walkWhole finds the end of the intact records without believing the mark.
func (i *journalInspector) walkWhole(f device.File, g *JournalSegment) error {
	result, err := segment.Scan(f, g.Size, segment.ScanOptions{DamageOnly: true, Buffer: i.buffer})
	g.stands(standing{validEnd: result.ValidEnd, next: result.NextOffset, whole: true})
	return err
}

// differs compares an extent with the file up to its valid end.
func (i *journalInspector) differs(f device.File, x *extent, validEnd int64) (int64, error) {
	position := x.position
	for b := x.bytes[:max(0, min(int64(len(x.bytes)), validEnd-x.position))]; len(b) > 0; {
		piece := i.buffer[:min(len(i.buffer), len(b))]
		n, err := readAvailable(f, piece, position)
		if err != nil {
			return 0, err
		}
		if n < len(piece) || !bytes.Equal(piece, b[:n]) {
			return position + int64(equalBytes(piece[:n], b)), nil
		}
		b, position = b[n:], position+int64(n)
	}
	return -1, nil
}

// equalBytes is the number of bytes that two slices begin with alike.
func equalBytes(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// tails looks at what follows the last entries, and says what becomes of the mark.
func (i *journalInspector) tails(s *JournalShard) error {
	if s.refused {
		return nil
	}
	slices.SortStableFunc(s.Segments, func(a, b JournalSegment) int { return cmp.Compare(a.Segment, b.Segment) })
	for n := range s.Segments {
		g := &s.Segments[n]
		if g.Size <= g.End {
			continue
		}
		f, err := i.disk.OpenFile(filepath.Join(i.dir(s.Shard), segment.LogName(g.Segment)), device.ReadOnly, 0)
		if err != nil {
			return err
		}
		onlyZeros, err := allZero(f, g.End, g.Size, i.buffer)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		g.Cut = g.cutsZeros(onlyZeros, evidence{s.Mark})
	}
	s.MarkAfter = s.markAfter()
	return nil
}
