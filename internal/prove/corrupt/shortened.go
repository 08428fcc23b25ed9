package corrupt

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

// shortened says what a log is that was opened with fewer records: it takes the
// verdict that was expected and holds every part of it against the report.
func (j *judgement) shortened() (Verdict, error) {
	v := j.want
	switch {
	case !v.short():
		return Lost, fmt.Errorf("opened with %d of %d records, without any right to", len(j.held), len(j.records))
	case len(j.held) != j.kept:
		return Lost, fmt.Errorf("%v with %d records, %d were to be kept", v, len(j.held), j.kept)
	case j.report.IntactRecordsDropped < uint64(j.droppedLeast), j.report.IntactRecordsDropped > uint64(j.dropped):
		return Lost, fmt.Errorf("%v counts %d intact records dropped, %d were, and %d of them at their place",
			v, j.report.IntactRecordsDropped, j.dropped, j.droppedLeast)
	}
	if want := boolToInt(v == CutBelowMark); j.report.TruncatedBelowMark != want {
		return Lost, fmt.Errorf("%v counts %d cuts below the mark", v, j.report.TruncatedBelowMark)
	}
	if warned := strings.Contains(strings.Join(j.report.Warnings, "\n"), "records are missing"); warned != (v == EndsBelowMark) {
		return Lost, fmt.Errorf("%v with the warnings %q", v, j.report.Warnings)
	}
	return v, j.checkSteps(v)
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// checkSteps holds that recovery cut and set aside what it had to, nothing else,
// and that every byte that went is in a side copy.
func (j *judgement) checkSteps(v Verdict) error {
	cuts, aside, deleted := 0, 0, 0
	for _, s := range j.report.Steps {
		var gone []byte
		switch s.Action {
		case recovery.CutTail:
			cuts++
			if s.Segment != j.logs[j.place].id || s.Position != j.cut {
				return fmt.Errorf("%v cut segment %d at position %d, not segment %d at position %d",
					v, s.Segment, s.Position, j.logs[j.place].id, j.cut)
			}
			gone = j.damaged(j.place)[j.cut:]
		case recovery.SetAside:
			aside++
			gone = j.damaged(len(j.logs) - 1)
		case recovery.DeleteSegment:
			deleted++
			continue
		default:
			continue
		}
		copied, err := simdisk.ReadFile(j.disk, filepath.Join(dir, s.SideCopy))
		if err != nil {
			return fmt.Errorf("%v without its side copy: %w", v, err)
		}
		if !bytes.Equal(copied, gone) {
			return fmt.Errorf("the side copy %s does not hold what went", s.SideCopy)
		}
	}
	if cuts != boolToInt(j.cut >= 0) || aside != boolToInt(v == CutRetired || v == SetAsideBlank) || deleted != boolToInt(v == DroppedBlank) {
		return fmt.Errorf("%v with %d cuts, %d segments set aside and %d deleted", v, cuts, aside, deleted)
	}
	return nil
}

// damaged is the content of a segment with the damage done, which is to be within
// the file.
func (j *judgement) damaged(place int) []byte {
	content := j.logs[place].content
	if j.file.kind != segmentFile || j.file.place != place || j.damage.Kind.ofFiles() {
		return content
	}
	return j.damage.altered(content)
}

// goesOn appends to a log that was opened short, opens it once more and finds
// what was kept and what was appended, with nothing left to repair.
func (j *judgement) goesOn() error {
	kept := j.kept
	appended := engine.Record{Payload: []byte("after the repair"), TimestampMicros: 1}
	if err := with(j.disk, j.o, func(l *engine.Log) error {
		if err := nothingRepaired(l); err != nil {
			return err
		}
		_, err := l.Append(context.Background(), appended)
		return err
	}); err != nil {
		return fmt.Errorf("appending after the repair: %w", err)
	}
	return with(j.disk, j.o, func(l *engine.Log) error {
		if err := nothingRepaired(l); err != nil {
			return err
		}
		held, err := read(l)
		if err != nil || len(held) != kept+1 {
			return fmt.Errorf("%d records after one was appended to %d: %w", len(held), kept, err)
		}
		j.held = held[:kept]
		if last := held[kept]; last.Mark != (segment.Mark{}) || !bytes.Equal(last.Payload, appended.Payload) {
			return fmt.Errorf("the record appended after the repair came back as %+v", last)
		}
		return j.prefix()
	})
}

// nothingRepaired holds that an open had nothing to do.
func nothingRepaired(l *engine.Log) error {
	if r := l.Recovery(); len(r.Steps) > 0 || len(r.Warnings) > 0 {
		return fmt.Errorf("a recovered log was repaired again: %+v, %q", r.Steps, r.Warnings)
	}
	return nil
}
