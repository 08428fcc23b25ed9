package engine

import (
	"cmp"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"felix.local/felix/device"
)

// reclaim frees what deleted shards hold, in one goroutine per store.
func (s *Store) reclaim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.reclaimAgain = true
	if s.mu.reclaiming || s.mu.closed {
		return
	}
	s.mu.reclaiming = true
	s.running.Add(1)
	go func() {
		defer s.running.Done()
		for s.reclaimWanted() {
			s.reclaimAll()
		}
	}()
}

func (s *Store) reclaimWanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.reclaiming = s.mu.reclaimAgain && !s.mu.closed
	s.mu.reclaimAgain = false
	return s.mu.reclaiming
}

// reclaimLeftovers frees what an earlier process deleted and did not get to. Their
// renames may not be on the device: a shard whose deletion was never answered
// must not come back without some of its files, so both directories are flushed
// first.
func (s *Store) reclaimLeftovers() {
	bin := filepath.Join(s.root, deletedDir)
	_, err := s.fs.Lstat(bin)
	if device.IsNotExist(err) {
		return
	}
	for _, dir := range []string{s.root, bin} {
		if err == nil {
			err = s.flushDir(dir)
		}
	}
	if err != nil {
		s.reclaimFailed(bin, err)
		return
	}
	s.reclaim()
}

func (s *Store) reclaimFailed(path string, err error) {
	s.logger.Warn("a deleted shard could not be removed; it is tried again after the next deletion, or when the store is opened again",
		"path", path, "error", err)
}

// deletedShard is a directory in .deleted.
type deletedShard struct {
	entry device.Entry
	// name is what the shard's directory was called.
	name string
	// micros and number are when it was deleted.
	micros, number uint64
}

// parseDeleted reads a name that makeFreeDir made.
func parseDeleted(entry device.Entry) (deletedShard, bool) {
	dot := strings.LastIndexByte(entry.Name, '.')
	if dot <= 0 {
		return deletedShard{}, false
	}
	d := deletedShard{entry: entry, name: entry.Name[:dot]}
	when, number, numbered := strings.Cut(entry.Name[dot+1:], "-")
	var err error
	if d.micros, err = strconv.ParseUint(when, 10, 64); err != nil {
		return deletedShard{}, false
	}
	if numbered {
		d.number, err = strconv.ParseUint(number, 10, 64)
	}
	return d, err == nil
}

// reclaimAll frees every deleted shard there is, the one deleted first in front.
// What is not a deleted shard is left alone.
func (s *Store) reclaimAll() {
	bin := filepath.Join(s.root, deletedDir)
	entries, err := s.fs.ReadDir(bin)
	if err != nil {
		s.reclaimFailed(bin, err)
		return
	}
	var deleted []deletedShard
	for _, entry := range entries {
		if d, ok := parseDeleted(entry); ok {
			deleted = append(deleted, d)
		}
	}
	slices.SortFunc(deleted, func(a, b deletedShard) int {
		return cmp.Or(cmp.Compare(a.micros, b.micros), cmp.Compare(a.number, b.number), cmp.Compare(a.name, b.name))
	})
	for _, d := range deleted {
		path := filepath.Join(bin, d.entry.Name)
		if s.mayComeBack(d.name) || s.isLive(path, d.name) {
			continue
		}
		gone, err := s.removeTree(path, d.entry)
		if err != nil {
			s.reclaimFailed(path, err)
		}
		if err == nil && !gone {
			return // the store is closing
		}
	}
}

// mayComeBack says that a shard's rename is not known to be durable; those who
// settle that ask for another look.
func (s *Store) mayComeBack(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, deleting := s.mu.deleting[name]
	return deleting || s.mu.unsure[name]
}

// isLive says that a directory is still a shard's under its own name: a power loss
// after a flush that failed may leave both names. That deletion was never
// answered, and the shard may be open.
func (s *Store) isLive(path, name string) bool {
	deleted, err := s.fs.Lstat(path)
	if err != nil {
		return true
	}
	live, err := s.fs.Lstat(filepath.Join(s.root, name))
	if err != nil {
		return !device.IsNotExist(err)
	}
	return live.Dev == deleted.Dev && live.Ino == deleted.Ino
}

// removeTree removes a file, or a directory with all in it, in the order of names:
// segments go oldest first. It stops before the next file when the store closes;
// gone is false then.
func (s *Store) removeTree(path string, entry device.Entry) (gone bool, err error) {
	if entry.Type.IsDir() {
		entries, err := s.fs.ReadDir(path)
		if err != nil {
			return false, err
		}
		for _, below := range entries {
			if gone, err := s.removeTree(filepath.Join(path, below.Name), below); err != nil || !gone {
				return false, err
			}
		}
	}
	select {
	case <-s.stop:
		return false, nil
	default:
	}
	if err := s.fs.Remove(path); err != nil && !device.IsNotExist(err) {
		return false, err
	}
	return true, nil
}
