package broker

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"felix.local/felix/device"
)

// DefinitionsDir holds the definitions of streams, below a storage root.
const DefinitionsDir = ".felixd/streams"

// DefinitionError says that a definition's file cannot be read or written.
type DefinitionError struct {
	Path, Op string
	// Replaced says that the file was replaced before the error: it is read by the
	// next start, unless power is lost before.
	Replaced bool
	Err      error
}

func (e *DefinitionError) Error() string {
	text := fmt.Sprintf("%s the stream definition %s: %v", e.Op, e.Path, e.Err)
	if e.Op == "reading" {
		text += "; put the file back from a copy, or remove it and create the stream again: its records stay where they are"
	}
	return text
}

// Unwrap gives the cause.
func (e *DefinitionError) Unwrap() error { return e.Err }

// files is the directory of definitions.
type files struct {
	fs  device.FS
	dir string
	cfg *Config
}

// open makes the directory, durably, and lists the definitions in it.
//
// A change that was answered is on the device: whoever answered had flushed the file and
// the directory. One that was not answered may have happened or not, and a start takes
// what it sees for what happened. What a process left that died before its flush is
// flushed here, once for all names, before anything is served; that costs two flushes a
// start. After a flush that failed, the kernel may count a name as clean that the device
// does not hold, and only writing the file again would help:
//
//   - For a deletion under way that is done (carryOut): it goes on from here, and a
//     stream must not come back without its shards. Markers are written again too, by
//     the engine, as their names in .streams/ and its own name are flushed by each change
//     of one.
//   - For other definitions it is not. There may be many, a full disk must not keep
//     streams from being served, and no record is at stake: a power loss may take the
//     stream's name, or a change of it, that nobody was told of, and when it is made
//     again its shards are found with all that was acknowledged in them.
func (f *files) open(root string) ([]string, error) {
	f.dir = root
	for part := range strings.SplitSeq(DefinitionsDir, "/") {
		parent := f.dir
		f.dir = filepath.Join(parent, part)
		err := f.fs.Mkdir(f.dir, f.cfg.Engine.DirMode)
		if _, statErr := f.fs.Lstat(f.dir); err != nil && statErr != nil {
			return nil, &DefinitionError{Path: f.dir, Op: "making the directory of", Err: err}
		}
		// Also when it was there: whoever made it may have crashed before this.
		if err := f.flushDir(parent); err != nil {
			return nil, &DefinitionError{Path: f.dir, Op: "making the directory of", Err: err}
		}
	}
	entries, err := f.fs.ReadDir(f.dir)
	if err != nil {
		return nil, &DefinitionError{Path: f.dir, Op: "listing", Err: err}
	}
	var names []string
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name, definitionSuffix) {
			names = append(names, entry.Name)
		}
	}
	// A name that was seen is believed to stay.
	if err := f.flushDir(f.dir); err != nil {
		return nil, &DefinitionError{Path: f.dir, Op: "listing", Err: err}
	}
	return names, nil
}

func (f *files) flushDir(dir string) error {
	d, err := f.fs.OpenDir(dir)
	if err != nil {
		return err
	}
	_, err = d.Perform(&device.Op{Kind: device.FlushAll, File: d})
	return errors.Join(err, d.Close())
}

// read gives one definition. Its bytes are flushed before they are believed: a
// process that died between writing and flushing may have left them.
func (f *files) read(name string) (definition, error) {
	path := filepath.Join(f.dir, name)
	d, err := f.decode(path)
	if err == nil && fileName(d.name()) != name {
		err = fmt.Errorf("it defines %s, whose file is %s", d.name(), fileName(d.name()))
	}
	if err != nil {
		return definition{}, &DefinitionError{Path: path, Op: "reading", Err: err}
	}
	return d, nil
}

// free refuses a name whose file is another stream's: names are told apart in full, and
// files by a hash that somebody may have looked for a twin of.
func (f *files) free(n StreamName) error {
	path := filepath.Join(f.dir, fileName(n))
	d, err := f.decode(path)
	switch {
	case device.IsNotExist(err), err == nil && d.name() == n:
		return nil
	case err == nil:
		err = fmt.Errorf("it is the file of %s; choose another name", d.name())
	}
	return &DefinitionError{Path: path, Op: "writing", Err: err}
}

func (f *files) decode(path string) (definition, error) {
	file, err := f.fs.OpenFile(path, device.ReadWrite, 0)
	if err != nil {
		return definition{}, err
	}
	b, err := io.ReadAll(io.NewSectionReader(file, 0, definitionBytesMax+1))
	if err == nil && len(b) > definitionBytesMax {
		err = fmt.Errorf("it is over %d bytes", definitionBytesMax)
	}
	if err == nil {
		_, err = file.Perform(&device.Op{Kind: device.Flush, File: file})
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return definition{}, err
	}
	return decodeDefinition(b)
}

// write makes a definition durable under its name. Order: the bytes are on the
// device before the name points to them, and the name is before this returns; after
// any crash the file is the former one or this one, whole.
func (f *files) write(d definition) error {
	path := filepath.Join(f.dir, fileName(d.name()))
	b, err := d.encode()
	if err == nil {
		err = f.replace(path, b)
	}
	if err != nil {
		return &DefinitionError{Path: path, Op: "writing", Err: err}
	}
	if err := f.flushDir(f.dir); err != nil {
		return &DefinitionError{Path: path, Op: "writing", Replaced: true, Err: err}
	}
	return nil
}

// replace leaves the flush of the directory to the caller.
func (f *files) replace(path string, b []byte) error {
	temporary := path + temporarySuffix
	if err := f.fs.Remove(temporary); err != nil && !device.IsNotExist(err) {
		return err
	}
	file, err := f.fs.OpenFile(temporary, device.CreateNew, f.cfg.Engine.FileMode)
	if err != nil {
		return err
	}
	for _, op := range []*device.Op{{Kind: device.Write, File: file, Buf: b}, {Kind: device.Flush, File: file}} {
		if _, err := file.Perform(op); err != nil {
			return errors.Join(err, file.Close(), f.fs.Remove(temporary))
		}
	}
	if err := file.Close(); err != nil {
		return err
	}
	return f.fs.Rename(temporary, path)
}

// remove takes a definition away, durably. One that is not there is no error.
func (f *files) remove(n StreamName) error {
	path := filepath.Join(f.dir, fileName(n))
	err := f.fs.Remove(path)
	if err == nil || device.IsNotExist(err) {
		err = f.flushDir(f.dir)
	}
	if err != nil {
		return &DefinitionError{Path: path, Op: "removing", Err: err}
	}
	return nil
}
