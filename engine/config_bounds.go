package engine

import (
	"fmt"
	"math"
	"time"
)

// bound is the range of values that a number of Config may have, durations in
// nanoseconds. Reading a variable and validating a Config use the same one, so
// that a message never names a limit that another check then narrows.
type bound struct {
	low, high int64
	zero      zeroMeaning
}

// zeroMeaning says what 0 is when it lies below the range.
type zeroMeaning uint8

const (
	// zeroRefused: 0 is as good or bad as the range says.
	zeroRefused zeroMeaning = iota
	// zeroUnset: the field holds 0 when the variable is not set. The variable
	// itself takes no 0: whoever writes "keep 0 bytes" may not mean "keep all".
	zeroUnset
	// zeroMeant: 0 has a meaning of its own in both.
	zeroMeant
)

// bounds is the table, by field.
func bounds() map[string]bound {
	const durationMax = math.MaxInt64
	return map[string]bound{
		"FsyncInterval":            {1, durationMax, zeroUnset},
		"SegmentBytes":             {SegmentBytesMin, SegmentBytesMax, zeroRefused},
		"IndexSpacingBytes":        {1, SegmentBytesMax, zeroRefused},
		"MaxRecordsPerRead":        {1, math.MaxInt, zeroRefused},
		"RolloverThresholdPercent": {1, 100, zeroRefused},
		"MaxOvershootPercent":      {0, 1000, zeroRefused},
		"SideCopiesKept":           {1, 1000, zeroRefused},
		"MarkSyncInterval":         {0, durationMax, zeroRefused},
		"RetentionBytes":           {1, math.MaxInt64, zeroUnset},
		"RetentionAge":             {1, durationMax, zeroUnset},
		"RetentionInterval":        {0, durationMax, zeroRefused},
		"MinFreeBytes":             {0, math.MaxInt64, zeroRefused},
		"MinFreeInodes":            {0, math.MaxInt64, zeroRefused},
		"OpenSealedMax":            {1, math.MaxInt, zeroRefused},
		"OpenFilesMax":             {OpenFilesMin, math.MaxInt, zeroMeant},
		"StagedBytesMax":           {1, math.MaxInt64, zeroRefused},
		"StagedBytesPerLogMax":     {1, math.MaxInt64, zeroRefused},
		"JournalBytes":             {JournalBytesMin, JournalBytesMax, zeroRefused},
		"RingEntries":              {RingEntriesMin, RingEntriesMax, zeroRefused},
		"RingWorkersMax":           {1, WorkersMax, zeroRefused},
		"PoolWorkers":              {1, WorkersMax, zeroRefused},
	}
}

// boundOf gives the range of a field, for the variable that sets it.
func boundOf(field string) bound {
	b, ok := bounds()[field]
	if !ok {
		panic("engine: no bound is known for the field " + field)
	}
	if b.zero == zeroUnset {
		b.zero = zeroRefused
	}
	return b
}

// in gives the whole multiples of a unit that a range of durations holds.
func (b bound) in(unit time.Duration) bound {
	b.low = (b.low + int64(unit) - 1) / int64(unit)
	b.high /= int64(unit)
	return b
}

func (b bound) holds(value int64) bool {
	return value >= b.low && value <= b.high || value == 0 && b.zero != zeroRefused
}

// text names the range.
func (b bound) text(show func(int64) string) string {
	s := fmt.Sprintf("between %s and %s", show(b.low), show(b.high))
	if b.zero != zeroRefused {
		s = "0 or " + s
	}
	return s
}
