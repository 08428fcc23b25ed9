package simdisk

import (
	"io/fs"
)

// inode is a file or a directory. Everything in it is under Disk.mu.
type inode struct {
	id    uint64
	mode  fs.FileMode // permissions, and fs.ModeDir
	links int         // current names

	// epoch tells the pages that this inode may write in place.
	epoch uint64
	// pages cover the current length and the durable one.
	pages []pageState
	// size is what a program sees, deviceSize what the device holds.
	size, deviceSize int64
	// flushed is the version of the newest capture that reached the device.
	flushed uint64
	// captures is the number of flushes under way. While there are any, overlays
	// keeps the dsync writes that completed, since an older capture must not
	// undo them.
	captures int
	overlays []overlay

	// names is what a directory holds; nil for a file.
	names map[string]*name
}

// pageState is one page of a file in both worlds.
type pageState struct {
	cache, device *page
	// version of the last change that no completed sync covers; 0 when clean. A
	// clean page may still differ from the device, after a failed flush.
	version uint64
}

// name is one entry of a directory in both worlds; nil says that it is not
// there.
type name struct {
	now, synced *inode
	// version of the last change that no completed flush covers; 0 when there is
	// none, or when a failed flush dropped it.
	version uint64
	// reached is the version of the newest change that reached the device.
	reached uint64
}

type overlay struct {
	version uint64
	pos     int64
	bytes   []byte
}

func (f *inode) isDir() bool { return f.names != nil }

// cover makes room for the states of all pages below end.
func (f *inode) cover(end int64) {
	need := int((end + PageBytes - 1) / PageBytes)
	if grow := need - len(f.pages); grow > 0 {
		f.pages = append(f.pages, make([]pageState, grow)...)
	}
}

// own gives page i of the cache for writing in place.
func (f *inode) own(i int) *page {
	ps := &f.pages[i]
	if ps.cache == nil {
		ps.cache = &page{epoch: f.epoch}
	} else if ps.cache.epoch != f.epoch {
		ps.cache = &page{data: ps.cache.data, epoch: f.epoch}
	}
	return ps.cache
}

// eachPage calls do for every page that [pos, pos+n) touches, with the range
// within the page and where it begins in the whole.
func eachPage(pos, n int64, do func(i, from, to int, at int64)) {
	for at := int64(0); at < n; {
		i := (pos + at) / PageBytes
		from := (pos + at) % PageBytes
		to := min(PageBytes, from+n-at)
		do(int(i), int(from), int(to), at)
		at += to - from
	}
}

// write changes the page cache, and with it what the program reads.
func (f *inode) write(pos int64, b []byte, version uint64) {
	if len(b) == 0 {
		return
	}
	end := pos + int64(len(b))
	f.cover(end)
	eachPage(pos, int64(len(b)), func(i, from, to int, at int64) {
		copy(f.own(i).data[from:to], b[at:])
		f.pages[i].version = version
	})
	f.size = max(f.size, end)
}

// read follows io.ReaderAt but for the error.
func (f *inode) read(p []byte, pos int64) int {
	n := min(int64(len(p)), f.size-pos)
	if n <= 0 {
		return 0
	}
	eachPage(pos, n, func(i, from, to int, at int64) {
		var cached *page
		if i < len(f.pages) {
			cached = f.pages[i].cache
		}
		copy(p[at:], bytesOf(cached)[from:to])
	})
	return int(n)
}

// truncate sets the length. The rest of the page in which the new end lies
// becomes zeros, and so do all pages past it, in the cache.
func (f *inode) truncate(size int64, version uint64) {
	if size < f.size {
		first := int(size / PageBytes)
		if rest := int(size % PageBytes); rest != 0 && first < len(f.pages) {
			if f.pages[first].cache != nil {
				clear(f.own(first).data[rest:])
				f.pages[first].version = version
			}
			first++
		}
		for i := first; i < len(f.pages); i++ {
			ps := &f.pages[i]
			ps.cache = nil
			ps.version = 0
			if ps.device != nil {
				ps.version = version
			}
		}
	}
	f.size = size
	f.trim()
}

// trim forgets states that say nothing.
func (f *inode) trim() {
	n := len(f.pages)
	for n > 0 && f.pages[n-1] == (pageState{}) {
		n--
	}
	f.pages = f.pages[:n]
}

// drop forgets the clean pages of the cache from the page that holds pos on.
func (f *inode) drop(pos int64) {
	for i := int(min(pos/PageBytes, int64(len(f.pages)))); i < len(f.pages); i++ {
		if ps := &f.pages[i]; ps.version == 0 {
			ps.cache = ps.device
		}
	}
}

// patchDevice puts bytes on the device and nothing else.
func (f *inode) patchDevice(pos int64, b []byte) {
	f.cover(pos + int64(len(b)))
	eachPage(pos, int64(len(b)), func(i, from, to int, at int64) {
		p := &page{data: *bytesOf(f.pages[i].device), epoch: sharedEpoch}
		copy(p.data[from:to], b[at:])
		f.pages[i].device = p
	})
	f.deviceSize = max(f.deviceSize, pos+int64(len(b)))
}

// sharedEpoch belongs to no inode: a page that carries it is never written.
const sharedEpoch = 0
