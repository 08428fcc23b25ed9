package recovery

import (
	"felix.local/felix/segment"
)

// Action is what a step does.
type Action string

// The actions.
const (
	// MakeDirectory makes the shard directory.
	MakeDirectory Action = "make directory"
	// RemoveLeftover removes a temporary that a crash left.
	RemoveLeftover Action = "remove leftover"
	// RemoveIndex removes an index whose segment does not exist.
	RemoveIndex Action = "remove orphan index"
	// DeleteSegment removes a segment that holds no record.
	DeleteSegment Action = "delete segment"
	// DeleteCopied removes a segment that the object store has a copy of.
	DeleteCopied Action = "delete copied segment"
	// SetAside renames a segment that holds bytes to a side copy.
	SetAside Action = "set segment aside"
	// CutTail copies the end of a segment to a side copy and cuts it off.
	CutTail Action = "cut tail"
	// RebuildIndex writes the index of a sealed segment anew.
	RebuildIndex Action = "rebuild index"
	// RefreshIndex writes the index of the active segment anew. An unclean stop
	// leaves it behind, so this is routine.
	RefreshIndex Action = "refresh index"
	// MakeSegment makes the first segment of an empty log.
	MakeSegment Action = "make segment"
	// PruneSideCopy removes the oldest side copies beyond the bound.
	PruneSideCopy Action = "prune side copy"
)

// Step is one thing to do, in the order of the plan.
type Step struct {
	Action Action `json:"action"`
	// File is the name in the shard directory.
	File string `json:"file,omitempty"`
	// Segment is the id, for steps on a segment or its index.
	Segment uint64 `json:"segment,omitempty"`
	// Position is where a cut begins; Size the file's length before the step.
	Position int64 `json:"position,omitempty"`
	Size     int64 `json:"size,omitempty"`
	// Reason says in plain words why.
	Reason string `json:"reason"`
	// RecordsDropped counts intact records among the bytes that go.
	RecordsDropped uint64 `json:"records_dropped,omitempty"`
	// BelowMark says that bytes are missing, or go, that durable.mark vouches
	// for. The step is right by the rules and deserves an error in the log.
	BelowMark bool `json:"below_mark,omitempty"`
	// CopyOptional says that a full disk may skip the side copy, because the
	// bytes hold no whole record.
	CopyOptional bool `json:"copy_optional,omitempty"`
	// SideCopy is the name of the copy that was made; set by Apply.
	SideCopy string `json:"side_copy,omitempty"`

	// base and walk serve the index steps: the walk whose entries are to be
	// written, nil when they have to be read again.
	base uint64
	walk *Walk
}

// Repair says that the step changes what the log or an operator relied on; the
// others are routine.
func (s Step) Repair() bool {
	switch s.Action {
	case DeleteSegment, DeleteCopied, SetAside, CutTail, RebuildIndex:
		return true
	default:
		return false
	}
}

// Cut is the number of bytes that a CutTail takes off.
func (s Step) Cut() int64 {
	if s.Action != CutTail {
		return 0
	}
	return s.Size - s.Position
}

// Refusal is one reason not to open the log.
type Refusal struct {
	Label   string `json:"shard"`
	Segment uint64 `json:"segment"`
	// File is the path of the file.
	File string `json:"file"`
	// Position is a byte position in File.
	Position int64  `json:"position"`
	Reason   string `json:"reason"`
	// Remedy says what an operator can do.
	Remedy string `json:"remedy"`
	// Cause is nil when the reason is no damage in a file.
	Cause *segment.Corruption `json:"-"`
}

// Plan is what opening the directory would do. It is deterministic: the same
// Snapshot and Policy give the same plan.
type Plan struct {
	Dir   string
	Label string
	Steps []Step
	// Refusals is empty unless the log must not be opened; then no step is
	// applied.
	Refusals []Refusal
	// Warnings are facts worth a line in the log that change nothing.
	Warnings []string
	// Sealed and Active are the log after the steps. Active is zero when
	// refused.
	Sealed []segment.Descriptor
	Active segment.Descriptor
	// Mark is what durable.mark will say.
	Mark Mark

	policy     Policy
	snapshot   *Snapshot
	activeWalk *Walk
	questions  []uint64
}

// Refused says that opening would refuse, and change nothing.
func (p *Plan) Refused() bool { return len(p.Refusals) > 0 }

// RepairsPlanned counts the steps that are repairs.
func (p *Plan) RepairsPlanned() int {
	n := 0
	for _, s := range p.Steps {
		if s.Repair() {
			n++
		}
	}
	return n
}

// Clean says that opening would succeed without any repair.
func (p *Plan) Clean() bool { return !p.Refused() && p.RepairsPlanned() == 0 }
