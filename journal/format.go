package journal

import (
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// DirName is the directory below a store's root that holds the journal.
const DirName = ".journal"

// Sizes, in bytes.
const (
	// BlockBytes is what frames are aligned to, in place and in length.
	BlockBytes = 4096
	// HeaderBytes is the size of a frame's header.
	HeaderBytes = 48
	// FrameBytesMax is the largest a frame may be, padding included.
	FrameBytesMax = 4 << 20
	// EntryHeaderBytes is what an entry takes beside shard and record bytes.
	EntryHeaderBytes = 52
	// ShardBytesMax is the longest name of a shard's directory.
	ShardBytesMax = 255
	// CurrentBytes is the size of the file that names the epoch.
	CurrentBytes = 32
)

// Bounds on what the file that names the epoch may ask for.
const (
	FilesMax     = 1 << 12
	FileBytesMax = 1 << 40
)

const (
	magicCurrent = 0x464C4A43 // "FLJC"
	magicFrame   = 0x464C4A46 // "FLJF"
	// version is that of both layouts.
	version = 1
)

// CurrentName is the name of the file that says which epoch the data files belong
// to.
const CurrentName = "current"

const (
	fileSuffix = ".journal"
	fileDigits = 8
)

// FileName is the name of data file n.
func FileName(n int) string { return fmt.Sprintf("%0*d%s", fileDigits, n, fileSuffix) }

// ParseFileName gives the number in the name of a data file; ok is false for a
// name that FileName does not make.
func ParseFileName(name string) (n int, ok bool) {
	digits, ok := strings.CutSuffix(name, fileSuffix)
	if !ok || len(digits) != fileDigits {
		return 0, false
	}
	// Eight digits fit in an int wherever there are 32 bits.
	v, err := strconv.ParseUint(digits, 10, 32)
	return int(v), err == nil
}

// PaddedBytes is the number of bytes that a frame takes in a file.
func PaddedBytes(frameBytes int) int64 {
	return (int64(frameBytes) + BlockBytes - 1) / BlockBytes * BlockBytes
}

// Checksum is the CRC-32C that the journal uses throughout. An entry holds that
// of the header bytes of its segment.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// castagnoli has an instruction of its own on the processors we meet; a journal
// checksums every byte it writes.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)
