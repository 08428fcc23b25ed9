package simdisk

// CrashKind is what ends.
type CrashKind uint8

// The kinds of crash.
const (
	// PowerLoss leaves what the device holds.
	PowerLoss CrashKind = iota
	// ProcessDeath leaves the page cache as well: everything reads back, and a
	// later power loss may still take what was not synced.
	ProcessDeath
)

// Writeback is the order in which a kernel writes dirty pages by itself.
type Writeback uint8

// The orders.
const (
	// AnySubset: each dirty page is lost, written or torn by itself.
	AnySubset Writeback = iota
	// InOrder: of each file's dirty pages the first so many are written, the next
	// one is torn or lost, and the rest are lost.
	InOrder
)

// CrashOptions choose a crash.
type CrashOptions struct {
	Kind      CrashKind
	Writeback Writeback
	// Seed decides whatever chance decides.
	Seed uint64
	// LoseRenamed lets a renamed file be under neither of its names. Journaling
	// filesystems never do that.
	LoseRenamed bool
}

// Crash builds the disk that a crash at this moment leaves. This disk goes on as
// if nothing had happened, and the two share nothing from here on. A crash of an
// image is a crash right after the first one.
func (d *Disk) Crash(o CrashOptions) *Disk {
	r := NewRand(o.Seed)
	c := d.cloneWith(func(fl *flight, left int) int { return r.landed(fl, left) })
	if o.Kind == PowerLoss {
		in := c.doubtLocked()
		c.settleLoss(in, r.outcome(in, o.Writeback), o.LoseRenamed)
	}
	return c
}

// landed is how much of a write under way has happened: nothing, all, or a part
// that ends at a sector.
func (r *Rand) landed(fl *flight, left int) int {
	switch r.Below(3) {
	case 0:
		return 0
	case 1:
		return left
	default:
		return r.wholeSectors(fl.pos+int64(fl.landed), left)
	}
}

// wholeSectors chooses one of the sector boundaries within (pos, pos+n], and gives
// its distance from pos; 0 when there is none.
func (r *Rand) wholeSectors(pos int64, n int) int {
	first := (pos/SectorBytes + 1) * SectorBytes
	last := (pos + int64(n)) / SectorBytes * SectorBytes
	if last < first {
		return 0
	}
	return int(first + int64(r.Below(uint64((last-first)/SectorBytes)+1))*SectorBytes - pos)
}

// outcome decides a doubt by chance.
func (r *Rand) outcome(in *doubt, order Writeback) *outcome {
	o := &outcome{fresh: make([]bool, len(in.names)), files: make([]fileOutcome, len(in.files))}
	for i := range o.fresh {
		o.fresh[i] = r.Coin()
	}
	for i, df := range in.files {
		o.files[i].size = r.size(df.file.deviceSize, df.file.size)
		o.files[i].masks = make([]uint8, len(df.pages))
		if order == InOrder {
			r.inOrder(o.files[i].masks)
		} else {
			r.anySubset(o.files[i].masks)
		}
	}
	return o
}

func (r *Rand) size(synced, current int64) int64 {
	switch r.Below(3) {
	case 0:
		return synced
	case 1:
		return current
	default:
		low, high := min(synced, current), max(synced, current)
		return low + int64(r.Below(uint64(high-low)+1))
	}
}

func (r *Rand) anySubset(masks []uint8) {
	for i := range masks {
		switch r.Below(3) {
		case 0:
		case 1:
			masks[i] = allSectors
		default:
			masks[i] = r.torn()
		}
	}
}

func (r *Rand) inOrder(masks []uint8) {
	written := int(r.Below(uint64(len(masks)) + 1))
	for i := range written {
		masks[i] = allSectors
	}
	if written < len(masks) && r.Coin() {
		masks[written] = r.torn()
	}
}

// torn is a page of which the first 1 to 7 sectors are new.
func (r *Rand) torn() uint8 { return firstSectors(1 + int(r.Below(sectorsPerPage-1))) }

func firstSectors(n int) uint8 { return uint8(1<<n - 1) }

// WriteBack lets the kernel write some dirty pages by itself, by a choice of
// seed. They are no more durable than before; but when a power loss takes what
// is written to them later, it leaves this.
func (d *Disk) WriteBack(seed uint64) {
	r := NewRand(seed)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.inodesLocked() {
		for _, i := range f.dirtyPages() {
			if r.Coin() {
				d.freezeLocked(f)
				f.pages[i].device = f.pages[i].cache
			}
		}
	}
}
