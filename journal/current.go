package journal

import "encoding/binary"

// Where the fields of the file that names the epoch stand.
const (
	currentAtVersion   = 4
	currentAtFlags     = 6
	currentAtEpoch     = 8
	currentAtFileBytes = 16
	currentAtFiles     = 24
	currentAtCRC       = 28
)

// flagEmpty says that no frame of the epoch is needed.
const flagEmpty = 1

// Current says which epoch the data files belong to. It is replaced as a whole,
// by a rename.
type Current struct {
	// Epoch is random and never 0: frames of other epochs are leftovers.
	Epoch uint64
	// Files is the number of data files, FileBytes the size of each.
	Files     uint32
	FileBytes int64
	// Empty says that no frame of this epoch is needed, so that there is nothing
	// to scan: after a clean stop and after a replay.
	Empty bool
}

// AppendTo appends the CurrentBytes of the file to dst. Fields that DecodeCurrent
// would not take are a bug of the caller and panic.
func (c Current) AppendTo(dst []byte) []byte {
	if err := c.validate(); err != nil {
		panic("journal: " + err.Error())
	}
	var flags uint16
	if c.Empty {
		flags = flagEmpty
	}
	start := len(dst)
	dst = binary.BigEndian.AppendUint32(dst, magicCurrent)
	dst = binary.BigEndian.AppendUint16(dst, version)
	dst = binary.BigEndian.AppendUint16(dst, flags)
	dst = binary.BigEndian.AppendUint64(dst, c.Epoch)
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.FileBytes))
	dst = binary.BigEndian.AppendUint32(dst, c.Files)
	return binary.BigEndian.AppendUint32(dst, Checksum(dst[start:]))
}

// DecodeCurrent reads the file that names the epoch. The error is a *Corruption;
// checks run in the order length, magic, version, checksum, flags, fields.
func DecodeCurrent(b []byte) (Current, error) {
	if err := checkHead(b, CurrentBytes, magicCurrent); err != nil {
		return Current{}, err
	}
	if len(b) > CurrentBytes {
		return Current{}, &Corruption{Kind: TooLong, Expected: CurrentBytes, Found: uint64(len(b))}
	}
	if err := checkSum(HeaderChecksum, binary.BigEndian.Uint32(b[currentAtCRC:]), b[:currentAtCRC]); err != nil {
		return Current{}, err
	}
	flags := binary.BigEndian.Uint16(b[currentAtFlags:])
	if flags&^flagEmpty != 0 {
		return Current{}, &Corruption{Kind: Flags, Found: uint64(flags)}
	}
	c := Current{
		Epoch:     binary.BigEndian.Uint64(b[currentAtEpoch:]),
		FileBytes: int64(binary.BigEndian.Uint64(b[currentAtFileBytes:])),
		Files:     binary.BigEndian.Uint32(b[currentAtFiles:]),
		Empty:     flags&flagEmpty != 0,
	}
	if err := c.validate(); err != nil {
		return Current{}, err
	}
	return c, nil
}

// validate gives the first field that means nothing, as a *Corruption.
func (c Current) validate() error {
	switch {
	case c.Epoch == 0:
		return impossible("epoch 0")
	case c.Files == 0 || c.Files > FilesMax:
		return impossible("%d files, 1 to %d are possible", c.Files, FilesMax)
	case c.FileBytes < BlockBytes || c.FileBytes > FileBytesMax || c.FileBytes%BlockBytes != 0:
		return impossible("files of %d bytes; blocks of %d up to %d bytes are possible", c.FileBytes, BlockBytes, int64(FileBytesMax))
	}
	return nil
}

// checkHead checks length, magic and version of what begins with these.
func checkHead(b []byte, size int, magic uint32) error {
	if len(b) < size {
		return &Corruption{Kind: Truncated, Expected: uint64(size), Found: uint64(len(b))}
	}
	if found := binary.BigEndian.Uint32(b); found != magic {
		return &Corruption{Kind: Magic, Expected: uint64(magic), Found: uint64(found)}
	}
	if found := binary.BigEndian.Uint16(b[currentAtVersion:]); found != version {
		return &Corruption{Kind: Version, Found: uint64(found)}
	}
	return nil
}

func checkSum(kind CorruptionKind, stored uint32, covered []byte) error {
	if computed := Checksum(covered); computed != stored {
		return &Corruption{Kind: kind, Expected: uint64(stored), Found: uint64(computed)}
	}
	return nil
}
