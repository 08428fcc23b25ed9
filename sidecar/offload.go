package sidecar

import (
	"cmp"
	"encoding/binary"
	"slices"
	"unicode/utf8"

	"felix.local/felix/device"
)

const (
	// OffloadName is the file in a shard's directory.
	OffloadName = "offload.manifest"
	// OffloadBytesMax is the length of the longest file worth reading: more than a
	// million entries with keys of the usual length.
	OffloadBytesMax = 256 << 20

	offloadHeaderBytes = 12
	copyFixedBytes     = 54
	copyKeyBytesMax    = 1<<16 - 1
)

func offloadKind() kind { return kind{OffloadName, 0x464C4F46, 1} } // "FLOF"

// OffloadedCopy says that the object store holds a verified copy of a sealed segment.
type OffloadedCopy struct {
	Segment uint64 `json:"segment"`
	// First and Last are offsets; Last is inclusive.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Size is the length of the copy in bytes: the segment's valid ones.
	Size uint64 `json:"size"`
	// OldestMicros and NewestMicros are the timestamps of the first and the last record.
	OldestMicros uint64 `json:"oldest_micros"`
	NewestMicros uint64 `json:"newest_micros"`
	// Checksum is the CRC-32 over the copy.
	Checksum uint32 `json:"checksum"`
	// Key names the object. It is used as it stands and never made again from the
	// other fields: earlier builds made keys otherwise.
	Key string `json:"key"`
}

// Offload is which segments of a log have a copy in the object store, in ascending
// order of their offsets and without overlaps. Gaps are no error: what retention
// deleted while offloading was off was never copied. The zero value, and an absent
// file, name none. A copy is independent of the original.
//
// Once a segment's own file is gone, its entry is all that says that its records
// still exist; that is why a damaged file must not be read as an empty one.
type Offload struct {
	copies []OffloadedCopy
	// reserved are two bytes that come back to the file as they were.
	reserved uint16
}

// Add notes a copy behind those that are known. It fails with a *DecodeError, and
// notes nothing, for one that could not be read back.
func (o *Offload) Add(c OffloadedCopy) error {
	if err := o.checkNext(c); err != nil {
		return err
	}
	o.copies = append(slices.Clip(o.copies), c)
	return nil
}

func (o *Offload) checkNext(c OffloadedCopy) error {
	switch n := len(o.copies); {
	case c.Last < c.First:
		return contentError(OffloadName, "the copy of segment %d holds offsets %d to %d", c.Segment, c.First, c.Last)
	case n > 0 && c.First <= o.copies[n-1].Last:
		return contentError(OffloadName, "the copy of segment %d begins at offset %d, and the one before it ends with %d",
			c.Segment, c.First, o.copies[n-1].Last)
	case len(c.Key) > copyKeyBytesMax:
		return contentError(OffloadName, "a key of %d bytes, at most %d are allowed", len(c.Key), copyKeyBytesMax)
	case !utf8.ValidString(c.Key):
		return contentError(OffloadName, "the key %q is not UTF-8", c.Key)
	}
	return nil
}

// TruncateFrom drops the copies that hold an offset or one behind it, as the log is
// cut there, and reports whether there were any. What they hold is replaced in the
// log by other records.
func (o *Offload) TruncateFrom(offset uint64) bool {
	kept := len(o.copies)
	for kept > 0 && o.copies[kept-1].Last >= offset {
		kept--
	}
	dropped := kept < len(o.copies)
	o.copies = o.copies[:kept]
	return dropped
}

// Covers says that the copies hold every offset from first up to, not including, end.
func (o Offload) Covers(first, end uint64) bool {
	for _, c := range o.copies {
		if first >= end || c.First > first {
			break
		}
		if c.Last >= end-1 {
			return true
		}
		if c.Last >= first {
			first = c.Last + 1
		}
	}
	return first >= end
}

// Describes says that there is a copy of exactly this segment.
func (o Offload) Describes(segment, first, last, size uint64) bool {
	i, found := slices.BinarySearchFunc(o.copies, first, func(c OffloadedCopy, first uint64) int {
		return cmp.Compare(c.First, first)
	})
	if !found {
		return false
	}
	c := o.copies[i]
	return c.Segment == segment && c.Last == last && c.Size == size
}

// Newest is the copy of the highest offsets.
func (o Offload) Newest() (OffloadedCopy, bool) {
	if len(o.copies) == 0 {
		return OffloadedCopy{}, false
	}
	return o.copies[len(o.copies)-1], true
}

// Copies gives a copy of the list.
func (o Offload) Copies() []OffloadedCopy { return slices.Clone(o.copies) }

// AppendTo appends the bytes of the file.
func (o Offload) AppendTo(dst []byte) []byte {
	start := len(dst)
	dst = offloadKind().appendHead(dst, o.reserved)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(o.copies)))
	for _, c := range o.copies {
		for _, field := range []uint64{c.Segment, c.First, c.Last, c.Size, c.OldestMicros, c.NewestMicros} {
			dst = binary.BigEndian.AppendUint64(dst, field)
		}
		dst = binary.BigEndian.AppendUint32(dst, c.Checksum)
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(c.Key)))
		dst = append(dst, c.Key...)
	}
	return appendChecksum(dst, start)
}

// DecodeOffload reads a manifest. The error is a *DecodeError; the file is
// authoritative, so it has to fail the open.
func DecodeOffload(b []byte) (Offload, error) {
	k := offloadKind()
	if err := k.checkHead(b, offloadHeaderBytes+crcBytes); err != nil {
		return Offload{}, err
	}
	if len(b) < offloadHeaderBytes+crcBytes {
		return Offload{}, k.short(b, offloadHeaderBytes+crcBytes)
	}
	count := uint64(binary.BigEndian.Uint32(b[8:]))
	size, err := offloadBytes(b, count)
	if err != nil {
		return Offload{}, err
	}
	if err := k.checkWhole(b, size); err != nil {
		return Offload{}, err
	}
	o := Offload{reserved: binary.BigEndian.Uint16(b[6:])}
	if count > 0 {
		o.copies = make([]OffloadedCopy, 0, count)
	}
	for rest := b[offloadHeaderBytes : size-crcBytes]; len(rest) > 0; {
		var c OffloadedCopy
		c, rest = decodeCopy(rest)
		if err := o.checkNext(c); err != nil {
			return Offload{}, err
		}
		o.copies = append(o.copies, c)
	}
	return o, nil
}

// offloadBytes adds up how long the file is, so that nothing is believed, and nothing
// allocated, before the checksum is.
func offloadBytes(b []byte, count uint64) (int, error) {
	if least := offloadHeaderBytes + count*copyFixedBytes + crcBytes; uint64(len(b)) < least {
		return 0, &DecodeError{File: OffloadName, Problem: ErrShort, Found: uint64(len(b)), Want: least}
	}
	size := offloadHeaderBytes
	for range count {
		size += copyFixedBytes
		if size+crcBytes > len(b) {
			return 0, offloadKind().short(b, size+crcBytes)
		}
		size += int(binary.BigEndian.Uint16(b[size-2:]))
	}
	return size + crcBytes, nil
}

func decodeCopy(b []byte) (OffloadedCopy, []byte) {
	number := binary.BigEndian.Uint64
	end := copyFixedBytes + int(binary.BigEndian.Uint16(b[52:]))
	return OffloadedCopy{
		Segment: number(b), First: number(b[8:]), Last: number(b[16:]), Size: number(b[24:]),
		OldestMicros: number(b[32:]), NewestMicros: number(b[40:]),
		Checksum: binary.BigEndian.Uint32(b[48:]), Key: string(b[copyFixedBytes:end]),
	}, b[end:]
}

// LoadOffload reads a shard's manifest; nil when there is none. Any error has to fail
// the open.
func LoadOffload(disk device.FS, dir string) (*Offload, error) {
	return load(disk, dir, OffloadName, OffloadBytesMax, DecodeOffload)
}
