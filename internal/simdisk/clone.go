package simdisk

import (
	"sort"
)

// cloneLocked copies a disk in both its worlds, without what dies with a process:
// open files, locks and operations under way. Pages are shared. It gives the
// copy of each inode that has a name in either world.
func (d *Disk) cloneLocked() (*Disk, map[*inode]*inode) {
	d.mu.epoch++
	c := New()
	c.mu.nextID, c.mu.version, c.mu.nextFlight = d.mu.nextID, d.mu.version, d.mu.nextFlight
	c.mu.epoch = d.mu.epoch + 1
	copies := make(map[*inode]*inode)
	c.mu.root = d.copyInodeLocked(d.mu.root, c.mu.epoch, copies)
	return c, copies
}

func (d *Disk) copyInodeLocked(f *inode, epoch uint64, copies map[*inode]*inode) *inode {
	if f == nil {
		return nil
	}
	if done := copies[f]; done != nil {
		return done
	}
	f.epoch = d.mu.epoch // its pages are shared from here on
	g := &inode{
		id: f.id, mode: f.mode, links: f.links, epoch: epoch,
		pages: append([]pageState(nil), f.pages...), size: f.size, deviceSize: f.deviceSize, flushed: f.flushed,
	}
	copies[f] = g
	if f.isDir() {
		g.names = make(map[string]*name, len(f.names))
		for base, n := range f.names {
			if n.now == nil && n.synced == nil {
				continue
			}
			g.names[base] = &name{
				now: d.copyInodeLocked(n.now, epoch, copies), synced: d.copyInodeLocked(n.synced, epoch, copies),
				version: n.version, reached: n.reached,
			}
		}
	}
	return g
}

// flightsLocked are the operations under way, in the order they were issued.
func (d *Disk) flightsLocked() []*flight {
	flights := make([]*flight, 0, len(d.mu.flights))
	for fl := range d.mu.flights {
		flights = append(flights, fl)
	}
	sort.Slice(flights, func(i, j int) bool { return flights[i].id < flights[j].id })
	return flights
}

// cloneWith copies a disk and lets each write under way land as far as landed
// says. The buffers are the queue's as long as the lock is held.
func (d *Disk) cloneWith(landed func(fl *flight, left int) int) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, copies := d.cloneLocked()
	for _, fl := range d.flightsLocked() {
		left := len(fl.buf) - fl.landed
		if left == 0 {
			continue
		}
		n := landed(fl, left)
		if f := copies[fl.file.inode]; f != nil && n > 0 {
			at := fl.landed
			f.write(fl.pos+int64(at), fl.buf[at:at+n], c.stepLocked())
		}
	}
	return c
}

// inodesLocked are all inodes with a name in either world, in order of age.
func (d *Disk) inodesLocked() []*inode {
	seen := make(map[*inode]bool)
	var all []*inode
	var visit func(f *inode)
	visit = func(f *inode) {
		if f == nil || seen[f] {
			return
		}
		seen[f] = true
		all = append(all, f)
		for _, n := range f.names {
			visit(n.now)
			visit(n.synced)
		}
	}
	visit(d.mu.root)
	sort.Slice(all, func(i, j int) bool { return all[i].id < all[j].id })
	return all
}
