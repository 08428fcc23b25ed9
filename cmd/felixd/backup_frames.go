package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"felix.local/felix/journal"
	"felix.local/felix/recovery"
)

// journalView is what the commit journal of a root held at one moment: every frame
// that was needed then, found while a server may go on writing. It holds everything
// that was acknowledged before the moment and that no segment had durably.
type journalView struct {
	dir     string
	current journal.Current
	files   []*os.File
	// frames are all that are needed, by sequence and without a gap.
	frames []journalFrame
	// shards has, for each shard, which of the frames hold something of it.
	shards map[string][]int
	// begins are the sequences at the beginning of each file, newest is the last
	// frame that was seen. They tell whether another one was written since.
	begins []uint64
	newest journalFrame
	buffer []byte
}

// journalFrame is where a frame lies.
type journalFrame struct {
	file     int
	position int64
	journal.Header
}

func (f journalFrame) end() int64 {
	return f.position + journal.PaddedBytes(f.FrameBytes())
}

// viewAttempts is how often a journal is read whose files are reused meanwhile.
const viewAttempts = 20

// viewJournal looks at the journal of a root; nil when it holds nothing.
//
// A frame may be written over while the files are read, and then is not needed any
// more; or frames may follow in a file that was read already. So only those count
// that were there when the reading before began, and all of these have to be found,
// from the oldest on that any frame says is needed. What was acknowledged before the
// first reading is among them.
func viewJournal(root string) (*journalView, error) {
	dir := filepath.Join(root, journal.DirName)
	for range viewAttempts {
		v, err := openView(dir)
		if v == nil || err != nil {
			return nil, err
		}
		found, err := v.find()
		if err == nil && found {
			found, err = v.stillCurrent()
		}
		if err == nil && found {
			err = v.divide()
			found = !errors.Is(err, errOverwritten)
		}
		switch {
		case err != nil && found:
			return nil, errors.Join(err, v.close())
		case found:
			return v, nil
		}
		if err := v.close(); err != nil {
			return nil, err
		}
	}
	return nil, &exitError{code: exitRefused, err: fmt.Errorf(
		"%s: no reading of the commit journal finds every frame that is needed; felixd log inspect says what is wrong with it, "+
			"or it is written faster than it can be read: try again", dir)}
}

// openView opens the files of a journal; nil when nothing is in them.
func openView(dir string) (*journalView, error) {
	v := &journalView{dir: dir}
	var err error
	if v.current, err = readCurrent(dir); err != nil || v.current.Epoch == 0 || v.current.Empty {
		return nil, err
	}
	for n := range int(v.current.Files) {
		f, err := os.Open(filepath.Join(dir, journal.FileName(n)))
		if err != nil {
			return nil, errors.Join(err, v.close())
		}
		v.files = append(v.files, f)
	}
	return v, nil
}

// readCurrent says which epoch is written; the zero value when there never was one.
func readCurrent(dir string) (journal.Current, error) {
	b, err := os.ReadFile(filepath.Join(dir, journal.CurrentName))
	if errors.Is(err, fs.ErrNotExist) {
		var used string
		if used, err = firstUsed(dir); used == "" || err != nil {
			return journal.Current{}, err
		}
		// It was gone, or the journal was made just now.
		if b, err = os.ReadFile(filepath.Join(dir, journal.CurrentName)); errors.Is(err, fs.ErrNotExist) {
			return journal.Current{}, &exitError{code: exitRefused, err: fmt.Errorf(
				"%s is gone, and %s holds frames; felixd log inspect says what to do", filepath.Join(dir, journal.CurrentName), used)}
		}
	}
	if err != nil {
		return journal.Current{}, err
	}
	c, err := journal.DecodeCurrent(b)
	if err != nil {
		err = &exitError{code: exitRefused, err: fmt.Errorf("%s is damaged: %w; felixd log inspect says what to do", filepath.Join(dir, journal.CurrentName), err)}
	}
	return c, err
}

// firstUsed names a data file that frames were written to; "" where there is none.
func firstUsed(dir string) (name string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	for _, e := range entries {
		if _, ok := journal.ParseFileName(e.Name()); !ok {
			continue
		}
		f, err := os.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			return "", err
		}
		used, err := journal.BeginsWithFrame(f)
		if err = errors.Join(err, f.Close()); used || err != nil {
			return e.Name(), err
		}
	}
	return "", err
}

// stillCurrent is false when a store was opened or closed meanwhile: the files may
// hold frames of its run instead.
func (v *journalView) stillCurrent() (bool, error) {
	now, err := readCurrent(v.dir)
	return now == v.current, err
}

func (v *journalView) close() error {
	var errs []error
	for _, f := range v.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// find reads the files twice at most, and is false when frames were missing.
func (v *journalView) find() (bool, error) {
	limit := uint64(0)
	for range 2 {
		frames, err := v.read()
		if err != nil {
			return false, err
		}
		if len(frames) == 0 {
			v.newest = journalFrame{} // the epoch has begun, and nothing else
			return true, nil
		}
		oldest := uint64(0)
		for _, f := range frames {
			oldest = max(oldest, f.OldestNeeded)
		}
		v.newest = frames[len(frames)-1]
		for _, last := range []uint64{v.newest.Sequence, limit} {
			if v.take(frames, oldest, last) {
				return true, nil
			}
		}
		limit = v.newest.Sequence
	}
	return false, nil
}

// take takes the frames of a range, when all of them were found. An empty range,
// of which nothing is needed any more, is whole.
func (v *journalView) take(frames []journalFrame, oldest, last uint64) bool {
	if last == 0 {
		return false
	}
	v.frames = v.frames[:0]
	for _, f := range frames {
		if f.Sequence == oldest+uint64(len(v.frames)) && f.Sequence <= last {
			v.frames = append(v.frames, f)
		}
	}
	return oldest > last || uint64(len(v.frames)) == last-oldest+1
}

// read finds the intact frames of the epoch, by sequence.
func (v *journalView) read() ([]journalFrame, error) {
	v.begins = make([]uint64, len(v.files))
	var frames []journalFrame
	for n := range v.files {
		for position := int64(0); position < v.current.FileBytes; {
			f, _, err := v.frame(n, position)
			switch {
			case errors.Is(err, errOverwritten):
				position += journal.BlockBytes
				continue
			case err != nil:
				return nil, err
			}
			if position == 0 {
				v.begins[n] = f.Sequence
			}
			frames = append(frames, f)
			position = f.end()
		}
	}
	slices.SortFunc(frames, func(a, b journalFrame) int {
		if a.Sequence < b.Sequence {
			return -1
		}
		return 1
	})
	return slices.CompactFunc(frames, func(a, b journalFrame) bool { return a.Sequence == b.Sequence }), nil
}

// errOverwritten says that there is no intact frame of the epoch.
var errOverwritten = errors.New("no frame of the commit journal's epoch is there")

// frame reads one frame. Its entries are valid until the next one is read.
func (v *journalView) frame(file int, position int64) (journalFrame, []journal.Entry, error) {
	head := v.room(journal.BlockBytes)
	n, err := v.files[file].ReadAt(head, position)
	if err != nil && !errors.Is(err, io.EOF) {
		return journalFrame{}, nil, err
	}
	h, err := journal.DecodeHeader(head[:n])
	if err != nil || h.Epoch != v.current.Epoch {
		return journalFrame{}, nil, errOverwritten
	}
	f := journalFrame{file: file, position: position, Header: h}
	whole := v.room(h.FrameBytes())
	if n, err = v.files[file].ReadAt(whole, position); err != nil && !errors.Is(err, io.EOF) {
		return f, nil, err
	}
	now, entries, err := journal.Decode(whole[:n])
	if err != nil || now != h {
		return f, nil, errOverwritten
	}
	return f, entries, nil
}

func (v *journalView) room(bytes int) []byte {
	v.buffer = slices.Grow(v.buffer[:0], bytes)[:bytes]
	return v.buffer
}

// each reads a frame that was found.
func (v *journalView) each(n int, do func(*journal.Entry) error) error {
	want := v.frames[n]
	f, entries, err := v.frame(want.file, want.position)
	if err == nil && f != want {
		err = errOverwritten
	}
	if err != nil {
		return err
	}
	for i := range entries {
		if err := do(&entries[i]); err != nil {
			return err
		}
	}
	return nil
}

// divide notes which frames are about which shard.
func (v *journalView) divide() error {
	v.shards = make(map[string][]int)
	for n := range v.frames {
		err := v.each(n, func(e *journal.Entry) error {
			if list := v.shards[e.Shard]; len(list) == 0 || list[len(list)-1] != n {
				v.shards[e.Shard] = append(list, n)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// upToDate says that no frame was written since: one would begin behind the newest,
// or begin another file.
func (v *journalView) upToDate() (bool, error) {
	if same, err := v.stillCurrent(); !same || err != nil {
		return false, err
	}
	if len(v.frames) == 0 || v.frames[len(v.frames)-1] != v.newest {
		return false, nil
	}
	at := make([]journalFrame, len(v.files), len(v.files)+1)
	for n := range at {
		at[n].file = n
	}
	for _, place := range append(at, journalFrame{file: v.newest.file, position: v.newest.end()}) {
		f, _, err := v.frame(place.file, place.position)
		switch {
		case errors.Is(err, errOverwritten):
		case err != nil:
			return false, err
		case f.Sequence > v.newest.Sequence && place.position > 0, place.position == 0 && f.Sequence != v.begins[place.file]:
			return false, nil
		}
	}
	return true, nil
}

// last is the newest frame of the view; 0 when none is needed.
func (v *journalView) last() uint64 {
	if len(v.frames) == 0 {
		return v.newest.Sequence
	}
	return v.frames[len(v.frames)-1].Sequence
}

// journalRefused is the error for a plan that refuses.
func journalRefused(plan *recovery.JournalPlan) error {
	return &recovery.JournalRefusedError{Root: plan.Root, Refusals: plan.Refusals, More: plan.More}
}
