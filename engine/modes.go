package engine

import (
	"fmt"
	"strings"
)

// FsyncMode says what an acknowledgement of an append means.
type FsyncMode uint8

// The modes. The zero value is the default.
const (
	// FsyncPeriodic acknowledges when the bytes are in the page cache and
	// flushes every dirty log once per Config.FsyncInterval. A power loss takes
	// at most what was acknowledged since the last flush began: up to one
	// interval plus the time of a flush. A killed process loses nothing.
	FsyncPeriodic FsyncMode = iota
	// FsyncNone acknowledges when the bytes are in the page cache and leaves
	// flushing to the kernel. A power loss may take anything not yet written
	// back. A killed process loses nothing.
	FsyncNone
	// FsyncOnCommit acknowledges when the bytes are on the device. Neither a
	// killed process nor a power loss takes an acknowledged record.
	FsyncOnCommit
)

// String gives the mode as settings and events write it.
func (m FsyncMode) String() string {
	switch m {
	case FsyncPeriodic:
		return "periodic"
	case FsyncNone:
		return "none"
	case FsyncOnCommit:
		return "on_commit"
	default:
		return fmt.Sprintf("fsync_mode(%d)", uint8(m))
	}
}

// ParseFsyncMode reads a mode as settings write it.
func ParseFsyncMode(text string) (FsyncMode, error) {
	switch strings.ToLower(text) {
	case "periodic":
		return FsyncPeriodic, nil
	case "none", "off":
		return FsyncNone, nil
	case "on_commit", "on-commit", "commit":
		return FsyncOnCommit, nil
	default:
		return 0, fmt.Errorf("%q is not one of none, periodic, on_commit", text)
	}
}

// IOURingMode says how the I/O backend is chosen.
type IOURingMode uint8

// The modes. The zero value is the default.
const (
	// IOURingAuto takes the ring where it works and the blocking pool, with a
	// log line that says why, where it does not.
	IOURingAuto IOURingMode = iota
	// IOURingOff takes the blocking pool.
	IOURingOff
	// IOURingRequire takes the ring or refuses to start.
	IOURingRequire
)

// String gives the mode's name.
func (m IOURingMode) String() string {
	switch m {
	case IOURingAuto:
		return "auto"
	case IOURingOff:
		return "off"
	case IOURingRequire:
		return "require"
	default:
		return fmt.Sprintf("io_uring_mode(%d)", uint8(m))
	}
}

// ParseIOURingMode reads a mode as settings write it: a boolean, "auto" or "require".
func ParseIOURingMode(text string) (IOURingMode, error) {
	switch strings.ToLower(text) {
	case "auto":
		return IOURingAuto, nil
	case "require":
		return IOURingRequire, nil
	}
	on, err := parseBool(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not one of 1, 0, require", text)
	case on:
		return IOURingAuto, nil
	default:
		return IOURingOff, nil
	}
}

// JournalMode says whether there is a commit journal.
type JournalMode uint8

// The modes. DefaultConfig has JournalAuto.
const (
	// JournalOff commits every batch in its log's own segment.
	JournalOff JournalMode = iota
	// JournalAuto has a journal where the filesystem gains by it, once the store
	// commits often enough to.
	JournalAuto
	// JournalRequire makes it when the store opens, or refuses to open.
	JournalRequire
)

// String gives the mode as settings write it.
func (m JournalMode) String() string {
	switch m {
	case JournalOff:
		return "off"
	case JournalAuto:
		return "auto"
	case JournalRequire:
		return "require"
	default:
		return fmt.Sprintf("journal_mode(%d)", uint8(m))
	}
}

// ParseJournalMode reads a mode as settings write it: off, auto or require, or a
// boolean for the first two.
func ParseJournalMode(text string) (JournalMode, error) {
	switch strings.ToLower(text) {
	case "auto":
		return JournalAuto, nil
	case "require":
		return JournalRequire, nil
	}
	on, err := parseBool(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not one of off, auto, require", text)
	case on:
		return JournalAuto, nil
	default:
		return JournalOff, nil
	}
}
