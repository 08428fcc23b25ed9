package recovery

import (
	"encoding/json"
	"strings"
	"testing"

	"felix.local/felix/segment"

	"github.com/google/go-cmp/cmp"
)

// rendered is a plan of repairs and one of refusals.
func rendered(t *testing.T) (repairs, refusals *Plan) {
	s := newShard(t)
	s.sealed(1)
	s.put(1, flip(segmentBytes(5, 4), at(1)+40))
	s.write(segment.LogName(2), nil)
	s.write("notes.txt", nil)
	s.mark(1, at(1))
	repairs = s.plan(testPolicy())
	s.mark(1, at(2))
	refusals = s.plan(testPolicy())
	for _, p := range []*Plan{repairs, refusals} {
		p.Dir = "DIR"
		for i := range p.Refusals {
			p.Refusals[i].File = strings.Replace(p.Refusals[i].File, s.dir, "DIR", 1)
		}
	}
	return repairs, refusals
}

func TestPlanReadsWell(t *testing.T) {
	repairs, refusals := rendered(t)
	for _, c := range []struct {
		plan *Plan
		want string
	}{
		{repairs, `orders/0: 2 repairs planned, 2 segments, offsets 0 to 6
  durable.mark: segment 1, 100 bytes
  delete segment 00000000000000000002.log: its header was never written, so it holds no record
  cut tail 00000000000000000001.log at position 100 (204 bytes), dropping 2 intact records: record checksum, past what durable.mark vouches for: a write that never became durable
  left alone: notes.txt
`},
		{refusals, `orders/0: would refuse to open (1 reason), nothing would be changed
  durable.mark: segment 1, 168 bytes
  refuse: DIR/00000000000000000001.log at position 100: record checksum; durable.mark vouches for the bytes below position 168, so this was on the disk and rotted; intact records that follow: 2 [record checksum mismatch: stored 0xe2359232, computed 0x9ad11670 (shard orders/0, segment 1, position 100)]; bring the file back from a backup of the shard (docs/backup.md), or export what can be read with felixd log dump --skip-damaged
  delete segment 00000000000000000002.log: its header was never written, so it holds no record
  left alone: notes.txt
`},
	} {
		if diff := cmp.Diff(c.want, c.plan.String()); diff != "" {
			t.Error(diff)
		}
	}
	if repairs.Clean() || repairs.Refused() || repairs.RepairsPlanned() != 2 || refusals.Clean() || !refusals.Refused() {
		t.Error("the verdicts are wrong")
	}
}

func TestPlanIsStableJSON(t *testing.T) {
	repairs, refusals := rendered(t)
	for _, c := range []struct {
		plan *Plan
		want string
	}{
		{repairs, `{"shard":"orders/0","dir":"DIR","verdict":"repair","mark":{"segment":1,"synced":100},"segments":[
			{"id":0,"base_offset":0,"next_offset":5,"size":372,"version":3,"active":false},
			{"id":1,"base_offset":5,"next_offset":6,"size":100,"version":3,"active":true}],
			"steps":[
			{"action":"delete segment","file":"00000000000000000002.log","segment":2,"reason":"its header was never written, so it holds no record"},
			{"action":"cut tail","file":"00000000000000000001.log","segment":1,"position":100,"size":304,
			"reason":"record checksum, past what durable.mark vouches for: a write that never became durable","records_dropped":2}],
			"refusals":[],"warnings":[],"side_copies":[],"foreign":["notes.txt"]}`},
		{refusals, `{"shard":"orders/0","dir":"DIR","verdict":"refuse","mark":{"segment":1,"synced":168},"segments":[],
			"steps":[{"action":"delete segment","file":"00000000000000000002.log","segment":2,"reason":"its header was never written, so it holds no record"}],
			"refusals":[{"shard":"orders/0","segment":1,"file":"DIR/00000000000000000001.log","position":100,
			"reason":"record checksum; durable.mark vouches for the bytes below position 168, so this was on the disk and rotted; intact records that follow: 2",
			"remedy":"bring the file back from a backup of the shard (docs/backup.md), or export what can be read with felixd log dump --skip-damaged",
			"cause":"record checksum mismatch: stored 0xe2359232, computed 0x9ad11670 (shard orders/0, segment 1, position 100)"}],
			"warnings":[],"side_copies":[],"foreign":["notes.txt"]}`},
	} {
		b, err := json.Marshal(c.plan)
		if err != nil {
			t.Fatal(err)
		}
		var got, want any
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(c.want), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s\n%s", diff, b)
		}
	}
}

func TestPlanForAnotherPolicyThanInspectedRefuses(t *testing.T) {
	s := newShard(t)
	s.sealed(3)
	snapshot := s.plan(testPolicy()).snapshot
	snapshot.Segments[1].End = nil
	if plan := Decide(snapshot, testPolicy()); !plan.Refused() || !strings.Contains(plan.String(), "another policy") {
		t.Errorf("planned %s", plan)
	}
}
