package recovery

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"felix.local/felix/device"
	"felix.local/felix/segment"
)

// CreateStage is a part of making a segment.
type CreateStage string

// The stages, in order.
const (
	// StageOpen makes the name.
	StageOpen CreateStage = "open"
	// StageHeader writes the header durably.
	StageHeader CreateStage = "header"
	// StageDirectory makes the name durable. After a failure here nobody knows
	// which names the directory will have after a crash.
	StageDirectory CreateStage = "directory"
)

// CreateError says that a segment could not be made. Its files were removed
// again, as far as the disk let that happen.
type CreateError struct {
	Path  string
	Stage CreateStage
	Err   error
}

// Error says which segment, and how far it got.
func (e *CreateError) Error() string {
	return fmt.Sprintf("making segment %s (%s): %v", e.Path, e.Stage, e.Err)
}

// Unwrap gives the cause.
func (e *CreateError) Unwrap() error { return e.Err }

// CreateSegment makes a segment whose header and name are durable when it
// returns, and gives its file, open for reading and writing. Only then may a
// record go into it. An index file with a header is made beside it and not
// flushed; that this failed is told to disk.IndexFailed alone.
//
// The error is a *CreateError. What was made is removed again: a file without a
// header would be cleared away by the next open, but on a full disk its blocks
// are missed before that.
func CreateSegment(disk Disk, dir string, id uint64, h segment.Header, perm fs.FileMode) (device.File, error) {
	path := filepath.Join(dir, segment.LogName(id))
	f, err := disk.FS.OpenFile(path, device.CreateNew, perm)
	if err != nil {
		return nil, &CreateError{Path: path, Stage: StageOpen, Err: err}
	}
	fail := func(stage CreateStage, err error) (device.File, error) {
		return nil, &CreateError{Path: path, Stage: stage, Err: errors.Join(err, f.Close(), discard(disk.FS, dir, id))}
	}
	if err := disk.writeDurably(f, h.AppendTo(nil), 0); err != nil {
		return fail(StageHeader, err)
	}
	if err := createIndex(disk, dir, id, h.BaseOffset, perm); err != nil && disk.IndexFailed != nil {
		disk.IndexFailed(filepath.Join(dir, segment.IndexName(id)), err)
	}
	if err := disk.flushDir(dir); err != nil {
		return fail(StageDirectory, err)
	}
	return f, nil
}

// createIndex makes an index without entries, over one that a crash left.
func createIndex(disk Disk, dir string, id, base uint64, perm fs.FileMode) error {
	f, err := disk.FS.OpenFile(filepath.Join(dir, segment.IndexName(id)), device.OpenOrCreate, perm)
	if err != nil {
		return err
	}
	err = f.Truncate(0)
	if err == nil {
		err = disk.write(f, segment.AppendIndexHeader(nil, base), 0)
	}
	return errors.Join(err, f.Close())
}

// discard removes a segment's files, the index first: an index without a segment
// is cleared away at open, and one beside a blank segment is too.
func discard(disk device.FS, dir string, id uint64) error {
	var failed []error
	for _, name := range []string{segment.IndexName(id), segment.LogName(id)} {
		if err := disk.Remove(filepath.Join(dir, name)); err != nil && !device.IsNotExist(err) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}
