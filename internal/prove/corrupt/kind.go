package corrupt

// Kind is one way in which a file goes wrong.
type Kind string

// The kinds. Sectors have 512 bytes and pages 4096, and both lie at multiples of
// that; the last one of a file may be shorter.
const (
	// Flip is one bit turned.
	Flip Kind = "flip"
	// Cut is a file that ends early, or has nothing left.
	Cut Kind = "cut"
	// ZeroSector and ZeroPage read as zeros, as blocks do that were lost.
	ZeroSector Kind = "zero-sector"
	ZeroPage   Kind = "zero-page"
	// ZeroEnd is zeros from a sector on to the end of the file, which is what a
	// power loss leaves of a length that came before its blocks.
	ZeroEnd Kind = "zero-end"
	// CopySector is a write that went to the wrong place: a sector holds what
	// another one of the file does.
	CopySector Kind = "copy-sector"
	// SwapSectors are two sectors of a file in each other's place.
	SwapSectors Kind = "swap-sectors"
	// RemoveFile is a file that is missing.
	RemoveFile Kind = "remove"
	// CopyFile is a file that holds what another one does, as a backup leaves it
	// that was put back under the wrong name.
	CopyFile Kind = "copy-file"
	// SwapFiles are two files under each other's names.
	SwapFiles Kind = "swap-files"
)

// Kinds are all kinds.
func Kinds() []Kind {
	return []Kind{Flip, Cut, ZeroSector, ZeroPage, ZeroEnd, CopySector, SwapSectors, RemoveFile, CopyFile, SwapFiles}
}

const (
	bitsPerByte = 8
	sectorBytes = 512
	pageBytes   = 4096
)

// ofSectors says that a kind needs files of many sectors to mean anything.
func (k Kind) ofSectors() bool {
	return k == ZeroSector || k == ZeroPage || k == ZeroEnd || k.ofTwoSectors()
}

// ofFiles says that a kind is about whole files, and not about bytes of one.
func (k Kind) ofFiles() bool { return k == RemoveFile || k.ofTwoFiles() }

func (k Kind) ofTwoFiles() bool { return k == CopyFile || k == SwapFiles }

// ofTwoSectors says that a damage of the kind has a From.
func (k Kind) ofTwoSectors() bool { return k == CopySector || k == SwapSectors }
