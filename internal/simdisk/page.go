package simdisk

import (
	"hash/maphash"
	"sync/atomic"
)

// The units that a device loses and tears.
const (
	PageBytes   = 4096
	SectorBytes = 512

	sectorsPerPage = PageBytes / SectorBytes
	allSectors     = 1<<sectorsPerPage - 1
)

// page is 4096 bytes of a file. It is written in place only by the inode whose
// epoch it carries, and is shared, never to change again, once that inode moved
// on to another epoch.
type page struct {
	data  [PageBytes]byte
	epoch uint64
	hash  atomic.Uint64 // of a shared page; 0 while unknown
}

// bytesOf gives a page's bytes; a page that is not there is a hole.
func bytesOf(p *page) *[PageBytes]byte {
	if p == nil {
		return &hole
	}
	return &p.data
}

// hole is never written.
var hole [PageBytes]byte

// hashSeed makes page hashes comparable within the process.
var hashSeed = maphash.MakeSeed()

// contentHash is the hash of a shared page; a hole and a page of zeros hash alike.
func contentHash(p *page) uint64 {
	if p == nil || p.data == hole {
		return 0
	}
	if h := p.hash.Load(); h != 0 {
		return h
	}
	h := maphash.Bytes(hashSeed, p.data[:]) | 1
	p.hash.Store(h)
	return h
}

// mix gives a page whose sectors in mask come from fresh and whose others from
// old. It shares either where it can.
func mix(old, fresh *page, mask uint8, epoch uint64) *page {
	switch mask {
	case 0:
		return old
	case allSectors:
		return fresh
	}
	p := &page{data: *bytesOf(old), epoch: epoch}
	from := bytesOf(fresh)
	for s := range sectorsPerPage {
		if mask&(1<<s) != 0 {
			at := s * SectorBytes
			copy(p.data[at:at+SectorBytes], from[at:])
		}
	}
	return p
}

// differing gives the sectors in which two pages differ.
func differing(a, b *page) uint8 {
	if a == b {
		return 0
	}
	x, y := bytesOf(a), bytesOf(b)
	var mask uint8
	for s := range sectorsPerPage {
		at := s * SectorBytes
		if [SectorBytes]byte(x[at:at+SectorBytes]) != [SectorBytes]byte(y[at:at+SectorBytes]) {
			mask |= 1 << s
		}
	}
	return mask
}
