package simdisk

import (
	"encoding/binary"
	"hash/maphash"
)

// Digest is equal for two disks of one process that read back alike: the same
// names, permissions, lengths and bytes.
func (d *Disk) Digest() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.inodesLocked() {
		d.freezeLocked(f) // page hashes are kept
	}
	return digest(d.mu.root)
}

func digest(f *inode) uint64 {
	var h maphash.Hash
	h.SetSeed(hashSeed)
	number := func(n uint64) {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], n)
		h.Write(b[:])
	}
	number(uint64(f.mode))
	number(uint64(f.size))
	if f.isDir() {
		for _, base := range sortedNames(f) {
			if n := f.names[base]; n.now != nil {
				h.WriteString(base)
				number(digest(n.now))
			}
		}
		return h.Sum64()
	}
	for i := range f.pages {
		if int64(i)*PageBytes < f.size {
			if sum := contentHash(f.pages[i].cache); sum != 0 {
				number(uint64(i))
				number(sum)
			}
		}
	}
	return h.Sum64()
}
