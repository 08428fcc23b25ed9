package bench

import (
	"context"
	"fmt"
)

const (
	// ledgerChunk is how many acknowledgements are kept in one piece: growing one
	// long slice would copy it in the middle of a measurement.
	ledgerChunk = 1 << 16
	// ledgerAppendsMax bounds what a ledger remembers, at 8 bytes each.
	ledgerAppendsMax = 1 << 28
)

// Ledger is what a load was told: where each append went. With it a reader can
// tell that every acknowledged record is at its offset, byte for byte.
type Ledger struct {
	payloadBytes int
	publishers   []*acked
}

// acked is what one publisher was told.
type acked struct {
	// batch is the number of records of an append; short has those of an append
	// that was cut, by its sequence.
	batch, appends int
	short          map[int]int
	// chunks hold the first offset of each append.
	chunks [][]uint64
	// appendsMax is this publisher's share of ledgerAppendsMax.
	appendsMax int
}

func newLedger(l Load) *Ledger {
	ledger := &Ledger{payloadBytes: l.PayloadBytes}
	for range l.Concurrency {
		ledger.publishers = append(ledger.publishers, &acked{
			batch: l.Batch, short: make(map[int]int), appendsMax: max(1, ledgerAppendsMax/l.Concurrency),
		})
	}
	return ledger
}

// add notes the acknowledgement of the publisher's next append.
func (a *acked) add(first uint64, records int) error {
	if a.appends == a.appendsMax {
		return fmt.Errorf("bench: more than %d appends of one publisher are too many to remember and verify; "+
			"measure for a shorter time, or without verifying", a.appendsMax)
	}
	if a.appends%ledgerChunk == 0 {
		a.chunks = append(a.chunks, make([]uint64, 0, ledgerChunk))
	}
	last := &a.chunks[len(a.chunks)-1]
	*last = append(*last, first)
	if records != a.batch {
		a.short[a.appends] = records
	}
	a.appends++
	return nil
}

func (a *acked) first(sequence int) uint64 {
	return a.chunks[sequence/ledgerChunk][sequence%ledgerChunk]
}

func (a *acked) records(sequence int) int {
	if n, cut := a.short[sequence]; cut {
		return n
	}
	return a.batch
}

// Stored is a record that was read back.
type Stored struct {
	Offset  uint64
	Payload []byte
}

// ReadBack returns the records of a log from an offset on, at least one where
// there is one, and the offset to go on from. Without a record the log ends.
type ReadBack func(ctx context.Context, log int, from uint64) (records []Stored, next uint64, err error)

// LostError says that what was read back is not what was acknowledged.
type LostError struct {
	Log    int
	Offset uint64
	Reason string
}

// Error names log and offset.
func (e *LostError) Error() string {
	return fmt.Sprintf("log %d, offset %d: %s", e.Log, e.Offset, e.Reason)
}

// Verify reads all logs and compares: every record is one that was acknowledged, at
// the offset that was told, with all of its bytes; and none is missing. It returns
// how many records there are, and a *LostError for the first that is not right.
func (l *Ledger) Verify(ctx context.Context, logs int, read ReadBack) (records int64, err error) {
	blank := blankPayload(l.payloadBytes)
	for log := range logs {
		found, err := l.verifyLog(ctx, log, logs, read, blank)
		records += found
		if err != nil {
			return records, err
		}
	}
	return records, nil
}

func (l *Ledger) verifyLog(ctx context.Context, log, logs int, read ReadBack, blank []byte) (found int64, err error) {
	for next := uint64(0); ; {
		page, after, err := read(ctx, log, next)
		if err != nil {
			return found, fmt.Errorf("reading log %d back from offset %d: %w", log, next, err)
		}
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			if r.Offset < next {
				return found, &LostError{log, r.Offset, fmt.Sprintf("was read where %d or a later one was asked for", next)}
			}
			if reason := l.judge(r, log, logs, blank); reason != "" {
				return found, &LostError{log, r.Offset, reason}
			}
			found++
			next = r.Offset + 1
		}
		next = max(next, after)
	}
	// Each record found is one that was acknowledged, and none was found twice.
	if want := l.acknowledged(log, logs); found != want {
		return found, l.missing(ctx, log, logs, read, want-found)
	}
	return found, nil
}

// judge says what is wrong with a record, or "".
func (l *Ledger) judge(r Stored, log, logs int, blank []byte) string {
	if len(r.Payload) < LoadPayloadBytesMin {
		return fmt.Sprintf("payload has %d bytes, want %d", len(r.Payload), l.payloadBytes)
	}
	s := readStamp(r.Payload)
	if int64(s.publisher) >= int64(len(l.publishers)) || int(s.publisher)%logs != log {
		return fmt.Sprintf("the record is of publisher %d, who does not write to this log", s.publisher)
	}
	of := l.publishers[s.publisher]
	if s.sequence >= uint64(of.appends) || int64(s.index) >= int64(of.records(int(s.sequence))) {
		return fmt.Sprintf("record %d of append %d of publisher %d was never acknowledged", s.index, s.sequence, s.publisher)
	}
	if told := of.first(int(s.sequence)) + uint64(s.index); told != r.Offset {
		return fmt.Sprintf("record %d of append %d of publisher %d was acknowledged at offset %d", s.index, s.sequence, s.publisher, told)
	}
	return s.differs(r.Payload, blank)
}

// acknowledged counts the records of a log.
func (l *Ledger) acknowledged(log, logs int) int64 {
	total := int64(0)
	for p := log; p < len(l.publishers); p += logs {
		of := l.publishers[p]
		total += int64(of.appends) * int64(of.batch)
		for _, n := range of.short {
			total += int64(n - of.batch)
		}
	}
	return total
}

// missing names the first record that is not there.
func (l *Ledger) missing(ctx context.Context, log, logs int, read ReadBack, lost int64) error {
	there := make(map[uint64]bool)
	for next := uint64(0); ; {
		page, after, err := read(ctx, log, next)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			there[r.Offset] = true
		}
		next = max(page[len(page)-1].Offset+1, after)
	}
	first := &LostError{Log: log, Reason: fmt.Sprintf("%d acknowledged records are missing", lost)}
	known := false
	for p := log; p < len(l.publishers); p += logs {
		of := l.publishers[p]
		for sequence := range of.appends {
			for i := range of.records(sequence) {
				offset := of.first(sequence) + uint64(i)
				if !there[offset] && (!known || offset < first.Offset) {
					known, first.Offset = true, offset
				}
			}
		}
	}
	return first
}
