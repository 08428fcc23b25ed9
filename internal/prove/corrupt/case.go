package corrupt

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Case names one image: the log and what was done to it. A failure carries its
// case, and Options.Only runs it again.
type Case struct {
	Format Format
	State  State
	// SegmentBytes is about the size of each segment.
	SegmentBytes int
	// VerifyAll opens with every segment read whole.
	VerifyAll bool
	Damage    Damage
}

const (
	caseSeparator = ":"
	verified      = "verified"
	// caseFields is how many there are, apart from the last, which may be missing.
	caseFields = 7
)

// String gives the case in one word without blanks, for ParseCase.
func (c Case) String() string {
	d := c.Damage
	second := strconv.Itoa(d.Bit)
	switch {
	case d.Kind.ofTwoFiles():
		second = d.Other
	case d.Kind.ofTwoSectors():
		second = strconv.FormatInt(d.From, 10)
	}
	fields := []string{
		string(c.Format), string(c.State), strconv.Itoa(c.SegmentBytes), string(d.Kind), d.File, strconv.FormatInt(d.Position, 10), second,
	}
	if c.VerifyAll {
		fields = append(fields, verified)
	}
	return strings.Join(fields, caseSeparator)
}

// ParseCase reads what String gave.
func ParseCase(s string) (Case, error) {
	fields := strings.Split(s, caseSeparator)
	c := Case{VerifyAll: len(fields) == caseFields+1 && fields[caseFields] == verified}
	if len(fields) != caseFields && !c.VerifyAll {
		example := Case{Format: V3, State: Killed, SegmentBytes: defaultSegmentBytes, Damage: Damage{Kind: Flip, File: "FILE"}}
		return c, fmt.Errorf("%q is no case: %d fields are wanted, as in %v", s, caseFields, example)
	}
	c.Format, c.State, c.Damage.Kind, c.Damage.File = Format(fields[0]), State(fields[1]), Kind(fields[3]), fields[4]
	var problems [3]error
	c.SegmentBytes, problems[0] = strconv.Atoi(fields[2])
	c.Damage.Position, problems[1] = strconv.ParseInt(fields[5], 10, 64)
	switch k := c.Damage.Kind; {
	case k.ofTwoFiles():
		c.Damage.Other = fields[6]
	case k.ofTwoSectors():
		c.Damage.From, problems[2] = strconv.ParseInt(fields[6], 10, 64)
	default:
		c.Damage.Bit, problems[2] = strconv.Atoi(fields[6])
	}
	if !slices.Contains(Kinds(), c.Damage.Kind) {
		return c, fmt.Errorf("%q is no case: no kind of damage is named %q", s, fields[3])
	}
	if err := errors.Join(problems[:]...); err != nil {
		return c, fmt.Errorf("%q is no case: %w", s, err)
	}
	return c, nil
}

// Failure is an image that was lost.
type Failure struct {
	Case Case
	// Cause says what is wrong with it.
	Cause error
}

// Error names the log, the damage and the case to run again.
func (f *Failure) Error() string {
	return fmt.Sprintf("%s %s, %v: %v [case %v]", f.Case.Format, f.Case.State, f.Case.Damage, f.Cause, f.Case)
}

// Unwrap gives the cause.
func (f *Failure) Unwrap() error { return f.Cause }
