package journal

import "fmt"

// CorruptionKind says what is wrong with bytes that were read.
type CorruptionKind uint8

// The kinds. Beside each stands what Expected and Found of a Corruption hold; a
// field that is not named is zero.
const (
	// Truncated: expected bytes are needed, found bytes are available.
	Truncated CorruptionKind = iota + 1
	// TooLong: expected bytes are all there may be, found bytes are there.
	TooLong
	// Magic: expected is the one of these bytes, found the one that is there.
	Magic
	// Version: found version.
	Version
	// Flags: found flags.
	Flags
	// HeaderChecksum: expected is stored, found is computed. It is that of the
	// whole of the file that names the epoch, and of a frame's header.
	HeaderChecksum
	// BodyChecksum: expected is stored, found is computed.
	BodyChecksum
	// Impossible: the checksums match, and Detail says which field means nothing.
	Impossible
)

// Corruption is bytes that are not what they have to be. Find one in an error
// with errors.As.
type Corruption struct {
	Kind            CorruptionKind
	Expected, Found uint64
	// Detail says what is impossible.
	Detail string
}

// Error renders the kind with its values.
func (c *Corruption) Error() string {
	switch c.Kind {
	case Truncated:
		return fmt.Sprintf("truncated: %d bytes needed, %d available", c.Expected, c.Found)
	case TooLong:
		return fmt.Sprintf("too long: %d bytes, %d are all there may be", c.Found, c.Expected)
	case Magic:
		return fmt.Sprintf("not of the journal: magic 0x%08x, expected 0x%08x", c.Found, c.Expected)
	case Version:
		return fmt.Sprintf("journal version %d is not supported, %d is", c.Found, version)
	case Flags:
		return fmt.Sprintf("unknown journal flags 0x%04x", c.Found)
	case HeaderChecksum:
		return fmt.Sprintf("header checksum mismatch: stored 0x%08x, computed 0x%08x", c.Expected, c.Found)
	case BodyChecksum:
		return fmt.Sprintf("body checksum mismatch: stored 0x%08x, computed 0x%08x", c.Expected, c.Found)
	default:
		return "impossible content: " + c.Detail
	}
}

func impossible(format string, values ...any) *Corruption {
	return &Corruption{Kind: Impossible, Detail: fmt.Sprintf(format, values...)}
}

// RottenError says that a frame which was acknowledged cannot be read any more:
// later frames are there. Opening the store without it would lose records in
// silence.
type RottenError struct {
	// Sequence is the frame's.
	Sequence uint64
	// File is the data file that holds it, and Position its place there, as
	// exactly as the frames around it tell.
	File     string
	Position int64
	// Later is the highest sequence that is there, in LaterFile.
	Later     uint64
	LaterFile string
	// Cause is what is wrong with the frame, where anything is left of it.
	Cause error
}

// Error says which frame is missing, where it was, and what to do.
func (e *RottenError) Error() string {
	why := "no intact frame is there"
	if e.Cause != nil {
		why = e.Cause.Error()
	}
	return fmt.Sprintf("journal frame %d is damaged, in %s at position %d or after it (%s), and frame %d in %s is intact: "+
		"records that were acknowledged are missing; restore the data directory from a backup, "+
		"or keep a copy of it and ask for help",
		e.Sequence, e.File, e.Position, why, e.Later, e.LaterFile)
}

// Unwrap gives what is wrong with the frame.
func (e *RottenError) Unwrap() error { return e.Cause }
