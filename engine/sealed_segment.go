package engine

import (
	"context"
	"path/filepath"

	"felix.local/felix/device"
	"felix.local/felix/segment"
)

// SealedSegment is a segment that will never change again.
type SealedSegment struct {
	Descriptor segment.Descriptor
	// Checksum is the CRC-32 of the whole file.
	Checksum uint64
}

// Seal ends the active segment, so that a copy of it is complete, and gives its
// description and checksum. An active segment without records is made durable
// and described, and stays the active one.
//
// Appends wait while the segment is ended, and not while it is read for the
// checksum, which may take seconds: what is described gets no further byte, and
// whatever removes segments waits for maintenance.
func (l *Log) Seal(ctx context.Context) (SealedSegment, error) {
	done, err := l.takeTurn(ctx, l.maintenance, "seal")
	if err != nil {
		return SealedSegment{}, err
	}
	defer done()
	d, file, err := l.endActive(ctx)
	if err != nil {
		return SealedSegment{}, err
	}
	defer file.Close()
	sum, err := segment.Checksum(file, d.Size)
	if err != nil {
		return SealedSegment{}, &LogError{Label: l.label, Op: "seal", Err: err}
	}
	return SealedSegment{Descriptor: d, Checksum: uint64(sum)}, nil
}

// endActive gives the active segment an end and opens its file. The file is opened
// before appends go on: they may roll an empty segment away.
func (l *Log) endActive(ctx context.Context) (segment.Descriptor, device.File, error) {
	readmit, err := l.shutOut(ctx, "seal")
	if err != nil {
		return segment.Descriptor{}, nil, err
	}
	defer readmit()
	if poison := l.Poisoned(); poison != nil {
		return segment.Descriptor{}, nil, poison
	}
	d := l.mu.active.descriptor() // nobody else changes it
	if l.mu.active.hasRecords() {
		err = l.rollToEmpty()
	} else {
		err = l.flushActive()
	}
	if err != nil {
		return segment.Descriptor{}, nil, err
	}
	file, err := l.store.fs.OpenFile(filepath.Join(l.dir, segment.LogName(d.ID)), device.ReadOnly, 0)
	if err != nil {
		return segment.Descriptor{}, nil, &LogError{Label: l.label, Op: "seal", Err: err}
	}
	return d, file, nil
}

// rollToEmpty seals the active segment and opens its successor.
func (l *Log) rollToEmpty() error {
	if err := l.discardPrepared(); err != nil {
		return err
	}
	if err := l.sealActive(); err != nil {
		return err
	}
	w := &l.mu.active
	base := w.next
	if err := l.openSuccessor(base, max(segment.VersionDefault, w.version)); err != nil {
		return err
	}
	l.mu.Lock()
	producers := l.viewForRollLocked() // nothing is staged
	l.mu.Unlock()
	l.saveProducers(base, producers)
	return nil
}
