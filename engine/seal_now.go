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
func (l *Log) Seal(ctx context.Context) (SealedSegment, error) {
	leave, err := l.exclusive(ctx, "seal")
	if err != nil {
		return SealedSegment{}, err
	}
	defer leave()
	if poison := l.Poisoned(); poison != nil {
		return SealedSegment{}, poison
	}
	w := l.mu.active // exclusive: nobody changes it
	if !w.hasRecords() {
		if err := l.flushActive(); err != nil {
			return SealedSegment{}, err
		}
		return l.describeSealed(w.descriptor())
	}
	if err := l.discardPrepared(); err != nil {
		return SealedSegment{}, err
	}
	if err := l.sealActive(); err != nil {
		return SealedSegment{}, err
	}
	if err := l.openSuccessor(w.next, max(segment.VersionDefault, w.version)); err != nil {
		return SealedSegment{}, err
	}
	return l.describeSealed(w.descriptor())
}

func (l *Log) describeSealed(d segment.Descriptor) (SealedSegment, error) {
	f, err := l.store.fs.OpenFile(filepath.Join(l.dir, segment.LogName(d.ID)), device.ReadOnly, 0)
	if err != nil {
		return SealedSegment{}, &LogError{Label: l.label, Op: "seal", Err: err}
	}
	defer f.Close()
	sum, err := segment.Checksum(f, d.Size)
	if err != nil {
		return SealedSegment{}, &LogError{Label: l.label, Op: "seal", Err: err}
	}
	return SealedSegment{Descriptor: d, Checksum: uint64(sum)}, nil
}
