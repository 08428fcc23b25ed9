package corrupt

import (
	"path/filepath"

	"felix.local/felix/internal/simdisk"
	"felix.local/felix/segment"
)

// Image is one damaged log, for those who look at it with other tools.
type Image struct {
	Damage  Damage
	Verdict Verdict

	world       *world
	expectation expectation
}

// String says which log was damaged how.
func (i *Image) String() string {
	return string(i.world.format) + " " + string(i.world.state) + ", " + i.Damage.String()
}

// State is how the log ended before it was damaged.
func (i *Image) State() State { return i.world.state }

// Files are the names and contents of the directory, as they are before anything
// opened it.
func (i *Image) Files() (map[string][]byte, error) {
	disk := i.world.image(i.Damage)
	entries, err := disk.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	for _, e := range entries {
		if files[e.Name], err = simdisk.ReadFile(disk, filepath.Join(dir, e.Name)); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// Records are those that were written, and Intact says of each of them whether
// its bytes are all there, unharmed and at their place.
func (i *Image) Records() (all []segment.Record, intact []bool) {
	intact = make([]bool, len(i.world.records))
	for _, t := range i.world.logs {
		content := t.content
		switch name := segment.LogName(t.id); {
		case !i.Damage.touches(name):
		case i.Damage.Kind.ofFiles():
			content = nil
		default:
			content = i.Damage.altered(content)
		}
		for n := range t.records {
			intact[t.first+n] = t.spared(content, n)
		}
	}
	return i.world.records, intact
}

// Kept is the number of records that opening leaves, where it does not fail.
func (i *Image) Kept() int { return i.expectation.kept }
