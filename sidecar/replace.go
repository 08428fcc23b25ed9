package sidecar

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"felix.local/felix/device"
)

// Step is a part of replacing or removing a file.
type Step string

// The steps, in order.
const (
	// StepOpen makes the temporary file.
	StepOpen Step = "making the temporary file"
	// StepWrite writes it.
	StepWrite Step = "writing the temporary file"
	// StepFlush makes its bytes durable.
	StepFlush Step = "flushing the temporary file"
	// StepRename puts it in place.
	StepRename Step = "renaming the temporary file"
	// StepRemove unlinks the file.
	StepRemove Step = "removing the file"
	// StepDirectory makes the directory's names durable.
	StepDirectory Step = "flushing the directory"
)

// ChangeError says that a file was not replaced or removed for certain.
type ChangeError struct {
	// Path is the file's.
	Path string
	Step Step
	Err  error
}

// Error says which file and how far it got.
func (e *ChangeError) Error() string { return fmt.Sprintf("%s: %s: %v", e.Path, e.Step, e.Err) }

// Unwrap gives the cause.
func (e *ChangeError) Unwrap() error { return e.Err }

// Unchanged says that the file is for certain what it was, so that the change may
// be tried again. Otherwise it reads as changed now, and may read as either after
// a power loss, until the directory is flushed.
func (e *ChangeError) Unchanged() bool {
	return e.Step == StepOpen || e.Step == StepWrite || e.Step == StepFlush
}

// TempName is the temporary that a file is written to before it takes its place:
// its name with the extension replaced.
func TempName(name string) string {
	if name == KeysIndexName {
		return KeysIndexName + ".tmp" // the one that keeps its own
	}
	if stem, _, found := strings.Cut(name, "."); found && stem != "" {
		name = stem
	}
	return name + ".tmp"
}

// Replace makes data the content of a file in dir, made if need be. A crash at any
// moment leaves the old content or the new, and never parts of either. With flush,
// the new content is durable when Replace returns nil; without, a power loss may
// leave the file empty or damaged: that is for files that are rebuilt then.
//
// The error is a *ChangeError.
func Replace(disk device.FS, queue device.Queue, dir, name string, data []byte, perm fs.FileMode, flush bool) error {
	path, temp := filepath.Join(dir, name), filepath.Join(dir, TempName(name))
	// 1. The bytes, and 2. their flush: the name must never stand for bytes that
	// the device does not hold.
	file, step, err := writeTemp(disk, queue, temp, data, perm, flush)
	if err != nil {
		return &ChangeError{Path: path, Step: step, Err: err}
	}
	// 3. The name, which changes hands in one piece.
	if err := disk.Rename(temp, path); err != nil {
		return &ChangeError{Path: path, Step: StepRename, Err: errors.Join(err, file.Close())}
	}
	if flush {
		// 4. The directory: until then a power loss may bring the old file back.
		if err = FlushDir(disk, queue, dir); err == nil {
			// 5. The flushes count if the filesystem has not stopped since.
			err = file.TakesWrites()
		}
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return &ChangeError{Path: path, Step: StepDirectory, Err: err}
	}
	return nil
}

// writeTemp makes the temporary file anew, and gives it open. One that a crash or a
// failure left is taken away, not written over: its inode may be linked elsewhere, by a
// backup, and a flush of it may have failed.
func writeTemp(disk device.FS, queue device.Queue, temp string, data []byte, perm fs.FileMode, flush bool) (device.File, Step, error) {
	file, err := disk.OpenFile(temp, device.CreateNew, perm)
	if errors.Is(err, fs.ErrExist) {
		if err = disk.Remove(temp); err == nil {
			file, err = disk.OpenFile(temp, device.CreateNew, perm)
		}
	}
	if err != nil {
		return nil, StepOpen, err
	}
	step := StepWrite
	if len(data) > 0 {
		err = device.Do(queue, &device.Op{Kind: device.Write, File: file, Buf: data})
	}
	if err == nil && flush {
		step = StepFlush
		err = device.Do(queue, &device.Op{Kind: device.Flush, File: file})
	}
	switch {
	case err == nil:
		return file, "", nil
	case errors.Is(err, device.ErrOutcomeUnknown):
		return nil, step, err // the backend may still be at it: file and name stay
	}
	// What is left would be taken away by the next call, but on a full disk its blocks
	// are missed before that.
	return nil, step, errors.Join(err, file.Close(), ignoreAbsent(disk.Remove(temp)))
}

// Remove unlinks files and returns when that is durable, with one flush for all of
// them. A file that is not there is no error, and its absence is made durable all the
// same: an earlier removal may not have been. The error is a *ChangeError, of the
// first file that was not removed; of the last one, when the flush failed.
func Remove(disk device.FS, queue device.Queue, dir string, names ...string) error {
	path := dir
	for _, name := range names {
		path = filepath.Join(dir, name)
		if err := ignoreAbsent(disk.Remove(path)); err != nil {
			return &ChangeError{Path: path, Step: StepRemove, Err: err}
		}
	}
	if err := FlushDir(disk, queue, dir); err != nil {
		return &ChangeError{Path: path, Step: StepDirectory, Err: err}
	}
	return nil
}

// FlushDir makes the names in a directory durable.
func FlushDir(disk device.FS, queue device.Queue, dir string) error {
	file, err := disk.OpenDir(dir)
	if err != nil {
		return err
	}
	err = device.Do(queue, &device.Op{Kind: device.FlushAll, File: file})
	if errors.Is(err, device.ErrOutcomeUnknown) {
		return err // the backend may still be at it
	}
	return errors.Join(err, file.Close())
}

func ignoreAbsent(err error) error {
	if device.IsNotExist(err) {
		return nil
	}
	return err
}
