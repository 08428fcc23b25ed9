package corrupt

// Verdict is what became of a damaged log.
type Verdict uint8

// The verdicts.
const (
	// Lost is what must not be: records are gone or differ, and nothing said so,
	// or what was said is wrong.
	Lost Verdict = iota
	// Whole: every record is there.
	Whole
	// RefusedAtOpen: not opened, and the error names the damaged record.
	RefusedAtOpen
	// RefusedAtRead: opened, since sealed segments are verified when they are
	// read; reading fails with an error that names the damaged record.
	RefusedAtRead
	// CutUnfinished: the last record ran past the end of the file, past the mark
	// or without one, and was cut off.
	CutUnfinished
	// CutBelowMark is CutUnfinished below the mark, which is reported apart.
	CutBelowMark
	// CutPastMark: damage past the mark, cut with all behind it.
	CutPastMark
	// CutZeros: without a mark, zeros to the end of the file were cut.
	CutZeros
	// CutRetired: the segment before the newest is damaged past the mark, or lost
	// its end there; everything from there on was cut, and the newest set aside.
	CutRetired
	// DroppedBlank: the newest segment was left shorter than a header, and no mark
	// vouches for more; deleted.
	DroppedBlank
	// SetAsideBlank: the newest segment has zeros for a header and something behind
	// it, and the mark shows that not even the header was synced; kept as a side
	// copy, uncounted, since without a header nothing in it is a record.
	SetAsideBlank
	// EndsBelowMark: the newest segment was cut between two records, below the
	// mark, or is missing, as an interrupted truncation leaves it; opened with a
	// warning.
	EndsBelowMark
	// EndsUnvouched is the same past the mark or without one, where nothing can
	// tell that there was more.
	EndsUnvouched
	// StartsLater: the first segment is missing, which is what retention leaves.
	StartsLater

	verdictCount
)

var verdictNames = [verdictCount]string{
	"LOST", "all records", "refused at open", "refused at read", "unfinished record cut", "unfinished record cut below the mark",
	"cut past the mark", "zeros cut without a mark", "retired segment cut past the mark", "blank newest dropped, not vouched for",
	"blank newest set aside, past the mark", "ends early below the mark, warned", "ends early, not vouched for", "starts later, as after retention",
}

// String gives the verdict in a few words.
func (v Verdict) String() string { return verdictNames[v] }

// refused says that an error told of the damage.
func (v Verdict) refused() bool { return v == RefusedAtOpen || v == RefusedAtRead }

// short says that the log was opened with fewer records.
func (v Verdict) short() bool { return v > RefusedAtRead }
