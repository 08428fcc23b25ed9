package recovery

import (
	"errors"
	"path/filepath"
	"slices"

	"felix.local/felix/device"
	"felix.local/felix/segment"
)

// Settle brings what the kernel holds of the newest segments to the device and
// forgets the cached copy, so that Inspect reads what a power cut would leave.
//
// A process that died without syncing leaves records that read back fine from
// the cache; opened as they are and served, they could be gone after the next
// power cut. And after a flush that failed in that process, the cache holds
// pages that count as written and are not on the device.
//
// What a power cut left in blocks behind the end of a file, written before the length
// was, goes too: in a file that grows over it again without a flush, the next power cut
// could bring it back in place of the records appended since.
//
// Both are done to the newest segment, what lies above the newest one longer than a
// header, and the segment before that, which may be the one to grow when those above
// are blank or set aside; a background roll may have left it unsynced too. The cache of
// what the mark vouches for stays. A missing directory is fine.
func Settle(disk Disk, dir string, p Policy) error {
	if err := p.withDefaults().validate(); err != nil {
		return err
	}
	entries, err := disk.FS.ReadDir(dir)
	if device.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	s := &Snapshot{Dir: dir}
	if err := s.sort(entries); err != nil {
		return err
	}
	mark, err := readMark(disk.FS, dir)
	if err != nil {
		return err
	}
	marks := evidence{mark}
	const withRecords = 2 // the active segment and a retired one
	found := 0
	for i, f := range slices.Backward(s.Segments) {
		newest := i == len(s.Segments)-1
		size, err := settleSegment(disk, dir, f.ID, newest, true, marks)
		if err != nil {
			return err
		}
		if size > segment.HeaderSize {
			found++
		}
		if found == withRecords || marks.syncedThrough(f.ID) >= size && !newest {
			break
		}
	}
	return nil
}

// settleSegment flushes one segment and drops its cache from where the mark ends; trim
// frees what is behind the end of the file. A segment that the mark vouches for, unless
// it is the newest, is flushed only when it is trimmed, and keeps its cache. It gives the
// segment's size.
func settleSegment(disk Disk, dir string, id uint64, newest, trim bool, marks evidence) (size int64, err error) {
	f, err := disk.FS.OpenFile(filepath.Join(dir, segment.LogName(id)), device.ReadWrite, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if size, err = f.Size(); err != nil {
		return 0, err
	}
	vouched := marks.syncedThrough(id)
	synced := vouched >= size && !newest
	if synced && !trim {
		return size, nil
	}
	if trim {
		if err := f.Truncate(size); err != nil {
			return size, err
		}
	}
	if err := disk.flush(f); err != nil || synced {
		return size, err
	}
	if err := f.DropCache(min(vouched, size)); !errors.Is(err, device.ErrUnsupported) {
		return size, err
	}
	return size, nil
}
