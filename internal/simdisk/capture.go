package simdisk

// capture is what a flush will make durable: the dirty pages, length and names
// as they were when it was issued.
type capture struct {
	version uint64
	size    int64
	pages   []capturedPage
	names   []capturedName
}

type capturedPage struct {
	index   int
	page    *page
	version uint64
}

type capturedName struct {
	entry   *name
	inode   *inode
	version uint64
}

// capture begins a flush. The caller froze the inode.
func (f *inode) capture(version uint64) *capture {
	f.captures++
	c := &capture{version: version, size: f.size}
	for i, ps := range f.pages {
		if ps.version != 0 {
			c.pages = append(c.pages, capturedPage{i, ps.cache, ps.version})
		}
	}
	for _, n := range f.names {
		if n.version != 0 {
			c.names = append(c.names, capturedName{n, n.now, n.version})
		}
	}
	return c
}

// release ends a flush, whatever came of it.
func (f *inode) release() {
	f.captures--
	if f.captures == 0 {
		f.overlays = nil
	}
}

// reach puts a capture on the device. One that was issued before another that
// completed already has nothing to add; a dsync write that completed since it was
// issued stays.
func (f *inode) reach(c *capture) {
	for _, n := range c.names {
		if n.version > n.entry.reached {
			n.entry.synced, n.entry.reached = n.inode, n.version
		}
		if n.entry.version == n.version {
			n.entry.version = 0
		}
	}
	if f.isDir() || c.version < f.flushed {
		return
	}
	f.flushed = c.version
	f.deviceSize = c.size
	for _, p := range c.pages {
		f.cover(int64(p.index+1) * PageBytes)
		ps := &f.pages[p.index]
		ps.device = p.page
		if ps.version <= p.version {
			ps.version = 0
		}
	}
	for _, o := range f.overlays {
		if o.version > c.version {
			f.patchDevice(o.pos, o.bytes)
		}
	}
	f.trim()
}

// reachRange makes a range durable that a dsync write wrote. clean are the pages
// that held nothing else to lose when the write landed, at version.
func (f *inode) reachRange(pos int64, b []byte, clean []int, landed, now uint64) {
	if len(b) == 0 {
		return
	}
	if f.captures > 0 {
		f.overlays = append(f.overlays, overlay{now, pos, append([]byte(nil), b...)})
	}
	f.patchDevice(pos, b)
	for _, i := range clean {
		if i < len(f.pages) && f.pages[i].version == landed {
			f.pages[i].version = 0
		}
	}
}

// lose is what a failed flush of these pages and names does: they count as
// clean, and nothing that is under way covers them any more. With revert the
// cache shows what the device holds. Those that partly gives true for did reach
// the device.
func (f *inode) lose(c *capture, revert bool, partly func() bool, others []*capture) {
	for _, n := range c.names {
		if n.entry.version == n.version {
			n.entry.version = 0
		}
	}
	for _, p := range c.pages {
		for _, other := range others {
			other.forget(p.index, p.version)
		}
		if p.index >= len(f.pages) {
			continue
		}
		ps := &f.pages[p.index]
		if partly() {
			ps.device = p.page
		}
		if ps.version > p.version {
			continue // changed since, and dirty again
		}
		ps.version = 0
		if revert {
			ps.cache = ps.device
		}
	}
}

// forget takes a page out of a flush under way, unless it changed since version.
func (c *capture) forget(index int, version uint64) {
	for i, p := range c.pages {
		if p.index == index && p.version <= version {
			c.pages = append(c.pages[:i], c.pages[i+1:]...)
			return
		}
	}
}
