package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"felix.local/felix/broker"
)

// resumeFile remembers how far a subscription was printed, durably: written under
// another name, synced, renamed, and the directory synced.
type resumeFile struct{ path string }

// resumePoint is what the file holds.
type resumePoint struct {
	Stream string `json:"stream"`
	Shard  int    `json:"shard"`
	// NextOffset is due: where the subscription began, or one past the last offset
	// that was printed.
	NextOffset uint64 `json:"next_offset"`
}

// load returns the point of a stream's shard, or nil when there is no file yet. A
// file of another subscription is refused: going on from its offset would skip
// records.
func (f resumeFile) load(name broker.StreamName, shard int) (*resumePoint, error) {
	if f.path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var point resumePoint
	if err := json.Unmarshal(text, &point); err != nil {
		return nil, fmt.Errorf("%s is no resume file: %w", f.path, err)
	}
	if point.Stream != name.String() || point.Shard != shard {
		return nil, fmt.Errorf("%s is the resume file of %s, shard %d; name another for this one", f.path, point.Stream, point.Shard)
	}
	return &point, nil
}

// save replaces the file.
func (f resumeFile) save(point resumePoint) (err error) {
	if f.path == "" {
		return nil
	}
	text, err := json.Marshal(point)
	if err != nil {
		return err
	}
	dir := filepath.Dir(f.path)
	temporary, err := os.CreateTemp(dir, "."+filepath.Base(f.path)+".new-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temporary.Name()))
		}
	}()
	_, err = temporary.Write(append(text, '\n'))
	if err == nil {
		err = temporary.Sync()
	}
	if err = errors.Join(err, temporary.Close()); err != nil {
		return err
	}
	if err = os.Rename(temporary.Name(), f.path); err != nil {
		return err
	}
	parent, openErr := os.Open(dir)
	if openErr != nil {
		return fmt.Errorf("%s was written and may not survive a power loss: %w", f.path, openErr)
	}
	if syncErr := errors.Join(parent.Sync(), parent.Close()); syncErr != nil {
		return fmt.Errorf("%s was written and may not survive a power loss: %w", f.path, syncErr)
	}
	return nil
}
