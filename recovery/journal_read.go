package recovery

import (
	"errors"
	"fmt"
	"path/filepath"

	"felix.local/felix/device"
	"felix.local/felix/journal"
)

// journalFiles are a journal that has to be replayed, with its files open.
type journalFiles struct {
	dir     string
	current journal.Current
	files   []device.File
}

func (j *journalFiles) close() error {
	var failed []error
	for _, f := range j.files {
		failed = append(failed, f.Close())
	}
	return errors.Join(failed...)
}

// openJournal opens the journal of a root; nil when there is none with anything in
// it. The error is a *JournalError for a journal that is not whole, else a failed
// read. A directory without the file that names the epoch and without frames is one that
// a crash left while it was made: nothing was ever committed through it.
func openJournal(disk device.FS, root string, mode device.OpenMode) (*journalFiles, error) {
	j := &journalFiles{dir: filepath.Join(root, journal.DirName)}
	path := filepath.Join(j.dir, journal.CurrentName)
	b, err := readCurrent(disk, path)
	if device.IsNotExist(err) {
		return nil, j.wantUnused(disk)
	}
	if err != nil {
		return nil, err
	}
	if j.current, err = journal.DecodeCurrent(b); err != nil {
		return nil, &JournalError{
			File: path, Position: -1, Cause: err, Remedy: remedyJournal,
			Reason: "the file that names the epoch is damaged, so that nobody knows which records only the journal holds",
		}
	}
	if j.current.Empty {
		return nil, nil
	}
	for n := range int(j.current.Files) {
		f, err := j.openFile(disk, filepath.Join(j.dir, journal.FileName(n)), mode)
		if err != nil {
			return nil, errors.Join(err, j.close())
		}
		j.files = append(j.files, f)
	}
	return j, nil
}

// wantUnused refuses a journal whose data files hold frames while the file that names the
// epoch is gone: it was there before the first frame.
func (j *journalFiles) wantUnused(disk device.FS) error {
	entries, err := disk.ReadDir(j.dir)
	if err != nil && !device.IsNotExist(err) {
		return err
	}
	for _, e := range entries {
		if _, ok := journal.ParseFileName(e.Name); !ok {
			continue
		}
		used, err := holdsFrame(disk, filepath.Join(j.dir, e.Name))
		if err != nil {
			return err
		}
		if used {
			return &JournalError{
				File: filepath.Join(j.dir, journal.CurrentName), Position: -1, Remedy: remedyJournal,
				Reason: fmt.Sprintf("the file that names the epoch is gone, and %s holds frames", e.Name),
			}
		}
	}
	return nil
}

func holdsFrame(disk device.FS, path string) (bool, error) {
	f, err := disk.OpenFile(path, device.ReadOnly, 0)
	if err != nil {
		return false, err
	}
	used, err := journal.BeginsWithFrame(f)
	return used, errors.Join(err, f.Close())
}

// readCurrent reads one byte more than there may be, so that a longer file shows.
func readCurrent(disk device.FS, path string) ([]byte, error) {
	f, err := disk.OpenFile(path, device.ReadOnly, 0)
	if err != nil {
		return nil, err
	}
	b := make([]byte, journal.CurrentBytes+1)
	n, err := readAvailable(f, b, 0)
	return b[:n], errors.Join(err, f.Close())
}

// openFile opens a data file, which was made whole before the first frame.
func (j *journalFiles) openFile(disk device.FS, path string, mode device.OpenMode) (device.File, error) {
	f, err := disk.OpenFile(path, mode, 0)
	if device.IsNotExist(err) {
		return nil, &JournalError{File: path, Position: -1, Cause: err, Reason: "a data file of the journal is gone", Remedy: remedyJournal}
	}
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if size < j.current.FileBytes {
		return nil, errors.Join(&JournalError{
			File: path, Position: size, Remedy: remedyJournal,
			Reason: fmt.Sprintf("a data file of the journal has %d bytes, %d are expected", size, j.current.FileBytes),
		}, f.Close())
	}
	return f, nil
}

// scan finds the chain. Damage is a *JournalError.
func (j *journalFiles) scan() (*journal.Chain, error) {
	sources := make([]journal.Source, len(j.files))
	for n, f := range j.files {
		sources[n] = journal.Source{Name: f.Name(), Reader: f, Bytes: j.current.FileBytes}
	}
	chain, err := journal.Scan(sources, j.current.Epoch)
	return chain, rotten(err)
}

// rotten turns damage in the chain into a reason to refuse.
func rotten(err error) error {
	var r *journal.RottenError
	if !errors.As(err, &r) {
		return err
	}
	return &JournalError{
		File: r.File, Position: r.Position, Cause: err, Remedy: remedyJournal,
		Reason: fmt.Sprintf("frame %d, which was acknowledged, is damaged", r.Sequence),
	}
}
