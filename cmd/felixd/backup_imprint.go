package main

import (
	"errors"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// settledAfter is how long ago a file must have changed for its next change to be
// sure to get another time: filesystems note times in steps of up to 2 s.
const settledAfter = 3 * time.Second

// imprint is what tells whether a segment still has, up to a length that it had once,
// the bytes that it had then. A log that was cut back and written anew has others.
//
// A file that has not changed since, which its times tell once it has settled, is not
// read a second time: of a log that is copied that is all but its end. Otherwise all
// of its bytes are compared, by their checksum: the bytes behind a cut may be equal
// but for the time in the header of one large record.
type imprint struct {
	segmentLength
	state   fileState
	settled bool
	// sum is of all bytes; it is there when summed.
	sum    uint32
	summed bool
}

// fileState changes whenever a file does, or another takes its name.
type fileState struct {
	device, inode uint64
	changed       syscall.Timespec
}

// stateOf gives the state of a file, and whether a change from now on is sure to
// give another one.
func stateOf(info fs.FileInfo, now time.Time) (state fileState, settled bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileState{}, false
	}
	return fileState{s.Dev, s.Ino, s.Ctim}, now.Sub(time.Unix(s.Ctim.Unix())) > settledAfter
}

// newSum is what segments are summed with: another polynomial than records are, whose
// own checksums would cancel out.
func newSum() hash.Hash32 { return crc32.New(crc32.MakeTable(crc32.Castagnoli)) }

// growing is how many segments of a log change as it grows: the newest, and the one
// before it while a roll in the background is under way.
const growing = 2

// imprints are those of the segments in a directory, of which some may go meanwhile.
func (c *copier) imprints(dir string) ([]imprint, error) {
	segments, err := measure(dir)
	if err != nil {
		return nil, err
	}
	var taken []imprint
	for i, s := range segments {
		p, err := c.imprint(dir, s, i >= len(segments)-growing)
		switch {
		case err == nil:
			taken = append(taken, p)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	return taken, nil
}

// imprint is that of one segment; its bytes are summed if they have to be, or will
// have to be because the segment is about to change.
func (c *copier) imprint(dir string, s segmentLength, changes bool) (imprint, error) {
	p := imprint{segmentLength: s}
	err := read(filepath.Join(dir, s.name), func(f *os.File, info fs.FileInfo) (err error) {
		if p.state, p.settled = stateOf(info, c.time()); !p.settled || changes {
			p.sum, err = c.sum(f, s.bytes)
			p.summed = true
		}
		return err
	})
	return p, err
}

// unmoved says with errMoved that a log does not have the records any more that it
// had when the imprints were taken, but for those that retention took.
func (c *copier) unmoved(dir string, taken []imprint) error {
	kept := false
	for _, p := range taken {
		err := read(filepath.Join(dir, p.name), func(f *os.File, info fs.FileInfo) error { return c.same(p, f, info) })
		switch {
		case errors.Is(err, fs.ErrNotExist) && !kept:
			continue // the oldest ones
		case errors.Is(err, fs.ErrNotExist):
			return errMoved
		case err != nil:
			return err
		}
		kept = true
	}
	if !kept && len(taken) > 0 {
		return errMoved
	}
	return nil
}

// same says with errMoved that a file does not begin with what had the imprint.
func (c *copier) same(p imprint, f io.Reader, info fs.FileInfo) error {
	state, _ := stateOf(info, time.Time{})
	switch {
	case p.settled && state == p.state:
		return nil
	case !p.summed:
		return errMoved
	}
	sum, err := c.sum(f, p.bytes)
	if err == nil && sum != p.sum {
		err = errMoved
	}
	return err
}

// sum is the checksum of the first bytes of a file; errMoved when it has fewer.
func (c *copier) sum(f io.Reader, bytes int64) (uint32, error) {
	sum := newSum()
	_, err := io.Copy(sum, &stoppable{c: c, r: f, left: bytes})
	return sum.Sum32(), err
}

// read opens a file to look at it.
func read(path string, look func(*os.File, fs.FileInfo) error) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close() // only read from
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return look(f, info)
}

// time is the clock's.
func (c *copier) time() time.Time {
	if c.now != nil {
		return c.now()
	}
	return time.Now()
}
