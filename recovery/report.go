package recovery

import (
	"fmt"
	"time"

	"felix.local/felix/segment"
)

// Recovered is a log that may be used.
type Recovered struct {
	// Sealed are all segments but the newest, ascending.
	Sealed []segment.Descriptor
	// Active is the segment to append to. It ends at Active.Size.
	Active segment.Descriptor
	// ActiveEntries and ActiveSince are its index as appending goes on with it.
	ActiveEntries []segment.IndexEntry
	ActiveSince   int64
	// Mark is what durable.mark says, durably.
	Mark   Mark
	Report Report
}

// Report is what recovery did, for logs and counters.
type Report struct {
	// Steps are the steps that were carried out, in order.
	Steps []Step
	// Warnings are worth a line in the log each.
	Warnings []string
	// TruncatedBytes were cut off; IntactRecordsDropped were among them or in
	// segments set aside.
	TruncatedBytes       int64
	IntactRecordsDropped uint64
	// TruncatedBelowMark counts cuts of bytes that the mark vouches for. Each
	// deserves an error in the log.
	TruncatedBelowMark int
	// AbandonedRolls counts segments without records that were deleted or set
	// aside.
	AbandonedRolls int
	// IndexRebuilds counts indexes of sealed segments that were written anew,
	// IndexFailures those that could not be written.
	IndexRebuilds, IndexFailures int
	// SideCopies are the names of the side copies made.
	SideCopies []string
	// Foreign are names in the directory that are not ours.
	Foreign []string
	// Duration is how long all of it took.
	Duration time.Duration
}

// count takes a step into the report.
func (r *Report) count(s Step) {
	r.Steps = append(r.Steps, s)
	r.TruncatedBytes += s.Cut()
	r.IntactRecordsDropped += s.RecordsDropped
	if s.SideCopy != "" {
		r.SideCopies = append(r.SideCopies, s.SideCopy)
	}
	switch s.Action {
	case DeleteSegment, SetAside:
		if s.RecordsDropped == 0 {
			r.AbandonedRolls++
		}
	case RebuildIndex:
		r.IndexRebuilds++
	case CutTail:
		if s.BelowMark {
			r.TruncatedBelowMark++
		}
	}
}

func (r *Report) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}
