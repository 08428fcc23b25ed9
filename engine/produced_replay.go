package engine

import (
	"context"
	"path/filepath"

	"felix.local/felix/device"
	"felix.local/felix/segment"
	"felix.local/felix/sidecar"
)

// replayPage is how much of a segment is read at a time.
const replayPage = 1 << 20

// replayProducers continues a snapshot, or nothing, with the marks of the records
// in segments, each of which is read up to its size. It ends early with its context.
//
// Records that cannot be read for damage are left out: a batch among them that is
// tried again is stored again, and can then be read once. What reading the log says
// of the damage is not for an open to anticipate.
func (l *Log) replayProducers(ctx context.Context, p producerSnapshot, segments []segment.Descriptor) (*producersWalk, error) {
	w := new(producersWalk)
	w.state, w.known = p.state()
	var page []byte
	for _, d := range toReplay(p, segments) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if page == nil {
			page = make([]byte, replayPage)
		}
		if err := l.replaySegment(ctx, w, d, page); err != nil {
			return nil, err
		}
		w.state.Settle(d.NextOffset)
	}
	return w, nil
}

func (l *Log) replaySegment(ctx context.Context, w *producersWalk, d segment.Descriptor, page []byte) error {
	file, err := l.store.fs.OpenFile(filepath.Join(l.dir, segment.LogName(d.ID)), device.ReadOnly, 0)
	if err != nil {
		return err
	}
	defer file.Close() // it was read only
	scan, err := segment.Scan(file, d.Size, segment.ScanOptions{
		Buffer: page, DamageOnly: true, MarkedOnly: true,
		Each: func(_ int64, r segment.Record) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			w.midway = w.midway || !w.known && r.Offset == d.BaseOffset && r.Mark.Kind == segment.BatchContinue
			w.known = true
			w.state.Observe(r.Offset, r.Mark, r.Payload)
			return nil
		},
	})
	if err != nil {
		return err
	}
	if scan.Damage != nil {
		l.store.logger.Error("records cannot be read, and what producers stored among them is not known", "log", l.label,
			"from", scan.NextOffset, "to", d.NextOffset, "cause", scan.Damage.Cause.At(l.label, d.ID, scan.Damage.Position))
	}
	return nil
}

// producersBelow gives what is known of producers once only segments are left, of
// which the last may end before the file does. It reads, and changes nothing.
func (l *Log) producersBelow(ctx context.Context, segments []segment.Descriptor) (*producersWalk, error) {
	if err := ctx.Err(); err != nil { // also where a snapshot leaves nothing to read
		return nil, err
	}
	l.mu.Lock()
	known := l.mu.produced.known
	l.mu.Unlock()
	if !known {
		return l.partBelow(ctx, segments)
	}
	a := l.store.readProducers(l.dir)
	if !a.snapshot.fits(segments) {
		a.snapshot = producerSnapshot{}
	}
	w, err := l.replayProducers(ctx, a.snapshot, segments)
	if err == nil {
		w.state.Settle(segments[len(segments)-1].NextOffset)
		w.state.Prune(segments[0].BaseOffset)
	}
	return w, err
}

// partBelow is producersBelow for a log that knows no producer. No segment holds a
// whole batch then; but where others came behind a part of one, the cut may fall
// between the two and have the log end with the part again. All of that part is in
// the last segment, or in those before it if that begins with a continuation.
func (l *Log) partBelow(ctx context.Context, segments []segment.Descriptor) (*producersWalk, error) {
	for from := len(segments) - 1; ; from-- {
		w, err := l.replayProducers(ctx, producerSnapshot{}, segments[from:])
		if err != nil || from == 0 || !w.midway {
			return w, err
		}
	}
}

// dropSnapshots removes the snapshot of producers and the index of a cache's keys,
// durably. The caller has cut the log: records that they tell of may be gone, and
// others will take their offsets.
func (l *Log) dropSnapshots() error {
	l.mu.Lock()
	l.mu.produced.saving.next = producersAsOf{}
	l.mu.Unlock()
	return sidecar.Remove(l.store.fs, l.store.queue, l.dir, ProducersName, sidecar.KeysIndexName)
}

// pruneProducers forgets what retention has removed.
func (l *Log) pruneProducers() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.produced.known {
		l.mu.produced.state.Prune(l.baseLocked())
	}
}
