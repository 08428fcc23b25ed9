package recovery

import (
	"fmt"
	"strings"
)

// RefusedError says that a log was not opened, and that nothing in its directory
// was changed by the decision. errors.As finds the *segment.Corruption behind it.
type RefusedError struct {
	Dir, Label string
	// Refusals holds at least one reason.
	Refusals []Refusal
}

// Error lists the reasons.
func (e *RefusedError) Error() string {
	reasons := make([]string, len(e.Refusals))
	for i, r := range e.Refusals {
		reasons[i] = r.String()
	}
	return fmt.Sprintf("shard %s is not opened, nothing was repaired: %s", e.Label, strings.Join(reasons, "; also: "))
}

// Unwrap gives the damage behind the reasons.
func (e *RefusedError) Unwrap() []error {
	var causes []error
	for _, r := range e.Refusals {
		if r.Cause != nil {
			causes = append(causes, r.Cause)
		}
	}
	return causes
}
