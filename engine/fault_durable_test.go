package engine_test

import (
	"fmt"
	"path/filepath"

	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

// durableFiles says what would survive a power cut, worked out from the record
// of a disk's operations and from what each of them promises: a dsync write its
// own bytes, a flush every write that had ended when it started, the flush of a
// directory the names that were in it when it started.
type durableFiles map[string]*durableFile

type durableFile struct {
	made    int  // when the name had been made
	named   bool // the name is durable
	prefix  int64
	written []faultdisk.Event // not yet covered
}

func durableState(log []faultdisk.Event) durableFiles {
	files := make(durableFiles)
	for _, e := range log {
		if e.End == 0 || e.Err != nil {
			continue
		}
		switch e.Kind {
		case faultdisk.Create:
			files[e.Path] = &durableFile{made: e.End}
		case faultdisk.Remove:
			delete(files, e.Path)
		case faultdisk.FlushDir:
			for path, f := range files {
				if filepath.Dir(path) == e.Path && f.made < e.Start {
					f.named = true
				}
			}
		default:
			if f := files[e.Path]; f != nil {
				f.apply(e)
			}
		}
	}
	return files
}

func (f *durableFile) apply(e faultdisk.Event) {
	switch e.Kind {
	case faultdisk.Write:
		f.written = append(f.written, e)
	case faultdisk.WriteDsync:
		f.cover(e)
	case faultdisk.Flush, faultdisk.FlushAll:
		later := f.written[:0]
		for _, w := range f.written {
			if w.Before(e) {
				f.cover(w)
			} else {
				later = append(later, w)
			}
		}
		f.written = later
	case faultdisk.Truncate:
		f.prefix = min(f.prefix, e.Pos)
		kept := f.written[:0]
		for _, w := range f.written {
			if w.Pos < e.Pos {
				kept = append(kept, w)
			}
		}
		f.written = kept
	}
}

func (f *durableFile) cover(w faultdisk.Event) {
	if w.Pos <= f.prefix {
		f.prefix = max(f.prefix, w.Pos+w.Len)
	}
}

// segments says what of these segments would not survive a power cut; empty when
// all would.
func (d durableFiles) segments(dir string, segments []segment.Descriptor) string {
	for _, s := range segments {
		if problem := d.through(dir, s.ID, s.Size); problem != "" {
			return problem
		}
	}
	return ""
}

func (d durableFiles) through(dir string, id uint64, size int64) string {
	f := d[filepath.Join(dir, segment.LogName(id))]
	switch {
	case f == nil:
		return fmt.Sprintf("segment %d has no file", id)
	case !f.named:
		return fmt.Sprintf("the name of segment %d is not durable", id)
	case f.prefix < size:
		return fmt.Sprintf("segment %d is durable through %d of %d bytes", id, f.prefix, size)
	}
	return ""
}

// markLeads says what of that which a mark vouches for is not durable.
func (d durableFiles) markLeads(dir string, m recovery.Mark) string {
	for path, f := range d {
		id, ok := segment.ParseLogName(filepath.Base(path))
		if !ok || filepath.Dir(path) != dir {
			continue
		}
		size := m.Synced
		if id < m.Segment {
			size = f.prefix
			if len(f.written) > 0 {
				last := f.written[len(f.written)-1]
				size = max(size, last.Pos+last.Len)
			}
		}
		if id > m.Segment || id == m.Segment && m.Synced == 0 {
			continue
		}
		if problem := d.through(dir, id, size); problem != "" {
			return fmt.Sprintf("the mark says %+v, but %s", m, problem)
		}
	}
	return ""
}
