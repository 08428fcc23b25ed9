package recovery

import (
	"encoding/json"
	"fmt"
	"strings"

	"felix.local/felix/segment"
)

// Verdict is a plan in one word: "clean", "repair" or "refuse".
func (p *Plan) Verdict() string {
	switch {
	case p.Refused():
		return "refuse"
	case p.RepairsPlanned() > 0:
		return "repair"
	default:
		return "clean"
	}
}

// String renders the plan for people: the verdict, then steps, refusals and
// warnings, one per line, in a form that does not change between runs.
func (p *Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", p.Label, p.summary())
	if m := p.snapshot.Mark; m != nil {
		fmt.Fprintf(&b, "  %s: segment %d, %d bytes\n", MarkName, m.Segment, m.Synced)
	} else {
		fmt.Fprintf(&b, "  %s: none\n", MarkName)
	}
	for _, r := range p.Refusals {
		fmt.Fprintf(&b, "  refuse: %s\n", r)
	}
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "  %s\n", s)
	}
	for _, w := range p.Warnings {
		fmt.Fprintf(&b, "  warning: %s\n", w)
	}
	for _, name := range p.snapshot.Foreign {
		fmt.Fprintf(&b, "  left alone: %s\n", name)
	}
	return b.String()
}

func (p *Plan) summary() string {
	if p.Refused() {
		return fmt.Sprintf("would refuse to open (%s), nothing would be changed", counted(len(p.Refusals), "reason"))
	}
	first := p.Active.BaseOffset
	if len(p.Sealed) > 0 {
		first = p.Sealed[0].BaseOffset
	}
	state := "clean"
	if n := p.RepairsPlanned(); n > 0 {
		state = counted(n, "repair") + " planned"
	}
	return fmt.Sprintf("%s, %s, offsets %d to %d", state, counted(len(p.Sealed)+1, "segment"), first, p.Active.NextOffset)
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// String renders one step.
func (s Step) String() string {
	var b strings.Builder
	b.WriteString(string(s.Action))
	if s.File != "" {
		fmt.Fprintf(&b, " %s", s.File)
	}
	if s.Action == CutTail {
		fmt.Fprintf(&b, " at position %d (%d bytes)", s.Position, s.Cut())
	}
	if s.RecordsDropped > 0 {
		fmt.Fprintf(&b, ", dropping %s", counted(int(s.RecordsDropped), "intact record"))
	}
	fmt.Fprintf(&b, ": %s", s.Reason)
	if s.BelowMark {
		b.WriteString(" [below the durable mark]")
	}
	if s.SideCopy != "" {
		fmt.Fprintf(&b, " (copy: %s)", s.SideCopy)
	}
	return b.String()
}

// String renders one refusal.
func (r Refusal) String() string {
	why := r.Reason
	if r.Cause != nil {
		why = fmt.Sprintf("%s [%v]", why, r.Cause)
	}
	return fmt.Sprintf("%s at position %d: %s; %s", r.File, r.Position, why, r.Remedy)
}

// MarshalJSON renders the plan for programs. Field names and values are stable.
func (p *Plan) MarshalJSON() ([]byte, error) {
	type refusal struct {
		Refusal
		Cause string `json:"cause,omitempty"`
	}
	out := struct {
		Shard      string            `json:"shard"`
		Dir        string            `json:"dir"`
		Verdict    string            `json:"verdict"`
		Mark       *Mark             `json:"mark"`
		Segments   []describedInJSON `json:"segments"`
		Steps      []Step            `json:"steps"`
		Refusals   []refusal         `json:"refusals"`
		Warnings   []string          `json:"warnings"`
		SideCopies []string          `json:"side_copies"`
		Foreign    []string          `json:"foreign"`
	}{
		Shard: p.Label, Dir: p.Dir, Verdict: p.Verdict(), Mark: p.snapshot.Mark,
		Segments: []describedInJSON{}, Steps: listed(p.Steps), Refusals: []refusal{},
		Warnings: listed(p.Warnings), SideCopies: listed(p.snapshot.SideCopies), Foreign: listed(p.snapshot.Foreign),
	}
	for _, r := range p.Refusals {
		cause := ""
		if r.Cause != nil {
			cause = r.Cause.Error()
		}
		out.Refusals = append(out.Refusals, refusal{Refusal: r, Cause: cause})
	}
	if !p.Refused() {
		for _, s := range p.Sealed {
			out.Segments = append(out.Segments, inJSON(s, false))
		}
		out.Segments = append(out.Segments, inJSON(p.Active, true))
	}
	return json.Marshal(out)
}

// listed gives an empty list in place of nil, which JSON would render as null.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

type describedInJSON struct {
	ID      uint64 `json:"id"`
	Base    uint64 `json:"base_offset"`
	Next    uint64 `json:"next_offset"`
	Size    int64  `json:"size"`
	Version uint16 `json:"version"`
	Active  bool   `json:"active"`
}

func inJSON(s segment.Descriptor, active bool) describedInJSON {
	return describedInJSON{ID: s.ID, Base: s.BaseOffset, Next: s.NextOffset, Size: s.Size, Version: s.Version, Active: active}
}
