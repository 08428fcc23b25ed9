package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"felix.local/felix/device"
	"felix.local/felix/journal"
	"felix.local/felix/recovery"
	"felix.local/felix/sidecar"
)

// journalFileCount is into how many files a journal is divided: while one is written,
// the segments of the others are brought up to it.
const journalFileCount = 4

// journalFileBytes is the size of each.
func (s *Store) journalFileBytes() int64 {
	return s.cfg.JournalBytes / journalFileCount / journal.BlockBytes * journal.BlockBytes
}

// ErrNoJournal is what a *JournalUnavailableError matches.
var ErrNoJournal = errors.New("there can be no commit journal here")

// JournalUnavailableError says why JournalRequire cannot be had.
type JournalUnavailableError struct {
	Root   string
	Reason string
	Err    error // nil when nothing failed
}

// Error says where and why, and what to do.
func (e *JournalUnavailableError) Error() string {
	text := fmt.Sprintf("%s: %v: %s", e.Root, ErrNoJournal, e.Reason)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text + "; set FELIX_DURABLE_COMMIT_JOURNAL=auto to do without where it cannot be had"
}

// Is makes errors.Is match ErrNoJournal.
func (e *JournalUnavailableError) Is(target error) bool { return target == ErrNoJournal }

// Unwrap gives the cause.
func (e *JournalUnavailableError) Unwrap() error { return e.Err }

// ErrJournalPending is what a *JournalPendingError matches.
var ErrJournalPending = errors.New("the commit journal holds records of it")

// JournalPendingError says that a shard cannot be opened, by itself or again in this
// run: the commit journal of its root holds records of it, which the next start of the
// store brings to its segments.
type JournalPendingError struct{ Root, Shard string }

// Error says what to do.
func (e *JournalPendingError) Error() string {
	return fmt.Sprintf("%s: %v that its segments may lack; open %s anew as a store, which brings them there",
		filepath.Join(e.Root, e.Shard), ErrJournalPending, e.Root)
}

// Is makes errors.Is match ErrJournalPending.
func (e *JournalPendingError) Is(target error) bool { return target == ErrJournalPending }

// nothingPending refuses to open a shard by itself while a journal beside it holds
// records of it: what is appended would take their place.
func (s *Store) nothingPending() error {
	root, shard := filepath.Split(s.root)
	plan, err := recovery.InspectJournal(s.fs, root, s.recoveryPolicy())
	if err != nil || plan == nil {
		return err
	}
	pending := plan.Refused()
	for i := range plan.Shards {
		pending = pending || plan.Shards[i].Shard == shard
	}
	if pending {
		return &JournalPendingError{Root: filepath.Clean(root), Shard: shard}
	}
	return nil
}

// replayJournal brings the shards up to what a former run acknowledged, whatever the
// setting is now. Nothing of the root is served before.
func (s *Store) replayJournal() error {
	if s.single {
		return s.nothingPending()
	}
	if _, err := s.fs.Lstat(filepath.Join(s.root, journal.DirName)); device.IsNotExist(err) {
		return nil // never used
	}
	epoch, err := s.newEpoch()
	if err != nil {
		return err
	}
	report, err := recovery.ReplayJournal(s.disk(), s.root, s.recoveryPolicy(), epoch)
	if err != nil {
		return err
	}
	if report.Entries > 0 {
		s.logger.Info("commit journal replayed", "root", s.root, "report", report)
		s.counters.journalReplayed.Add(uint64(report.Entries))
	}
	return nil
}

// newEpoch draws the epoch of a run.
func (s *Store) newEpoch() (uint64, error) {
	var b [8]byte
	for {
		if _, err := io.ReadFull(s.random(), b[:]); err != nil {
			return 0, fmt.Errorf("draw an epoch for the commit journal: %w", err)
		}
		if epoch := binary.BigEndian.Uint64(b[:]); epoch != 0 {
			return epoch, nil
		}
	}
}

// open decides whether there is a journal, and under JournalRequire makes it.
func (j *commitJournal) open(ctx context.Context) error {
	s := j.store
	reason := j.unusable()
	if reason != "" && s.cfg.Journal == JournalRequire && !s.single {
		return &JournalUnavailableError{Root: s.root, Reason: reason}
	}
	j.mu.reason = reason
	if reason != "" {
		return nil
	}
	j.state.Store(journalUnmade)
	s.running.Add(1)
	go func() {
		defer s.running.Done()
		j.run(s.stop)
	}()
	if s.cfg.Journal != JournalRequire {
		return nil
	}
	j.state.Store(journalMaking)
	if err := j.make(""); err != nil {
		return &JournalUnavailableError{Root: s.root, Reason: "its files could not be made", Err: err}
	}
	return ctx.Err()
}

// unusable says why there is to be no journal, or "".
func (j *commitJournal) unusable() string {
	s := j.store
	switch {
	case s.single:
		return "a shard was opened by itself"
	case s.cfg.Journal == JournalOff:
		return "switched off"
	case !s.backend.DsyncWrite:
		return "the filesystem has no durable writes"
	case !s.cfg.Preallocate:
		return "preallocation is switched off"
	case s.cfg.Journal == JournalRequire:
		return "" // whoever requires it may have it on any filesystem that can do it
	}
	space, err := s.fs.Space(s.root)
	if err != nil {
		return "the filesystem is not known: " + err.Error()
	}
	if !overwritesInPlace[space.Type] { // a frame would cost what it is to save
		return fmt.Sprintf("the filesystem is %s; it is for ext4 and xfs", space.Type)
	}
	if need := journalRoomFactor * j.bytes(); space.FreeBytes-s.cfg.MinFreeBytes < need {
		return fmt.Sprintf("%d bytes are free; it is made where there are %d above the floor", space.FreeBytes, need)
	}
	return ""
}

// journalRoomFactor times the size of the journal must be free for it under auto.
const journalRoomFactor = 8

func (j *commitJournal) bytes() int64 {
	return journalFileCount * j.store.journalFileBytes()
}

// makeBeside makes the journal while commits go on without it.
func (j *commitJournal) makeBeside() {
	if !j.state.CompareAndSwap(journalUnmade, journalMaking) {
		return
	}
	s := j.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return // nothing is added to running any more
	}
	s.running.Add(1)
	go func() {
		defer s.running.Done()
		// The disk may have filled since the store was opened.
		err := j.make(j.unusable())
		if err != nil && !errors.Is(err, ErrClosed) {
			s.logger.Warn("no commit journal: every log commits in its own segments", "root", s.root, "error", err)
		}
	}()
}

// make makes the files that are missing, and begins an epoch; unless it is unusable, and
// says why. The state is journalMaking.
//
// Order: a data file has its size, its zeros and its name on the device before the
// epoch that uses it is there, and the epoch before the first frame.
func (j *commitJournal) make(unusable string) error {
	var made []string
	err := error(nil)
	if unusable != "" {
		err = errors.New(unusable)
	} else {
		made, err = j.makeFiles()
	}
	if err != nil {
		j.closeFiles()
		for _, path := range made { // on a full disk their blocks are missed
			err = errors.Join(err, ignoreMissing(j.store.fs.Remove(path)))
		}
		j.mu.Lock()
		j.mu.reason = err.Error()
		j.mu.Unlock()
		j.state.Store(journalOff)
		return err
	}
	j.mu.Lock()
	j.mu.oldest = 1
	j.mu.Unlock()
	j.state.Store(journalReady)
	j.store.logger.Info("commit journal ready", "root", j.store.root, "files", len(j.files), "file_bytes", j.store.journalFileBytes())
	return nil
}

// makeFiles gives those that it made, also when it failed.
func (j *commitJournal) makeFiles() (made []string, err error) {
	s := j.store
	dir := j.path("")
	if err := recovery.MakeDirs(s.disk(), dir, s.cfg.DirMode); err != nil {
		return nil, err
	}
	j.files = make([]journalFile, journalFileCount)
	for n := range j.files {
		var fresh bool
		path := filepath.Join(dir, journal.FileName(n))
		j.files[n].file, fresh, err = j.makeFile(path)
		if fresh {
			made = append(made, path)
		}
		if err != nil {
			return made, err
		}
	}
	if err := s.flushDir(dir); err != nil {
		return made, err
	}
	if j.epoch, err = s.newEpoch(); err != nil {
		return made, err
	}
	if err := j.sayCurrent(false); err != nil {
		return nil, err // it may be there and speak of the files
	}
	return made, nil
}

// path is that of a file in the journal's directory, or of the directory.
func (j *commitJournal) path(name string) string {
	return filepath.Join(j.store.root, journal.DirName, name)
}

// sayCurrent makes durable which epoch the files belong to and whether it holds
// anything.
func (j *commitJournal) sayCurrent(empty bool) error {
	s := j.store
	c := journal.Current{Epoch: j.epoch, Files: journalFileCount, FileBytes: s.journalFileBytes(), Empty: empty}
	return sidecar.Replace(s.fs, s.queue, j.path(""), journal.CurrentName, c.AppendTo(nil), s.cfg.FileMode, true)
}

// makeFile gives a data file of the right size, made if need be, open past the page
// cache.
func (j *commitJournal) makeFile(path string) (f device.File, fresh bool, err error) {
	s := j.store
	info, err := s.fs.Lstat(path)
	if err != nil && !device.IsNotExist(err) {
		return nil, false, err
	}
	if fresh = err != nil || info.Size != s.journalFileBytes(); fresh {
		if err := j.fillFile(path + ".tmp"); err != nil {
			return nil, false, errors.Join(err, ignoreMissing(s.fs.Remove(path+".tmp")))
		}
		if err := s.fs.Rename(path+".tmp", path); err != nil {
			return nil, false, err
		}
	}
	f, err = s.fs.OpenFile(path, device.ReadWriteDirect, 0)
	return f, fresh, err
}

func ignoreMissing(err error) error {
	if device.IsNotExist(err) {
		return nil
	}
	return err
}

// journalFillBytes is how much a data file is filled with at a time.
const journalFillBytes = 1 << 20

// fillFile makes a file of zeros that are written and on the device: frames then
// change no metadata.
func (j *commitJournal) fillFile(path string) (err error) {
	s := j.store
	f, err := s.fs.OpenFile(path, device.OpenOrCreate, s.cfg.FileMode)
	if err != nil {
		return err
	}
	defer func() { s.closeAfter(f, err) }()
	if err := f.Truncate(0); err != nil {
		return err
	}
	zeros := make([]byte, min(journalFillBytes, s.journalFileBytes()))
	for pos := int64(0); pos < s.journalFileBytes(); pos += int64(len(zeros)) {
		select {
		case <-s.stop:
			return &ClosedError{Label: s.root}
		default:
		}
		zeros = zeros[:min(int64(len(zeros)), s.journalFileBytes()-pos)]
		if err := s.do(&device.Op{Kind: device.Write, File: f, Buf: zeros, Pos: pos}); err != nil {
			return err
		}
	}
	return s.do(&device.Op{Kind: device.Flush, File: f})
}

func (j *commitJournal) closeFiles() {
	for _, f := range j.files {
		if f.file != nil {
			_ = f.file.Close() // frames are durable when they are written
		}
	}
	j.files = nil
}

// close says that the journal holds nothing, when every log's segments have
// everything, and gives its files up. No log is open any more. What a poisoned log
// left is there for the next start.
func (j *commitJournal) close() error {
	ready := j.state.Swap(journalClosed) == journalReady
	j.mu.Lock()
	needed := len(j.mu.pinned) > 0
	j.mu.Unlock()
	var err error
	if ready && !needed {
		err = ignoreMissing(j.sayCurrent(true))
	}
	if !ready {
		err = j.settleLoss()
	}
	j.closeFiles()
	j.store.arena.Give(j.buf)
	j.buf = nil
	return err
}
