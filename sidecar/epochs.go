package sidecar

import (
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"slices"
)

const (
	// EpochsName is the file in a shard's directory.
	EpochsName = "epochs"
	// EpochsMax is how many generations a history holds. The oldest makes room:
	// a generation older than the oldest record is none two brokers can differ
	// within.
	EpochsMax = 512
	// EpochsBytesMax is the length of the longest file worth reading: one of the
	// greatest count that the field for it holds.
	EpochsBytesMax = epochsHeaderBytes + (1<<16-1)*epochBytes

	epochsHeaderBytes = 12
	epochBytes        = 16
)

func epochsKind() kind { return kind{EpochsName, 0x464C4550, 1} } // "FLEP"

// Epoch says that Generation wrote the records from Start on, until the next
// epoch's start.
type Epoch struct {
	Generation uint64 `json:"generation"`
	// Start is an offset.
	Start uint64 `json:"start"`
}

// Epochs is the history of a log's generations, oldest first: generations rise
// and starts never fall. The zero value is the empty history. A copy is
// independent of the original.
//
// Nothing in the log needs it: what is lost with it is the means to repair a
// divergence without an operator.
type Epochs struct {
	entries []Epoch
}

// Record notes that a generation begins at an offset, and reports whether it
// changed anything: a generation that is not newer than the newest is known
// already. Entries that start behind the new one describe records which are no
// longer there, and go.
func (e *Epochs) Record(generation, start uint64) bool {
	if newest, ok := e.Newest(); ok && generation <= newest.Generation {
		return false
	}
	e.DropPast(start)
	if len(e.entries) == EpochsMax {
		e.entries = e.entries[1:]
	}
	e.entries = append(slices.Clip(e.entries), Epoch{generation, start})
	return true
}

// EndOf is one past the last offset that a generation wrote: where the next one
// begins, or the tail for the newest. It is false for a generation that is not
// in the history. A generation that wrote nothing ends where it begins.
func (e Epochs) EndOf(generation, tail uint64) (uint64, bool) {
	i, found := slices.BinarySearchFunc(e.entries, generation, func(a Epoch, g uint64) int {
		return cmp.Compare(a.Generation, g)
	})
	switch {
	case !found:
		return 0, false
	case i == len(e.entries)-1:
		return tail, true
	default:
		return e.entries[i+1].Start, true
	}
}

// GenerationAt is the generation that wrote the record at an offset. It is false
// for one from before the history begins.
func (e Epochs) GenerationAt(offset uint64) (uint64, bool) {
	n := e.startingAtMost(offset)
	if n == 0 {
		return 0, false
	}
	return e.entries[n-1].Generation, true
}

// Newest is the last entry.
func (e Epochs) Newest() (Epoch, bool) {
	if len(e.entries) == 0 {
		return Epoch{}, false
	}
	return e.entries[len(e.entries)-1], true
}

// TruncateFrom drops the generations that begin at offset or behind it, as the
// log is cut there, and reports whether there were any.
func (e *Epochs) TruncateFrom(offset uint64) bool {
	if offset == 0 {
		return e.keep(0)
	}
	return e.keep(e.startingAtMost(offset - 1))
}

// DropPast drops the generations that begin behind the tail, whose records a
// crash took, and reports whether there were any. One that begins at the tail
// stays: its first record is still to come.
func (e *Epochs) DropPast(tail uint64) bool { return e.keep(e.startingAtMost(tail)) }

// startingAtMost counts the entries with starts up to offset.
func (e Epochs) startingAtMost(offset uint64) int {
	n, _ := slices.BinarySearchFunc(e.entries, offset, func(a Epoch, offset uint64) int {
		if a.Start <= offset {
			return -1
		}
		return 1
	})
	return n
}

func (e *Epochs) keep(n int) bool {
	dropped := n < len(e.entries)
	e.entries = e.entries[:n]
	return dropped
}

// Entries gives a copy of the history, oldest first.
func (e Epochs) Entries() []Epoch { return slices.Clone(e.entries) }

// AppendTo appends the bytes of the file.
func (e Epochs) AppendTo(dst []byte) []byte {
	start := len(dst)
	dst = epochsKind().appendHead(dst, uint16(len(e.entries)))
	dst = binary.BigEndian.AppendUint32(dst, 0)
	for _, entry := range e.entries {
		dst = binary.BigEndian.AppendUint64(dst, entry.Generation)
		dst = binary.BigEndian.AppendUint64(dst, entry.Start)
	}
	body := start + epochsHeaderBytes
	binary.BigEndian.PutUint32(dst[body-crcBytes:], crc32.ChecksumIEEE(dst[body:]))
	return dst
}

// DecodeEpochs reads a history. Bytes behind the last entry are ignored. The
// file is not authoritative: on an error, a *DecodeError, its reader goes on
// with the empty history that comes with it, and a warning.
func DecodeEpochs(b []byte) (Epochs, error) {
	k := epochsKind()
	if err := k.checkHead(b, epochsHeaderBytes); err != nil {
		return Epochs{}, err
	}
	if len(b) < epochsHeaderBytes {
		return Epochs{}, k.short(b, epochsHeaderBytes)
	}
	count := int(binary.BigEndian.Uint16(b[6:]))
	size := epochsHeaderBytes + count*epochBytes
	if len(b) < size {
		return Epochs{}, k.short(b, size)
	}
	body := b[epochsHeaderBytes:size]
	if err := k.checkSum(body, binary.BigEndian.Uint32(b[8:])); err != nil {
		return Epochs{}, err
	}
	if count > EpochsMax {
		return Epochs{}, contentError(EpochsName, "%d entries, at most %d are kept", count, EpochsMax)
	}
	entries := make([]Epoch, 0, count)
	for ; len(body) > 0; body = body[epochBytes:] {
		entry := Epoch{binary.BigEndian.Uint64(body), binary.BigEndian.Uint64(body[8:])}
		if n := len(entries); n > 0 && (entry.Generation <= entries[n-1].Generation || entry.Start < entries[n-1].Start) {
			return Epochs{}, contentError(EpochsName, "generation %d from offset %d on stands behind generation %d from offset %d on",
				entry.Generation, entry.Start, entries[n-1].Generation, entries[n-1].Start)
		}
		entries = append(entries, entry)
	}
	return Epochs{entries: entries}, nil
}
