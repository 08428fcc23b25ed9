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

// shardJournal is a journal in the copy that is about one shard alone: what a view
// holds of it, in the order of the view. Frames are written over while segments are
// copied, so it is made before.
type shardJournal struct {
	shard string // below the root
	dir   string
	// current and last are the view's.
	current journal.Current
	last    uint64
	w       journalWriter
}

// setAside copies what the journal holds of a shard, as of now; nil when that is
// nothing.
func (c *copier) setAside(shard string) (*shardJournal, error) {
	for range viewAttempts {
		v, err := c.journalOf(shard)
		if v == nil || err != nil || len(v.shards[filepath.Base(shard)]) == 0 {
			return nil, err
		}
		s := &shardJournal{
			shard: shard, dir: filepath.Join(c.to, filepath.Dir(shard), journal.DirName), current: v.current, last: v.last(),
			w: journalWriter{header: journal.Header{Epoch: v.current.Epoch, OldestNeeded: 1}},
		}
		err = s.fill(v)
		if !errors.Is(err, errOverwritten) {
			return s, err
		}
		if err := errors.Join(s.remove(), c.dropView()); err != nil {
			return nil, err
		}
	}
	return nil, errMoved
}

func (s *shardJournal) fill(v *journalView) error {
	if err := errors.Join(os.RemoveAll(s.dir), os.Mkdir(s.dir, 0o700)); err != nil {
		return err
	}
	return s.append(func() error { return s.w.shard(filepath.Base(s.shard), v) })
}

// append adds frames.
func (s *shardJournal) append(write func() error) (err error) {
	s.w.f, err = os.OpenFile(filepath.Join(s.dir, journal.FileName(0)), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(write(), s.w.f.Close())
}

// remove takes the journal from the copy; nil is none.
func (s *shardJournal) remove() error {
	if s == nil {
		return nil
	}
	return os.RemoveAll(s.dir)
}

// bringOver puts into a copied shard what only the journal held. Segments that
// retention took meanwhile are fenced off.
func (c *copier) bringOver(s *shardJournal, e *copiedEvent) error {
	if s == nil {
		return nil
	}
	if err := s.append(func() error { return s.w.fence(filepath.Join(c.to, s.shard)) }); err != nil {
		return err
	}
	current := journal.Current{Epoch: s.current.Epoch, Files: 1, FileBytes: s.w.bytes}
	if err := os.WriteFile(filepath.Join(s.dir, journal.CurrentName), current.AppendTo(nil), 0o600); err != nil {
		return err
	}
	plan, err := recovery.InspectJournal(c.fs(), filepath.Dir(s.dir), c.policy)
	switch {
	case err != nil || plan == nil:
		return err
	case plan.Refused():
		return errors.Join(errMoved, journalRefused(plan))
	case plan.BytesMissing() == 0:
		return nil
	}
	if err := c.stillThere(s); err != nil {
		return err
	}
	return c.replay(s, e)
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

// stillThere says with errMoved that what was set aside of a shard may have been cut
// from it since. It was not where the shard's own segments hold it now; and not if the
// journal, of which nothing was written over, has no fence since.
func (c *copier) stillThere(s *shardJournal) error {
	for range stillThereAttempts {
		lacking, err := c.lacking(s)
		if err != nil || lacking == math.MaxUint64 {
			return err
		}
		later, err := viewJournal(filepath.Dir(filepath.Join(c.from, s.shard)))
		if err != nil {
			return err
		}
		fenced, known, err := s.fencedSince(later, lacking)
		if later != nil {
			err = errors.Join(err, later.close())
		}
		switch {
		case errors.Is(err, errOverwritten):
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

// fencedSince says whether a later view tells that records of the shard were given up
// in a segment, or later ones, since it was set aside. known is false when frames in
// between are not needed any more and may be gone.
func (s *shardJournal) fencedSince(later *journalView, segment uint64) (fenced, known bool, err error) {
	if later == nil || later.current != s.current || len(later.frames) == 0 || later.frames[0].Sequence > s.last+1 {
		return false, false, nil
	}
	name := filepath.Base(s.shard)
	for _, n := range later.shards[name] {
		if later.frames[n].Sequence <= s.last {
			continue
		}
		err := later.each(n, func(e *journal.Entry) error {
			fenced = fenced || e.Kind == journal.Fence && e.Shard == name && e.Segment >= segment
			return nil
		})
		if err != nil {
			return false, false, err
		}
	}
	return fenced, true, nil
}

// lacking is the oldest segment of the shard that lacks something of what was set
// aside, math.MaxUint64 when none does. Segments that retention took lack nothing.
func (c *copier) lacking(s *shardJournal) (oldest uint64, err error) {
	v, err := viewJournal(filepath.Dir(s.dir))
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
			there, err := hasBytes(filepath.Join(c.from, s.shard), e)
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

// replay brings a copied shard up to what was set aside of it.
func (c *copier) replay(s *shardJournal, e *copiedEvent) error {
	pool := fallback.Open(fallback.Options{Workers: 1})
	defer pool.Close()
	// Written and flushed, which every filesystem can do.
	disk := recovery.Disk{FS: c.fs(), Queue: pool, NoDsync: true}
	dir := filepath.Join(c.to, s.shard)
	before, err := weigh(dir)
	if err != nil {
		return err
	}
	newMark := isGone(filepath.Join(dir, recovery.MarkName))
	next := max(s.current.Epoch+1, 1) // another one, and not 0
	if _, err := recovery.ReplayJournal(disk, filepath.Dir(s.dir), c.policy, next); err != nil {
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
