package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"felix.local/felix/device"
	"felix.local/felix/segment"
)

// readPlan is what one read may look at, captured in one lock section.
type readPlan struct {
	viewVersion uint64
	sealed      []segment.Descriptor
	// live are the retired segment, if any, and the active one.
	live []livePart
	tail uint64
}

// livePart is a segment that is still being written or sealed, up to the bytes
// that readers may see.
type livePart struct {
	d       segment.Descriptor
	file    *openFile // nil when the log gave it up
	entries []segment.IndexEntry
	// lag is the end of the segment that is in memory; its file is set by whoever reads.
	lag lagReader
}

// reader reads the part: from the file, and what is not there from memory.
func (p *livePart) reader(file io.ReaderAt) io.ReaderAt {
	if len(p.lag.writing)+len(p.lag.staged) == 0 {
		return file
	}
	r := p.lag
	r.file = file
	return r
}

// planRead captures the bounds; start must lie in [base, tail).
func (l *Log) planRead(start uint64) (*readPlan, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return nil, &ClosedError{Label: l.label}
	}
	if base := l.baseLocked(); start < base {
		return nil, &TrimmedError{Label: l.label, Requested: start, Oldest: base}
	}
	p := &readPlan{viewVersion: l.mu.viewVersion, tail: l.tailLocked()}
	if start >= p.tail {
		return p, nil
	}
	p.sealed = l.mu.sealed
	for _, w := range []*writer{l.mu.retired, &l.mu.active} {
		if w != nil && w.base < p.tail {
			p.live = append(p.live, l.liveLocked(w))
		}
	}
	return p, nil
}

func (l *Log) liveLocked(w *writer) livePart {
	part := livePart{d: w.descriptor(), entries: w.entries}
	// Under on_commit, and after a failure, readers see what is durable only.
	if l.cfg.FsyncMode == FsyncOnCommit || l.mu.poison != nil {
		part.d.Size = w.durableSize()
		part.d.NextOffset = max(w.base, min(w.next, l.mu.durable))
	}
	if w.file != nil {
		part.file = w.file.hold()
	}
	if w.lag.bytes() > 0 {
		part.lag = w.lag.lend(w.filed())
	}
	return part
}

func (p *readPlan) release() {
	for _, part := range p.live {
		if part.file != nil {
			part.file.release()
		}
	}
}

// replanMax bounds how often a read plans again because records disappeared
// under it; each time something was truncated or trimmed.
const replanMax = 100

// ReadRange returns records from start on, every one verified, up to maxBytes of
// payload and the configured number of records over all segments. At least one
// record is returned when there is one, however large. At or past the tail the
// result is empty; below the base it is a *TrimmedError. Payloads belong to the
// caller.
//
// Records that start a generation are left out, so that offsets may have gaps, and
// the result is also empty when there are only such records from start on.
func (l *Log) ReadRange(ctx context.Context, start uint64, maxBytes int64) ([]segment.Record, error) {
	records, _, err := l.ReadNext(ctx, start, maxBytes, l.cfg.MaxRecordsPerRead)
	return records, err
}

// ReadNext is ReadRange with a bound of its own on the number of records, which the
// configured one still holds; below 1 it is 1. It is for a reader that goes on: next is
// the offset to read from then. That lies past start without any records where there
// are only such that start a generation.
func (l *Log) ReadNext(ctx context.Context, start uint64, maxBytes int64, maxRecords int) (records []segment.Record, next uint64, err error) {
	return l.ReadInto(ctx, start, maxBytes, maxRecords, nil)
}

// ReadInto is ReadNext into memory of the caller's: payloads lie in page as long as
// there is room, and are the caller's until it uses page again. Whoever is done with
// one result before it asks for the next reads a whole log through one page of a
// little more than maxBytes; otherwise most of the time goes into getting memory.
func (l *Log) ReadInto(ctx context.Context, start uint64, maxBytes int64, maxRecords int, page []byte) (records []segment.Record, next uint64, err error) {
	for next = start; ; {
		stored, err := l.readStored(ctx, next, segment.Budget{Bytes: maxBytes, Records: maxRecords, Page: page})
		if err != nil {
			return nil, start, err
		}
		if len(stored) == 0 {
			return nil, next, nil
		}
		next = stored[len(stored)-1].Offset + 1
		if records = slices.DeleteFunc(stored, startsGeneration); len(records) > 0 {
			return records, next, nil
		}
	}
}

func startsGeneration(r segment.Record) bool { return r.Mark.Kind == segment.GenerationStart }

// ReadStored is ReadRange with a bound of its own on the number of records, for
// replication and for whoever needs every record: it returns those that start a
// generation too, so that offsets have no gap.
func (l *Log) ReadStored(ctx context.Context, start uint64, maxBytes int64, maxRecords int) ([]segment.Record, error) {
	return l.readStored(ctx, start, segment.Budget{Bytes: maxBytes, Records: maxRecords})
}

func (l *Log) readStored(ctx context.Context, start uint64, budget segment.Budget) ([]segment.Record, error) {
	budget.Records = max(1, min(budget.Records, l.cfg.MaxRecordsPerRead))
	started := time.Now()
	for attempt := 0; ; attempt++ {
		if err := ctx.Err(); err != nil {
			return nil, &LogError{Label: l.label, Op: "read", Err: err}
		}
		records, err := l.readOnce(start, budget)
		if errors.Is(err, errReplan) {
			if attempt < replanMax {
				continue
			}
			err = &LogError{Label: l.label, Op: "read", Err: err}
		}
		if err != nil {
			return nil, err
		}
		bytes := int64(0)
		for i := range records {
			bytes += int64(len(records[i].Payload))
		}
		l.store.counters.readRecords.Add(uint64(len(records)))
		l.store.counters.readBytes.Add(uint64(bytes))
		l.store.observer.Read(len(records), bytes, time.Since(started))
		return records, nil
	}
}

var errReplan = errors.New("the log changed under a read")

func (l *Log) readOnce(start uint64, budget segment.Budget) ([]segment.Record, error) {
	p, err := l.planRead(start)
	if err != nil {
		return nil, err
	}
	defer p.release()
	if start >= p.tail {
		return nil, nil
	}
	records, err := l.readPlanned(p, start, &budget)
	l.mu.Lock()
	changed := l.mu.viewVersion != p.viewVersion
	l.mu.Unlock()
	if changed {
		return nil, errReplan
	}
	if err != nil {
		return nil, l.readFailed(err)
	}
	return records, nil
}

func (l *Log) readPlanned(p *readPlan, start uint64, budget *segment.Budget) ([]segment.Record, error) {
	var out []segment.Record
	next := start
	for _, d := range p.sealed[firstHolding(p.sealed, start):] {
		file, entries, err := l.store.sealed.get(l, d)
		if err != nil {
			return nil, err
		}
		var full bool
		out, next, full, err = l.readSegment(file, d, entries, next, budget, out)
		file.release()
		if err != nil || full {
			return out, err
		}
	}
	for _, part := range p.live {
		if next >= part.d.NextOffset {
			continue
		}
		file := part.file
		if file == nil {
			f, err := l.store.fs.OpenFile(filepath.Join(l.dir, segment.LogName(part.d.ID)), device.ReadOnly, 0)
			if err != nil {
				return nil, err
			}
			file = newOpenFile(f)
		} else {
			file.hold()
		}
		var full bool
		var err error
		out, next, full, err = l.readSegment(part.reader(file), part.d, part.entries, next, budget, out)
		file.release()
		if err != nil || full {
			return out, err
		}
	}
	return out, nil
}

func (l *Log) readSegment(r io.ReaderAt, d segment.Descriptor, entries []segment.IndexEntry, from uint64,
	budget *segment.Budget, out []segment.Record,
) ([]segment.Record, uint64, bool, error) {
	out, next, full, err := segment.ReadRecords(r, segment.Seek(entries, from), d.Size, from, budget, out)
	var damage *segment.Corruption
	if errors.As(err, &damage) {
		return out, next, full, damage.At(l.label, d.ID, -1)
	}
	if err == nil && !full && next != d.NextOffset {
		return out, next, full, (&segment.Corruption{
			Kind: segment.OffsetOutOfOrder, Expected: d.NextOffset, Found: next,
		}).At(l.label, d.ID, d.Size)
	}
	return out, next, full, err
}

// firstHolding is the index of the first segment that ends after offset.
func firstHolding(sealed []segment.Descriptor, offset uint64) int {
	low, high := 0, len(sealed)
	for low < high {
		mid := (low + high) / 2
		if sealed[mid].NextOffset > offset {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

// readFailed explains a failed read; a file that vanished was trimmed, which the
// next plan will see.
func (l *Log) readFailed(err error) error {
	if device.IsNotExist(err) {
		return fmt.Errorf("%w: %w", errReplan, err)
	}
	return &LogError{Label: l.label, Op: "read", Err: err}
}
