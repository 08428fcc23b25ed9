package simdisk

import (
	"sort"
)

// doubt is what a power loss could decide about a disk.
type doubt struct {
	names []doubtName
	files []doubtFile
}

// doubtName is a directory entry that is not what the last flush of its directory
// covered.
type doubtName struct {
	entry *name
}

// doubtFile is a file whose length or pages are not what the device holds.
type doubtFile struct {
	file *inode
	// pages are the dirty ones below the current length, ascending.
	pages []int
}

// outcome decides a doubt.
type outcome struct {
	// fresh says of each name whether it is as it was last.
	fresh []bool
	files []fileOutcome
}

type fileOutcome struct {
	size int64
	// masks are, for each dirty page, the sectors that reached the device.
	masks []uint8
}

// Doubt counts what a power loss now would decide by chance.
type Doubt struct {
	// Names are directory entries, Files those with a dirty page or length, Pages
	// the dirty pages.
	Names, Files, Pages int
}

// Doubt tells how much a power loss now would decide by chance, apart from
// operations under way.
func (d *Disk) Doubt() Doubt {
	d.mu.Lock()
	defer d.mu.Unlock()
	in := d.doubtLocked()
	sum := Doubt{Names: len(in.names), Files: len(in.files)}
	for _, f := range in.files {
		sum.Pages += len(f.pages)
	}
	return sum
}

func (d *Disk) doubtLocked() *doubt {
	in := &doubt{}
	for _, f := range d.inodesLocked() {
		if f.isDir() {
			for _, base := range sortedNames(f) {
				if n := f.names[base]; n.now != n.synced {
					in.names = append(in.names, doubtName{n})
				}
			}
			continue
		}
		if df := (doubtFile{f, f.dirtyPages()}); len(df.pages) > 0 || f.size != f.deviceSize {
			in.files = append(in.files, df)
		}
	}
	return in
}

func sortedNames(dir *inode) []string {
	bases := make([]string, 0, len(dir.names))
	for base := range dir.names {
		bases = append(bases, base)
	}
	sort.Strings(bases)
	return bases
}

// dirtyPages are those that a power loss may leave in more than one state.
func (f *inode) dirtyPages() []int {
	var dirty []int
	for i, ps := range f.pages {
		if ps.version != 0 && int64(i)*PageBytes < f.size && differing(ps.device, ps.cache) != 0 {
			dirty = append(dirty, i)
		}
	}
	return dirty
}

// settleLoss turns the disk into what a power loss with this outcome leaves.
func (d *Disk) settleLoss(in *doubt, o *outcome, loseRenamed bool) {
	if !loseRenamed {
		in.keepRenamed(o.fresh)
	}
	for i, n := range in.names {
		if !o.fresh[i] {
			n.entry.now = n.entry.synced
		}
	}
	for i, df := range in.files {
		for j, page := range df.pages {
			ps := &df.file.pages[page]
			ps.device = mix(ps.device, ps.cache, o.files[i].masks[j], sharedEpoch)
		}
		df.file.deviceSize = o.files[i].size
	}
	d.restart()
}

// keepRenamed lets no renamed file be lost altogether: a rename gives up the old
// name and takes the new one in one stroke. Wherever the outcome took both
// away, the new one stands; that may take it from another, so it is looked at
// until nothing changes. A directory is not under both names either.
func (in *doubt) keepRenamed(fresh []bool) {
	for again := true; again; {
		again = false
		has := make(map[*inode]bool) // a name that the outcome gives
		at := make(map[*inode]int)   // the doubtful entry that is its name now
		for i, n := range in.names {
			if n.entry.now != nil {
				at[n.entry.now] = i
			}
			if fresh[i] {
				has[n.entry.now] = true
			} else {
				has[n.entry.synced] = true
			}
		}
		for i, n := range in.names {
			moved := n.entry.synced
			to, ok := at[moved]
			switch {
			case moved == nil || !ok:
			case !has[moved]:
				fresh[to], again = true, true
			case moved.isDir() && fresh[to] && !fresh[i]:
				fresh[i], again = true, true
			}
		}
	}
}

// restart makes the page cache what the device holds, names included.
func (d *Disk) restart() {
	for _, f := range d.inodesLocked() {
		f.links = 0
		for base, n := range f.names {
			if n.now == nil {
				delete(f.names, base)
				continue
			}
			n.synced, n.version = n.now, 0
		}
		if !f.isDir() {
			f.restart()
		}
	}
	d.mu.root.links = 1
	for _, f := range d.inodesLocked() {
		for _, n := range f.names {
			n.now.links++
		}
	}
}

// restart forgets the cache, and what lies on the device past the length.
func (f *inode) restart() {
	f.size = f.deviceSize
	f.pages = f.pages[:min(int64(len(f.pages)), (f.size+PageBytes-1)/PageBytes)]
	if rest := f.size % PageBytes; rest != 0 && f.size/PageBytes < int64(len(f.pages)) {
		last := &f.pages[f.size/PageBytes]
		if last.device != nil && [PageBytes]byte(last.device.data) != hole {
			p := &page{epoch: sharedEpoch}
			copy(p.data[:rest], last.device.data[:rest])
			last.device = p
		}
	}
	for i := range f.pages {
		f.pages[i] = pageState{cache: f.pages[i].device, device: f.pages[i].device}
	}
}
