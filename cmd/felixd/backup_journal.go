package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"

	"felix.local/felix/fallback"
	"felix.local/felix/journal"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

// A store with a commit journal has acknowledged records in it that segments lack, for
// seconds. A copy has them in its segments: it is one that any Felix may open, and
// other tools need to know nothing.
//
// Each shard is copied behind a view of the journal: whatever the segments lacked then
// is in the view, and what a frame does not hold any more when it is taken, the
// segments have when they are copied. What was cut or deleted before the view has a
// fence in it, or needs none. What happens after it, while the shard is copied, is
// found out before anything of the view is put into the copy.

// journalOf is a view of the journal that a shard's records are in, as of now; nil
// when nothing is in it. One is kept as long as nothing was written since.
func (c *copier) journalOf(shard string) (*journalView, error) {
	root := filepath.Join(c.from, filepath.Dir(shard))
	if v := c.view; v != nil {
		fresh := filepath.Dir(v.dir) == root
		var err error
		if fresh {
			fresh, err = v.upToDate()
		}
		if fresh && err == nil {
			return v, nil
		}
		if err := errors.Join(err, c.dropView()); err != nil {
			return nil, err
		}
	}
	var err error
	c.view, err = viewJournal(root)
	return c.view, err
}

func (c *copier) dropView() error {
	v := c.view
	if c.view = nil; v == nil {
		return nil
	}
	return v.close()
}

// bringOver puts into a copied shard what only the journal held.
func (c *copier) bringOver(shard string, v *journalView, e *copiedEvent) (err error) {
	name := filepath.Base(shard)
	if v == nil || len(v.shards[name]) == 0 {
		return nil
	}
	root := filepath.Join(c.to, filepath.Dir(shard))
	dir := filepath.Join(root, journal.DirName)
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := c.writeJournal(dir, shard, v); err != nil {
		return moved(err)
	}
	plan, err := recovery.InspectJournal(c.fs(), root, c.policy)
	switch {
	case err != nil || plan == nil:
		return err
	case plan.Refused():
		return errors.Join(errMoved, journalRefused(plan))
	case plan.BytesMissing() == 0:
		return nil
	}
	if err := c.stillThere(shard, dir, v); err != nil {
		return moved(err)
	}
	return c.replay(root, shard, v.current.Epoch, e)
}

// moved has the shard copied again when a frame was written over meanwhile.
func moved(err error) error {
	if errors.Is(err, errOverwritten) {
		return errors.Join(errMoved, err)
	}
	return err
}

// writeJournal makes a journal in the copy that is about one shard alone, in the order
// of the view. Segments that retention took since are fenced off.
func (c *copier) writeJournal(dir, shard string, v *journalView) error {
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, journal.FileName(0)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	w := journalWriter{f: f, header: journal.Header{Epoch: v.current.Epoch, OldestNeeded: 1}}
	err = errors.Join(w.shard(filepath.Base(shard), v), w.fence(filepath.Join(c.to, shard)), f.Close())
	if err != nil {
		return err
	}
	current := journal.Current{Epoch: v.current.Epoch, Files: 1, FileBytes: w.bytes}
	return os.WriteFile(filepath.Join(dir, journal.CurrentName), current.AppendTo(nil), 0o600)
}

// journalWriter writes frames that hold the entries of one shard.
type journalWriter struct {
	f      *os.File
	header journal.Header
	bytes  int64
}

func (w *journalWriter) shard(name string, v *journalView) error {
	for _, n := range v.shards[name] {
		frame := make([]byte, journal.HeaderBytes)
		entries := uint32(0)
		err := v.each(n, func(e *journal.Entry) error {
			if e.Shard == name {
				frame = journal.AppendEntry(frame, e)
				entries++
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := w.write(frame, entries); err != nil {
			return err
		}
	}
	return nil
}

// fence says that nothing is for segments older than the oldest of a directory.
func (w *journalWriter) fence(dir string) error {
	segments, err := measure(dir)
	if err != nil || len(segments) == 0 {
		return err
	}
	oldest, _ := segment.ParseLogName(segments[0].name)
	if oldest == 0 {
		return nil
	}
	e := journal.Entry{Kind: journal.Fence, Shard: filepath.Base(dir), Segment: oldest - 1}
	return w.write(journal.AppendEntry(make([]byte, journal.HeaderBytes), &e), 1)
}

func (w *journalWriter) write(frame []byte, entries uint32) error {
	w.header.Sequence++
	w.header.Entries = entries
	sealed := journal.Seal(frame, w.header)
	w.bytes += int64(len(sealed))
	_, err := w.f.Write(sealed)
	return err
}

// stillThereAttempts is how often it is tried to find out whether a log that goes on
// gave up records meanwhile.
const stillThereAttempts = 10

// stillThere says with errMoved that what the journal in dir holds of a shard may have
// been cut from it after the view was taken. It was not where the shard's own segments
// hold it now; and not if the journal, of which nothing was written over, has no
// fence since.
func (c *copier) stillThere(shard, dir string, v *journalView) error {
	for range stillThereAttempts {
		lacking, err := c.lacking(shard, dir)
		if err != nil || lacking == math.MaxUint64 {
			return err
		}
		later, err := viewJournal(filepath.Dir(v.dir))
		if err != nil {
			return err
		}
		fenced, known, err := v.fencedSince(later, filepath.Base(shard), lacking)
		if later != nil {
			err = errors.Join(err, later.close())
		}
		switch {
		case err != nil:
			return err
		case fenced:
			return errMoved
		case known:
			return nil
		}
	}
	return errMoved
}

// lacking is the oldest segment of a shard that lacks something of the journal in dir,
// math.MaxUint64 when none does. Segments that retention took lack nothing.
func (c *copier) lacking(shard, dir string) (oldest uint64, err error) {
	v, err := viewJournal(filepath.Dir(dir))
	if err != nil || v == nil {
		return math.MaxUint64, err
	}
	defer joined(&err, v.close)
	lack := make(map[uint64]bool)
	for n := range v.frames {
		err := v.each(n, func(e *journal.Entry) error {
			if e.Kind == journal.Fence {
				maps.DeleteFunc(lack, func(id uint64, _ bool) bool { return id <= e.Segment })
				return nil
			}
			there, err := hasBytes(filepath.Join(c.from, shard), e)
			if !there {
				lack[e.Segment] = true
			}
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	oldest = math.MaxUint64
	for id := range lack {
		oldest = min(oldest, id)
	}
	return oldest, nil
}

// hasBytes says that a shard's segment has an entry's bytes, or was taken by retention.
func hasBytes(dir string, e *journal.Entry) (bool, error) {
	f, err := os.Open(filepath.Join(dir, segment.LogName(e.Segment)))
	if errors.Is(err, fs.ErrNotExist) {
		segments, err := measure(dir)
		if err != nil || len(segments) == 0 {
			return false, err
		}
		oldest, _ := segment.ParseLogName(segments[0].name)
		return oldest > e.Segment, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close() // only read from
	have := make([]byte, len(e.Bytes))
	n, err := f.ReadAt(have, e.Position)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return n == len(have) && bytes.Equal(have, e.Bytes), nil
}

// replay brings a copied shard up to the journal beside it.
func (c *copier) replay(root, shard string, epoch uint64, e *copiedEvent) error {
	pool := fallback.Open(fallback.Options{Workers: 1})
	defer pool.Close()
	// Written and flushed, which every filesystem can do.
	disk := recovery.Disk{FS: c.fs(), Queue: pool, NoDsync: true}
	dir := filepath.Join(c.to, shard)
	before, err := weigh(dir)
	if err != nil {
		return err
	}
	newMark := isGone(filepath.Join(dir, recovery.MarkName))
	next := epoch + 1
	if next == 0 {
		next = 1
	}
	if _, err := recovery.ReplayJournal(disk, root, c.policy, next); err != nil {
		return err
	}
	after, err := weigh(dir)
	e.Files += after.files - before.files
	e.Bytes += after.bytes - before.bytes
	if err == nil && newMark {
		err = resembleSegments(dir, recovery.MarkName)
	}
	return err
}

// resembleSegments gives a file that the copy alone has the permissions and the owner
// of the segments beside it.
func resembleSegments(dir, name string) error {
	segments, err := measure(dir)
	if err != nil || len(segments) == 0 {
		return err
	}
	like, err := os.Stat(filepath.Join(dir, segments[0].name))
	if err != nil {
		return err
	}
	return resemble(filepath.Join(dir, name), like)
}

// weight is what a directory holds.
type weight struct {
	files int
	bytes int64
}

func weigh(dir string) (w weight, err error) {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		info, infoErr := entry.Info()
		if err = errors.Join(err, infoErr); infoErr == nil {
			w.files++
			w.bytes += info.Size()
		}
	}
	return w, err
}
