package producer

import "fmt"

// Fault says what is wrong with the bytes of a snapshot.
type Fault uint8

// The faults, in the order they are looked for. Beside each stands what Expected
// and Found of a SnapshotError hold.
const (
	// FaultTruncated: bytes needed, bytes there.
	FaultTruncated Fault = iota + 1
	// FaultMagic: the magic, what stands there.
	FaultMagic
	// FaultVersion: the newest version, the one found.
	FaultVersion
	// FaultChecksum: the sum stored, the sum computed.
	FaultChecksum
	// FaultContent: the sum is right, and what it covers cannot be. What says
	// why; Expected is the bound it breaks, Found the value.
	FaultContent
)

// SnapshotError is bytes that are not a snapshot. A snapshot is derived: whatever
// the fault, the file can be deleted and the state rebuilt from the log.
type SnapshotError struct {
	Fault           Fault
	Expected, Found uint64
	// Position is where in the bytes.
	Position int
	// What is said of a FaultContent.
	What string
}

// Error renders the fault with its values and its position.
func (e *SnapshotError) Error() string {
	return fmt.Sprintf("producer snapshot: %s (position %d); it is derived and can be deleted", e.text(), e.Position)
}

func (e *SnapshotError) text() string {
	switch e.Fault {
	case FaultTruncated:
		return fmt.Sprintf("truncated: %d bytes needed, %d available", e.Expected, e.Found)
	case FaultMagic:
		return fmt.Sprintf("not a producer snapshot: magic 0x%08x", e.Found)
	case FaultVersion:
		return fmt.Sprintf("version %d is not supported, %d to %d are", e.Found, SnapshotV1, SnapshotV2)
	case FaultChecksum:
		return fmt.Sprintf("checksum mismatch: stored 0x%08x, computed 0x%08x", e.Expected, e.Found)
	case FaultContent:
		return fmt.Sprintf("%s: %d, against %d", e.What, e.Found, e.Expected)
	default:
		return fmt.Sprintf("fault %d", uint8(e.Fault))
	}
}
