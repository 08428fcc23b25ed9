package enumerate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
	"felix.local/felix/segment"
)

const (
	recordOverhead = segment.RecordHeaderSize
	// readBytes holds any log of a workload in one read.
	readBytes = 1 << 20
)

var errRefused = errors.New("it does not open")

// after is what is appended to a log that was opened after the power went. It is as
// large as other records: it may take exactly the place of one that was cut off,
// and whatever was behind that one must not go on from there.
var after = record{incarnation: math.MaxUint32, size: payloadBytes}

// judge opens a disk that a power loss left, and gives its verdict. The disk is
// changed by that. The error says why a verdict is Lost or Refused.
func judge(c Case, o Options, disk *simdisk.Disk, e expectation) (Verdict, error) {
	var found history
	verdict := Lost
	err := with(c, o, disk, func(log *engine.Log) (err error) {
		if found, verdict, err = e.match(log); err != nil {
			return err
		}
		if err := found.extend(log); err != nil {
			return err
		}
		if err := c.cutAgain(o, disk, found); err != nil {
			return fmt.Errorf("after the next append the power goes once more: %w", err)
		}
		return nil
	})
	if err != nil {
		return lostOr(Refused, err), err
	}
	// What was acknowledged is there, as closing flushes in every mode.
	if err := with(c, o, disk, func(log *engine.Log) error {
		if _, _, err := (expectation{found}).match(log); err != nil {
			return err
		}
		return found.extend(log)
	}); err != nil {
		return lostOr(Refused, err), fmt.Errorf("opened again: %w", err)
	}
	return verdict, nil
}

// lostOr gives v for a log that did not open.
func lostOr(v Verdict, err error) Verdict {
	if errors.Is(err, errRefused) {
		return v
	}
	return Lost
}

// with opens the log on a disk for the time of do.
func with(c Case, o Options, disk *simdisk.Disk, do func(*engine.Log) error) error {
	queue := device.Queue(disk.NewQueue(simdisk.QueueOptions{}))
	if o.wrapAfter != nil {
		queue = o.wrapAfter(queue)
	}
	store, log, err := open(config(c, disk, queue))
	if err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	return errors.Join(do(log), store.Close(context.Background()), queue.Close())
}

// cutAgain takes the power from a log that is open on a disk and got one record
// since, so that only what must have reached the device did. All that was served
// has to be there, and the record where an acknowledgement promises that.
func (c Case) cutAgain(o Options, disk *simdisk.Disk, extended history) error {
	if disk.Doubt() == (simdisk.Doubt{}) {
		return nil
	}
	if c.Mode != engine.FsyncOnCommit {
		extended.held--
	}
	// The first state is that of which least reached the device.
	for least := range disk.States(simdisk.Bound{StatesMax: 2}).All() {
		return with(c, o, least, func(log *engine.Log) error {
			_, _, err := (expectation{extended}).match(log)
			return err
		})
	}
	return nil
}

// match reads a log whole and says which history it is: one that is exactly as
// long as was found.
func (e expectation) match(log *engine.Log) (found history, v Verdict, err error) {
	base, tail := log.BaseOffset(), log.TailOffset()
	var misses []error
	for _, h := range e {
		if base < h.baseLow || base > h.baseHigh || tail < h.held || tail > h.written {
			misses = append(misses, fmt.Errorf("[%d, %d) was found, and it had to be one of [%d to %d, %d to %d)",
				base, tail, h.baseLow, h.baseHigh, h.held, h.written))
			continue
		}
		if err := h.holds(log, base, tail); err != nil {
			misses = append(misses, err)
			continue
		}
		v = Short
		if tail == h.written {
			v = Whole
		}
		return history{base, base, tail, tail, h.records[:tail:tail]}, v, nil
	}
	return history{}, Lost, errors.Join(misses...)
}

// holds checks that a log is, byte for byte, what was appended.
func (h history) holds(log *engine.Log, base, tail uint64) error {
	records, err := log.ReadRange(context.Background(), base, readBytes)
	if err != nil {
		return err
	}
	if uint64(len(records)) != tail-base {
		return fmt.Errorf("reading [%d, %d) gave %d records", base, tail, len(records))
	}
	for i, r := range records {
		offset := base + uint64(i)
		if r.Offset != offset || !bytes.Equal(r.Payload, h.records[offset].payload(offset)) {
			return fmt.Errorf("at offset %d is record %d with %d bytes, and not what was appended", offset, r.Offset, len(r.Payload))
		}
	}
	return nil
}

// extend appends one record and takes note of it.
func (h *history) extend(log *engine.Log) error {
	result, err := log.Append(context.Background(), engine.Record{Payload: after.payload(h.written)})
	if err != nil {
		return err
	}
	if result.First != h.written || result.Last != h.written {
		return fmt.Errorf("a record was appended at %d and got the offset %d", h.written, result.First)
	}
	h.records = append(h.records, after)
	h.written++
	h.held = h.written
	return nil
}
