package recovery

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Verdict is the plan in one word: "replay" or "refuse".
func (p *JournalPlan) Verdict() string {
	if p.Refused() {
		return "refuse"
	}
	return "replay"
}

// String renders the plan for people: the verdict, then refusals and segments, one
// per line, in a form that does not change between runs.
func (p *JournalPlan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "commit journal: %s\n", p.summary())
	if c := p.Current; c.Epoch != 0 {
		fmt.Fprintf(&b, "  epoch %016x, %s of %d bytes\n", c.Epoch, counted(int(c.Files), "file"), c.FileBytes)
	}
	if p.Frames > 0 {
		fmt.Fprintf(&b, "  frames %d to %d, entries: %d, void because of a fence: %d\n", p.First, p.Last, p.Entries, p.Void)
	}
	for _, r := range p.Refusals {
		fmt.Fprintf(&b, "  refuse: %s\n", r)
	}
	if p.More > 0 {
		fmt.Fprintf(&b, "  refuse: %d more\n", p.More)
	}
	for i := range p.Shards {
		for j := range p.Shards[i].Segments {
			if s := &p.Shards[i].Segments[j]; s.Entries > 0 {
				fmt.Fprintf(&b, "  %s, %s\n", p.Shards[i].Shard, s)
			}
		}
	}
	return b.String()
}

func (p *JournalPlan) summary() string {
	if p.Refused() {
		return fmt.Sprintf("would refuse to open the store (%s), nothing would be changed", counted(len(p.Refusals)+p.More, "reason"))
	}
	return fmt.Sprintf("would be replayed, %d bytes into %s", p.BytesMissing(), counted(len(p.Shards), "shard"))
}

// String renders what a replay does to one segment.
func (s *JournalSegment) String() string {
	text := fmt.Sprintf("segment %d: offsets %d to %d at positions %d to %d, ", s.Segment, s.First, s.Last, s.Position, s.End)
	if n := s.Missing(); n > 0 {
		text += fmt.Sprintf("write %d bytes from position %d on", n, s.ValidEnd)
	} else {
		text += "all there"
	}
	if s.Cut {
		text += fmt.Sprintf(", cut %d zeros behind them", s.Size-s.End)
	}
	return text
}

// MarshalJSON renders the plan for programs. Field names and values are stable.
func (p *JournalPlan) MarshalJSON() ([]byte, error) {
	type shardInJSON struct {
		Shard     string                 `json:"shard"`
		Mark      *Mark                  `json:"mark"`
		MarkAfter *Mark                  `json:"mark_after"`
		Segments  []journalSegmentInJSON `json:"segments"`
	}
	type refusal struct {
		*JournalError
		Cause string `json:"cause,omitempty"`
	}
	out := struct {
		Verdict  string        `json:"verdict"`
		Epoch    string        `json:"epoch"`
		Frames   int           `json:"frames"`
		First    uint64        `json:"sequence_first"`
		Last     uint64        `json:"sequence_last"`
		Entries  uint64        `json:"entries"`
		Void     uint64        `json:"entries_void"`
		Fences   uint64        `json:"fences"`
		Missing  int64         `json:"bytes_missing"`
		Shards   []shardInJSON `json:"shards"`
		Refusals []refusal     `json:"refusals"`
		More     int           `json:"refusals_more"`
	}{
		Verdict: p.Verdict(), Epoch: fmt.Sprintf("%016x", p.Current.Epoch), Frames: p.Frames, First: p.First, Last: p.Last,
		Entries: p.Entries, Void: p.Void, Fences: p.Fences, Missing: p.BytesMissing(),
		Shards: []shardInJSON{}, Refusals: []refusal{}, More: p.More,
	}
	for _, s := range p.Shards {
		shard := shardInJSON{Shard: s.Shard, Mark: s.Mark, MarkAfter: s.MarkAfter, Segments: []journalSegmentInJSON{}}
		for i := range s.Segments {
			shard.Segments = append(shard.Segments, s.Segments[i].inJSON())
		}
		out.Shards = append(out.Shards, shard)
	}
	for _, r := range p.Refusals {
		cause := ""
		if r.Cause != nil {
			cause = r.Cause.Error()
		}
		out.Refusals = append(out.Refusals, refusal{JournalError: r, Cause: cause})
	}
	return json.Marshal(out)
}

type journalSegmentInJSON struct {
	Segment  uint64 `json:"segment"`
	Entries  uint64 `json:"entries"`
	Position int64  `json:"position"`
	End      int64  `json:"end"`
	First    uint64 `json:"offset_first"`
	Last     uint64 `json:"offset_last"`
	Size     int64  `json:"size"`
	ValidEnd int64  `json:"valid_end"`
	Missing  int64  `json:"bytes_missing"`
	Cut      bool   `json:"cut"`
}

func (s *JournalSegment) inJSON() journalSegmentInJSON {
	return journalSegmentInJSON{
		Segment: s.Segment, Entries: s.Entries, Position: s.Position, End: s.End, First: s.First, Last: s.Last,
		Size: s.Size, ValidEnd: s.ValidEnd, Missing: s.Missing(), Cut: s.Cut,
	}
}
