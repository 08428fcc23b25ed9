package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"felix.local/felix/device"
	"felix.local/felix/journal"
	"felix.local/felix/recovery"
	"felix.local/felix/sidecar"
)

// deletedDir is where the directories of deleted shards wait to be reclaimed. A
// dot begins no shard's name.
const deletedDir = ".deleted"

// DeleteLog deletes a shard with all its records, poisoned and refused ones too;
// one that does not exist is deleted already. A log that is open is closed first:
// its appends get *ClosedError. When DeleteLog has returned nil the shard is gone
// for good, and opening the key again makes an empty one.
//
// After an error the shard may or may not be there, whole, unless it was poisoned and
// the journal alone held some of its records; deleting it can be tried again. A key
// that is being opened is an *AlreadyOpenError, one that is being deleted a
// *DeletingError.
//
// Order, so that any crash leaves the shard whole or gone:
//
//  1. .deleted is there, durably, with a place for it, and the commit journal is told
//     that it holds nothing of the shard: a start would miss what it holds bytes for.
//     Of a log that was poisoned before its segments held what was acknowledged, a
//     crash or a failed rename from here on may leave what they do hold;
//  2. the shard's directory is renamed into it;
//  3. the root is flushed, then .deleted, and the filesystem asked. The other way
//     round a filesystem that does not take a rename as one step could leave the shard
//     under both names;
//  4. only then are files removed, by a goroutine and in no hurry.
func (s *Store) DeleteLog(ctx context.Context, key ShardKey) error {
	name := key.DirName()
	l, err := s.claimForDeletion(name, key)
	if err != nil {
		return err
	}
	defer s.running.Done()
	if l != nil {
		err = l.closeForDeletion(ctx)
	}
	if err == nil {
		err = s.moveAway(ctx, name)
	}
	if err == nil {
		s.journal.forget(name)
	}
	s.settleDeletion(name, err)
	switch {
	case err == nil:
		s.logger.Info("shard deleted", "log", key.Label(), "dir", filepath.Join(s.root, name))
		return nil
	case device.ClassOf(err) == device.ClassFull:
		s.counters.full.Add(1)
		return &FullError{Label: key.Label(), Cause: err}
	default:
		return &LogError{Label: key.Label(), Op: "delete", Err: err}
	}
}

// claimForDeletion keeps a directory for one deletion and gives the log that has
// it open.
func (s *Store) claimForDeletion(name string, key ShardKey) (*Log, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.freeLocked(name, key); err != nil {
		return nil, err
	}
	l := s.mu.logs[name]
	if l != nil && l.label != key.Label() {
		return nil, &ShardMismatchError{Dir: name, Expected: l.label, Found: key.Label()}
	}
	s.mu.deleting[name] = key
	s.running.Add(1)
	return l, nil
}

func (s *Store) settleDeletion(name string, err error) {
	s.mu.Lock()
	delete(s.mu.deleting, name)
	s.mu.Unlock()
	if err == nil {
		s.reclaim()
	}
}

// closeForDeletion closes a log whose records are not wanted any more. That it is
// poisoned, or that its last flush or mark failed, is no matter then.
func (l *Log) closeForDeletion(ctx context.Context) error {
	err := l.Close(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return nil
	}
	return err
}

// moveAway gives up the name of a shard's directory, durably.
//
// Where there is no directory of that name, an earlier attempt may have renamed
// it without getting that to the device, in this process or in one that was
// killed. Then nothing says whether a flush of the parent still covers it: after
// one that failed, the kernel may count what it was to write as written. So the
// name is made and renamed away once more, for the flush to have it to write.
func (s *Store) moveAway(ctx context.Context, name string) error {
	dir, bin := filepath.Join(s.root, name), filepath.Join(s.root, deletedDir)
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.makeDeletedDir(bin); err != nil {
		return err
	}
	if err := s.fs.Mkdir(dir, s.cfg.DirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// What needs room is made before the journal is told: of a poisoned log it may hold
	// records that no segment has, and a full disk refuses the deletion.
	to, err := s.makeFreeDir(filepath.Join(bin, name))
	if err != nil {
		s.binMade.Store(false) // somebody may have removed it
		return err
	}
	if err := s.moveTo(name, dir, to); err != nil {
		return errors.Join(err, ignoreMissing(s.fs.Remove(to))) // its place, which is empty
	}
	for _, parent := range []string{s.root, bin} {
		if err := s.flushDir(parent); err != nil {
			s.counters.syncFailures.Add(1)
			s.setUnsure(name, true)
			return err
		}
	}
	if err := s.rootTakesWrites(); err != nil {
		s.setUnsure(name, true)
		return err
	}
	s.setUnsure(name, false)
	return nil
}

// moveTo renames a shard's directory to its place.
func (s *Store) moveTo(name, dir, to string) error {
	if err := s.journal.fence(name, journal.AllSegments); err != nil {
		return err
	}
	err := s.fs.Rename(dir, to)
	if errors.Is(err, unix.EISDIR) { // a file has the shard's name, for which no directory gives way
		if err = s.fs.Remove(to); err == nil {
			err = s.fs.Rename(dir, to)
		}
	}
	if err != nil {
		s.binMade.Store(false)
	}
	return err
}

// rootTakesWrites fails where the filesystem has stopped, and flushes that seemed to
// succeed may have done nothing. A directory cannot be asked, so a file of the root is.
func (s *Store) rootTakesWrites() error {
	f, err := s.fs.OpenFile(s.pathInRoot(sidecar.RunStateName), device.ReadWrite, 0)
	if device.IsNotExist(err) { // removed by hand
		f, err = s.fs.OpenFile(s.pathInRoot(sidecar.StorageIDName), device.ReadWrite, 0)
	}
	if err != nil {
		return err
	}
	return errors.Join(f.TakesWrites(), f.Close())
}

// makeDeletedDir makes .deleted durable, once per store.
func (s *Store) makeDeletedDir(path string) error {
	if s.binMade.Load() {
		return nil
	}
	err := recovery.MakeDirs(s.disk(), path, s.cfg.DirMode)
	s.binMade.Store(err == nil)
	return err
}

// setUnsure notes whether a shard whose directory was renamed may come back; its
// files stay until it cannot.
func (s *Store) setUnsure(name string, unsure bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if unsure {
		s.mu.unsure[name] = true
	} else {
		delete(s.mu.unsure, name)
	}
}

// freeNames bounds how many deletions of one shard within a microsecond are told
// apart.
const freeNames = 10_000

// makeFreeDir makes a directory under a name that nothing has: the shard's, the time,
// and a number when that is taken. A rename may replace it, being empty.
func (s *Store) makeFreeDir(path string) (string, error) {
	path = fmt.Sprintf("%s.%d", path, s.nowMicros())
	for n := range freeNames {
		candidate := path
		if n > 0 {
			candidate += "-" + strconv.Itoa(n)
		}
		err := s.fs.Mkdir(candidate, s.cfg.DirMode)
		if err == nil {
			return candidate, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
	return "", fmt.Errorf("%s and %d names after it are taken: %w", path, freeNames-1, fs.ErrExist)
}
