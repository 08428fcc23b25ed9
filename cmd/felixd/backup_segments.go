package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"felix.local/felix/segment"
)

// segmentLength is a segment and how much of it belongs to the copy.
type segmentLength struct {
	name  string
	bytes int64
}

// copySegments copies the segments, oldest first, and gives their imprints.
//
// What belongs to the copy is found out first, newest first: whatever a segment
// holds then, those before it are complete when they are looked at. With a roll in
// the background the older of two may still grow while the newer is there.
func (c *copier) copySegments(shard string, e *copiedEvent) ([]imprint, error) {
	segments, err := measure(filepath.Join(c.from, shard))
	if err != nil {
		return nil, err
	}
	var copied []imprint
	for i, s := range segments {
		p := imprint{segmentLength: s}
		err := c.copyFile(filepath.Join(shard, s.name), s.bytes, &p, e)
		if errors.Is(err, fs.ErrNotExist) && i < len(segments)-1 {
			copied, err = nil, c.dropOldest(shard, s.name, e)
		} else {
			copied = append(copied, p)
		}
		if err != nil {
			return nil, err
		}
	}
	return copied, nil
}

// measure lists segments, oldest first, and looks at them newest first.
func measure(dir string) ([]segmentLength, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var segments []segmentLength
	for _, entry := range slices.Backward(entries) { // by name, which is by age
		if !entry.Type().IsRegular() || !isLogName(entry.Name()) {
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) && len(segments) > 0 {
			break // retention took it, and those before it
		}
		if err != nil {
			return nil, err
		}
		segments = append(segments, segmentLength{entry.Name(), info.Size()})
	}
	slices.Reverse(segments)
	return segments, nil
}

// dropOldest takes from the copy what is older than a segment that is gone: so it
// is when retention took that. A log that was cut back lost its newest ones instead.
func (c *copier) dropOldest(shard, gone string, e *copiedEvent) error {
	left, err := os.ReadDir(filepath.Join(c.from, shard))
	if err != nil {
		return err
	}
	newer := false
	for _, entry := range left {
		if isLogName(entry.Name()) && entry.Name() < gone {
			return errMoved
		}
		newer = newer || isLogName(entry.Name())
	}
	if !newer {
		return errMoved
	}
	entries, err := os.ReadDir(filepath.Join(c.to, shard))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if isLogName(entry.Name()) && entry.Name() < gone {
			if err := c.leaveOut(filepath.Join(shard, entry.Name()), e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *copier) copyIndexes(shard string, e *copiedEvent) error {
	return c.copyEach(shard, func(name string) bool { return isIndexName(name) || isCopyName(name) }, e)
}

func isLogName(name string) bool { _, ok := segment.ParseLogName(name); return ok }

func isIndexName(name string) bool { _, ok := segment.ParseIndexName(name); return ok }

// isCopyName: what recovery once cut off or set aside.
func isCopyName(name string) bool { return strings.Contains(name, ".torn-") }
