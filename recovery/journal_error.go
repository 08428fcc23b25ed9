package recovery

import (
	"errors"
	"fmt"
	"strings"
)

// JournalError is one reason not to replay the commit journal. While there is one
// nothing is replayed, and no shard of the root may be opened: the journal holds
// records that were acknowledged.
type JournalError struct {
	// File is the path of the journal's file; Position is where in it the frame or
	// the damage begins, -1 when it is about the file as a whole.
	File     string `json:"file"`
	Position int64  `json:"position"`
	// Shard is the directory of the shard that the frame's entry is for, empty when
	// the reason is the journal itself. Segment and SegmentPosition are then where
	// in it.
	Shard           string `json:"shard,omitempty"`
	Segment         uint64 `json:"segment"`
	SegmentPosition int64  `json:"segment_position"`
	Reason          string `json:"reason"`
	// Remedy says what an operator can do.
	Remedy string `json:"remedy"`
	// Cause is nil when the reason is no damage in a file.
	Cause error `json:"-"`
}

// Error says where, why and what to do.
func (e *JournalError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "commit journal %s", e.File)
	if e.Position >= 0 {
		fmt.Fprintf(&b, " at position %d", e.Position)
	}
	if e.Shard != "" {
		fmt.Fprintf(&b, ", for shard %s, segment %d at position %d", e.Shard, e.Segment, e.SegmentPosition)
	}
	fmt.Fprintf(&b, ": %s", e.Reason)
	if e.Cause != nil {
		fmt.Fprintf(&b, " [%v]", e.Cause)
	}
	fmt.Fprintf(&b, "; %s", e.Remedy)
	return b.String()
}

// Unwrap gives the damage behind the reason.
func (e *JournalError) Unwrap() error { return e.Cause }

// refusalsMax bounds how many reasons are kept: with thousands of shards, one cause
// may be behind all of them.
const refusalsMax = 64

// JournalRefusedError says that the journal was not replayed, and that nothing was
// changed. errors.As finds each *JournalError in it.
type JournalRefusedError struct {
	Root string
	// Refusals holds at least one reason; More counts those that were not kept.
	Refusals []*JournalError
	More     int
}

// Error lists the reasons.
func (e *JournalRefusedError) Error() string {
	reasons := make([]string, len(e.Refusals))
	for i, r := range e.Refusals {
		reasons[i] = r.Error()
	}
	text := fmt.Sprintf("the commit journal of %s is not replayed, nothing was changed: %s", e.Root, strings.Join(reasons, "; also: "))
	if e.More > 0 {
		text += fmt.Sprintf("; and %d more", e.More)
	}
	return text
}

// Unwrap gives the reasons.
func (e *JournalRefusedError) Unwrap() []error {
	list := make([]error, len(e.Refusals))
	for i, r := range e.Refusals {
		list[i] = r
	}
	return list
}

// What an operator can do.
const (
	remedyJournal = "restore the data directory from a backup; " +
		"or move the journal's directory away to open the store without the records that only the journal holds"
	remedyShard = "put the shard's directory back as it was when this engine stopped, or restore the data directory from a backup; " +
		"or move the journal's directory away to open the store without the records that only the journal holds"
)

// errJournalEpoch is a caller that does not begin a new epoch.
var errJournalEpoch = errors.New("recovery: the epoch after a replay has to be another one, and not 0")
