package corrupt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

const (
	root  = "/data"
	dir   = root + "/shard"
	label = "proof/0"
	// segments is how many a log has.
	segments = 3
	// spacingBytes gives each segment an index of several entries.
	spacingBytes = 256
)

// with opens the log on a disk, runs do and closes it.
func with(disk *simdisk.Disk, o Options, do func(*engine.Log) error) error {
	queue := disk.NewQueue(simdisk.QueueOptions{})
	defer queue.Close()
	c := engine.DefaultConfig()
	c.FsyncMode = engine.FsyncNone
	c.IndexSpacingBytes = spacingBytes
	c.VerifyAllOnOpen = o.VerifyAll
	c.MinFreeBytes, c.MinFreeInodes, c.MarkSyncInterval = 0, 0, 0
	c.NowMicros = func() uint64 { return 1_700_000_000_000_000 }
	c.Logger = slog.New(slog.DiscardHandler)
	c.FS, c.Queue = disk, queue
	ctx := context.Background()
	store, log, err := engine.OpenSingle(ctx, dir, label, c)
	if err != nil {
		return err
	}
	return errors.Join(do(log), store.Close(ctx))
}

// builder writes one log.
type builder struct {
	format Format
	o      Options
	disk   *simdisk.Disk
	next   uint64
	// active is the size of the newest segment.
	active int
}

// build writes a log of three segments and leaves it in a state.
func build(f Format, s State, o Options) (*simdisk.Disk, error) {
	b := &builder{format: f, o: o, disk: simdisk.New()}
	b.disk.MakeDir(dir)
	if err := with(b.disk, o, b.firstHalf); err != nil {
		return nil, err
	}
	if err := with(b.disk, o, func(l *engine.Log) error {
		// However large the last record of the first half was, some follow.
		if err := b.fill(l, segments-1, max(o.SegmentBytes, b.active+o.SegmentBytes/4)); err != nil {
			return err
		}
		if s == Killed || s == Rolling {
			b.disk = b.disk.Crash(simdisk.CrashOptions{Kind: simdisk.ProcessDeath})
		}
		return nil
	}); err != nil {
		return nil, err
	}
	if err := b.lowerVersions(); err != nil {
		return nil, err
	}
	switch s {
	case Rolling:
		return b.disk, b.markRetired()
	case Unmarked:
		return b.disk, b.disk.Remove(filepath.Join(dir, recovery.MarkName))
	default:
		return b.disk, nil
	}
}

// firstHalf writes everything that a mark vouches for when the log is killed.
func (b *builder) firstHalf(l *engine.Log) error {
	for place := range segments - 1 {
		if err := b.fill(l, place, b.o.SegmentBytes); err != nil {
			return err
		}
		if _, err := l.Seal(context.Background()); err != nil {
			return err
		}
		b.active = 0
	}
	return b.fill(l, segments-1, b.o.SegmentBytes/2)
}

// fill appends to the segment at a place until it is about so large.
func (b *builder) fill(l *engine.Log, place, bytes int) error {
	for b.active < bytes {
		r := recordOf(b.format.version(place), b.next)
		if b.active == 0 && b.format.version(place) == segment.VersionNewest {
			// Only such a record makes the engine begin a segment of this version.
			r.Mark, r.Payload = segment.Mark{Kind: segment.GenerationStart}, segment.GenerationStartPayload(b.next)
		}
		if _, err := l.Append(context.Background(), r); err != nil {
			return err
		}
		b.next++
		b.active += segment.EncodedSize(r.Mark, len(r.Payload))
	}
	return nil
}

// lowerVersions gives segments that are to be of version 2 such a header: the
// engine writes none, and plain records are the same in all versions.
func (b *builder) lowerVersions() error {
	ids, err := segmentIDs(b.disk)
	if err != nil {
		return err
	}
	for place, id := range ids {
		if b.format.version(place) != segment.VersionOldest {
			continue
		}
		path := filepath.Join(dir, segment.LogName(id))
		content, err := simdisk.ReadFile(b.disk, path)
		if err != nil {
			return err
		}
		header, err := segment.DecodeHeader(content)
		if err != nil {
			return err
		}
		header.Version = segment.VersionOldest
		if err := overwrite(b.disk, path, 0, header.AppendTo(nil)); err != nil {
			return err
		}
	}
	return nil
}

// markRetired moves the mark back into the middle of the segment before the
// newest one. It may always lag, and while a retired segment waits for its seal
// it does.
func (b *builder) markRetired() error {
	ids, err := segmentIDs(b.disk)
	if err != nil {
		return err
	}
	retired := ids[len(ids)-2]
	t, err := readTruth(b.disk, retired)
	if err != nil {
		return err
	}
	mark := recovery.Mark{Segment: retired, Synced: t.starts[len(t.starts)/2]}
	return overwrite(b.disk, filepath.Join(dir, recovery.MarkName), 0, mark.AppendTo(nil))
}

func segmentIDs(disk device.FS) ([]uint64, error) {
	entries, err := disk.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var ids []uint64
	for _, e := range entries {
		if id, ok := segment.ParseLogName(e.Name); ok {
			ids = append(ids, id) // names have equal lengths: sorted as they come
		}
	}
	if len(ids) != segments {
		return nil, fmt.Errorf("the log has %d segments, %d were meant to be written", len(ids), segments)
	}
	return ids, nil
}

func overwrite(disk device.FS, path string, position int64, b []byte) error {
	f, err := disk.OpenFile(path, device.ReadWrite, 0)
	if err != nil {
		return err
	}
	_, err = f.Perform(&device.Op{Kind: device.Write, File: f, Buf: b, Pos: position})
	return errors.Join(err, f.Close())
}
