package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"felix.local/felix/device"
)

// scratch is a directory of our own in somebody's directory, for what has to be
// done on that device. Its name is hidden, so nobody takes it for a shard.
//
// It is locked, in shared mode, while it is in use. A killed process leaves the
// directory without the lock, and the next one removes it.
type scratch struct {
	path string
	lock io.Closer
}

// scratchTries is how often another process may take a new directory for an old
// one, which it can in the moment before the directory is locked.
const scratchTries = 8

// newScratch makes a scratch directory in dir.
func newScratch(dir, prefix string) (*scratch, error) {
	var failed error
	for range scratchTries {
		path, err := os.MkdirTemp(dir, prefix)
		if err != nil {
			return nil, err
		}
		lock, err := device.OS().Lock(path, true)
		if err == nil {
			return &scratch{path: path, lock: lock}, nil
		}
		failed = err
		var locked *device.LockedError
		if !errors.As(err, &locked) && !device.IsNotExist(err) {
			return nil, errors.Join(err, os.Remove(path))
		}
	}
	return nil, failed
}

// remove removes the directory with all that is in it.
func (s *scratch) remove() error {
	return errors.Join(os.RemoveAll(s.path), s.lock.Close())
}

// removeAbandoned removes the scratch directories that killed processes left in
// dir. Those that are locked are in use.
func removeAbandoned(dir, prefix string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		lock, lockErr := device.OS().Lock(path, false)
		var locked *device.LockedError
		switch {
		case lockErr == nil:
			err = errors.Join(err, os.RemoveAll(path), lock.Close())
		case errors.As(lockErr, &locked), device.IsNotExist(lockErr):
		default:
			err = errors.Join(err, lockErr)
		}
	}
	if err != nil {
		err = fmt.Errorf("what an earlier run left in %s stays: %w", dir, err)
	}
	return err
}
