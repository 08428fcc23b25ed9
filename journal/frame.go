package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Where the fields of a frame's header stand.
const (
	frameAtFlags     = 6
	frameAtEpoch     = 8
	frameAtSequence  = 16
	frameAtOldest    = 24
	frameAtEntries   = 32
	frameAtBodyBytes = 36
	frameAtBodyCRC   = 40
	frameAtHeaderCRC = 44
)

// Header is the start of a frame.
type Header struct {
	// Epoch is that of the journal when the frame was written.
	Epoch uint64
	// Sequence is 1 for the first frame of an epoch and rises by 1.
	Sequence uint64
	// OldestNeeded is the lowest sequence that was still needed when this frame
	// was written: 1 to Sequence.
	OldestNeeded uint64
	// Entries is the number of entries, BodyBytes the number of bytes they take.
	Entries, BodyBytes uint32
}

// FrameBytes is the size of the whole frame without padding.
func (h Header) FrameBytes() int { return HeaderBytes + int(h.BodyBytes) }

// Seal finishes a frame: it fills in the header at the start of frame, over the
// HeaderBytes of room the caller left there, and pads with zeros up to a block.
// h.BodyBytes is set here. A frame that Decode would not take is a bug of the
// caller and panics.
func Seal(frame []byte, h Header) []byte {
	if len(frame) < HeaderBytes || len(frame) > FrameBytesMax {
		panic(fmt.Sprintf("journal: a frame of %d bytes", len(frame)))
	}
	h.BodyBytes = uint32(len(frame) - HeaderBytes)
	if err := h.validate(); err != nil {
		panic("journal: " + err.Error())
	}
	binary.BigEndian.PutUint32(frame, magicFrame)
	binary.BigEndian.PutUint16(frame[currentAtVersion:], version)
	binary.BigEndian.PutUint16(frame[frameAtFlags:], 0)
	binary.BigEndian.PutUint64(frame[frameAtEpoch:], h.Epoch)
	binary.BigEndian.PutUint64(frame[frameAtSequence:], h.Sequence)
	binary.BigEndian.PutUint64(frame[frameAtOldest:], h.OldestNeeded)
	binary.BigEndian.PutUint32(frame[frameAtEntries:], h.Entries)
	binary.BigEndian.PutUint32(frame[frameAtBodyBytes:], h.BodyBytes)
	binary.BigEndian.PutUint32(frame[frameAtBodyCRC:], Checksum(frame[HeaderBytes:]))
	binary.BigEndian.PutUint32(frame[frameAtHeaderCRC:], Checksum(frame[:frameAtHeaderCRC]))
	var zeros [BlockBytes]byte
	return append(frame, zeros[:PaddedBytes(len(frame))-int64(len(frame))]...)
}

// BeginsWithFrame says whether a data file was ever used: its first frame is at its
// beginning. One that cannot be read, of a newer version or damaged, is one too.
func BeginsWithFrame(file io.ReaderAt) (bool, error) {
	var magic [4]byte
	n, err := file.ReadAt(magic[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return n == len(magic) && binary.BigEndian.Uint32(magic[:]) == magicFrame, nil
}

// DecodeHeader reads the frame header that b starts with. The error is a
// *Corruption; checks run in the order length, magic, version, checksum, flags,
// fields. The body is not looked at.
func DecodeHeader(b []byte) (Header, error) {
	if err := checkHead(b, HeaderBytes, magicFrame); err != nil {
		return Header{}, err
	}
	if err := checkSum(HeaderChecksum, binary.BigEndian.Uint32(b[frameAtHeaderCRC:]), b[:frameAtHeaderCRC]); err != nil {
		return Header{}, err
	}
	if flags := binary.BigEndian.Uint16(b[frameAtFlags:]); flags != 0 {
		return Header{}, &Corruption{Kind: Flags, Found: uint64(flags)}
	}
	h := Header{
		Epoch:        binary.BigEndian.Uint64(b[frameAtEpoch:]),
		Sequence:     binary.BigEndian.Uint64(b[frameAtSequence:]),
		OldestNeeded: binary.BigEndian.Uint64(b[frameAtOldest:]),
		Entries:      binary.BigEndian.Uint32(b[frameAtEntries:]),
		BodyBytes:    binary.BigEndian.Uint32(b[frameAtBodyBytes:]),
	}
	if err := h.validate(); err != nil {
		return Header{}, err
	}
	return h, nil
}

// validate gives the first field that means nothing, as a *Corruption.
func (h Header) validate() error {
	switch {
	case h.Epoch == 0:
		return impossible("epoch 0")
	case h.OldestNeeded == 0 || h.OldestNeeded > h.Sequence:
		return impossible("frame %d needs frame %d", h.Sequence, h.OldestNeeded)
	case h.BodyBytes > FrameBytesMax-HeaderBytes:
		return impossible("a frame body of %d bytes", h.BodyBytes)
	case h.Entries > h.BodyBytes/EntryHeaderBytes || h.Entries == 0 && h.BodyBytes > 0:
		return impossible("%d entries in %d bytes", h.Entries, h.BodyBytes)
	}
	return nil
}

// Decode reads the frame that b starts with; what follows it, padding included,
// is not looked at. The record bytes of the entries are shared with b. The error
// is a *Corruption; after the checks of the header come the available bytes, the
// checksum of the body, and the entries.
func Decode(b []byte) (Header, []Entry, error) {
	h, err := DecodeHeader(b)
	if err != nil {
		return Header{}, nil, err
	}
	if h.FrameBytes() > len(b) {
		return h, nil, &Corruption{Kind: Truncated, Expected: uint64(h.FrameBytes()), Found: uint64(len(b))}
	}
	body := b[HeaderBytes:h.FrameBytes()]
	if err := checkSum(BodyChecksum, bodyChecksum(b), body); err != nil {
		return h, nil, err
	}
	// The body holds room for as many: the header was validated.
	entries := make([]Entry, 0, h.Entries)
	for range h.Entries {
		var e Entry
		if e, body, err = decodeEntry(body); err != nil {
			return h, nil, err
		}
		entries = append(entries, e)
	}
	if len(body) > 0 {
		return h, nil, impossible("%d bytes follow the last entry", len(body))
	}
	return h, entries, nil
}

// bodyChecksum is the checksum that a frame's header holds for its body.
func bodyChecksum(frame []byte) uint32 { return binary.BigEndian.Uint32(frame[frameAtBodyCRC:]) }
