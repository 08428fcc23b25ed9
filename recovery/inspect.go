package recovery

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"felix.local/felix/device"
	"felix.local/felix/segment"
)

// Inspect reads a shard directory and changes nothing. It looks at every
// segment's header and at the records behind its last index entry, and reads a
// segment whole where a decision depends on it: the newest one, the one before it
// where the mark does not vouch for all of that, and those whose index does not
// lead to the end of the file. label names the log in messages.
//
// A missing directory is a fine snapshot of a log that does not exist yet. An
// error is a failed read, or a name of ours that is no regular file.
func Inspect(disk device.FS, dir, label string, p Policy) (*Snapshot, error) {
	p = p.withDefaults()
	if err := p.validate(); err != nil {
		return nil, err
	}
	s := &Snapshot{Dir: dir, Label: label}
	entries, err := disk.ReadDir(dir)
	if device.IsNotExist(err) {
		s.DirMissing = true
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	if err := s.sort(entries); err != nil {
		return nil, err
	}
	if s.Mark, err = readMark(disk, dir); err != nil {
		return nil, err
	}
	if err := s.readOffload(disk); err != nil {
		return nil, err
	}
	r := &reader{disk: disk, s: s, p: p, buffer: make([]byte, bufferBytes)}
	for i := range s.Segments {
		newest := i == len(s.Segments)-1
		if err := r.look(&s.Segments[i], newest); err != nil {
			return nil, err
		}
	}
	return s, r.answer()
}

// answer reads segments whole until Decide has no question left. What has to be
// read is thereby said in one place, the decision itself. Every round reads at
// least one segment that was not read before, so the loop ends.
func (r *reader) answer() error {
	for {
		questions := decide(r.s, r.p).questions
		if len(questions) == 0 {
			return nil
		}
		for _, id := range questions {
			if err := r.walk(r.s.facts(id)); err != nil {
				return err
			}
		}
	}
}

// sort puts every directory entry where it belongs.
func (s *Snapshot) sort(entries []device.Entry) error {
	var indexes []string
	for _, e := range entries {
		regular := e.Type.Type() == 0
		if _, isCopy := parseSideCopyName(e.Name); isCopy && regular {
			s.SideCopies = append(s.SideCopies, e.Name)
			continue
		}
		switch {
		case hasSegmentShape(e.Name), e.Name == MarkName:
			if err := checkOurs(filepath.Join(s.Dir, e.Name), e); err != nil {
				return err
			}
			if id, ok := segment.ParseLogName(e.Name); ok {
				s.Segments = append(s.Segments, Facts{ID: id})
			} else if e.Name != MarkName {
				indexes = append(indexes, e.Name)
			}
		case regular && slices.Contains(sidecarNames(), e.Name):
			s.Sidecars = append(s.Sidecars, e.Name)
		case regular && slices.Contains(temporaryNames(), e.Name):
			s.Leftovers = append(s.Leftovers, e.Name)
		default:
			s.Foreign = append(s.Foreign, e.Name)
		}
	}
	// The listing may come in any order.
	slices.SortFunc(s.Segments, func(a, b Facts) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	for _, name := range indexes {
		id, _ := segment.ParseIndexName(name)
		if s.facts(id) == nil {
			s.OrphanIndexes = append(s.OrphanIndexes, name)
		}
	}
	return nil
}

// checkOurs refuses a name of ours that is no regular file, or whose number is
// beyond what an id can be. Going past it could mean to overlook a segment.
func checkOurs(path string, e device.Entry) error {
	if e.Type.Type() != 0 {
		return &device.Error{
			Op: "inspect", Path: path, Pos: -1, Class: device.ClassIO,
			Err: fmt.Errorf("%w, it is a %s", device.ErrNotRegular, typeName(e.Type)),
		}
	}
	_, isLog := segment.ParseLogName(e.Name)
	_, isIndex := segment.ParseIndexName(e.Name)
	if !isLog && !isIndex && e.Name != MarkName {
		return &NameError{Path: path, Problem: "the number is larger than any segment id"}
	}
	return nil
}

func typeName(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "directory"
	case mode&fs.ModeSymlink != 0:
		return "symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "FIFO"
	case mode&fs.ModeSocket != 0:
		return "socket"
	default:
		return "device"
	}
}

// readMark gives nil when there is no usable mark.
func readMark(disk device.FS, dir string) (*Mark, error) {
	f, err := disk.OpenFile(filepath.Join(dir, MarkName), device.ReadOnly, 0)
	if device.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, MarkBytes)
	n, err := readAvailable(f, b, 0)
	if err != nil {
		return nil, err
	}
	mark, ok := DecodeMark(b[:n])
	if !ok {
		return nil, nil
	}
	return &mark, nil
}
