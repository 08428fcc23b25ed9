package recovery

import (
	"encoding/json"
	"testing"

	"felix.local/felix/journal"

	"github.com/google/go-cmp/cmp"
)

func TestRenderedJournalPlan(t *testing.T) {
	j := newJournaled(t)
	j.segment(shardA, 0, holding(8, make([]byte, 9)...))
	j.segment(shardB, 0, zeroed(append(holding(10), make([]byte, 50)...), at(7), at(10)))
	j.mark(shardA, 0, at(2))
	j.frame(0, 1, 1, records(shardA, 0, ten(), 5, 8), records(shardB, 0, ten(), 7, 10))
	j.frame(0, 2, 1, records("gone", 0, ten(), 7, 10), fenceOff("gone", journal.AllSegments))
	j.commit()
	plan, err := InspectJournal(j.d, testRoot, testPolicy())
	j.must(err)
	want := `commit journal: would be replayed, 204 bytes into 2 shards
  epoch 0102030405060708, 2 files of 32768 bytes
  frames 1 to 2, entries: 3, void because of a fence: 1
  t_n_orders_0-00000000000000aa, segment 0: offsets 5 to 7 at positions 372 to 576, all there, cut 9 zeros behind them
  t_n_orders_1-00000000000000bb, segment 0: offsets 7 to 9 at positions 508 to 712, write 204 bytes from position 508 on, cut 50 zeros behind them
`
	if diff := cmp.Diff(want, plan.String()); diff != "" {
		t.Error(diff)
	}
	b, err := json.Marshal(plan)
	j.must(err)
	wantJSON := `{"verdict":"replay","epoch":"0102030405060708","frames":2,"sequence_first":1,"sequence_last":2,"entries":3,"entries_void":1,"fences":1,"bytes_missing":204,` +
		`"shards":[{"shard":"t_n_orders_0-00000000000000aa","mark":{"segment":0,"synced":168},"mark_after":{"segment":0,"synced":576},` +
		`"segments":[{"segment":0,"entries":1,"position":372,"end":576,"offset_first":5,"offset_last":7,"size":585,"valid_end":576,"bytes_missing":0,"cut":true}]},` +
		`{"shard":"t_n_orders_1-00000000000000bb","mark":null,"mark_after":{"segment":0,"synced":712},` +
		`"segments":[{"segment":0,"entries":1,"position":508,"end":712,"offset_first":7,"offset_last":9,"size":762,"valid_end":508,"bytes_missing":204,"cut":true}]}],` +
		`"refusals":[],"refusals_more":0}`
	if diff := cmp.Diff(wantJSON, string(b)); diff != "" {
		t.Error(diff)
	}
}

func TestRenderedRefusalOfAJournal(t *testing.T) {
	j := newJournaled(t)
	j.segment(shardA, 0, flip(ten(), 9))
	j.frame(0, 1, 1, records(shardA, 0, ten(), 7, 10))
	j.commit()
	plan, err := InspectJournal(j.d, testRoot, testPolicy())
	j.must(err)
	want := `commit journal: would refuse to open the store (1 reason), nothing would be changed
  epoch 0102030405060708, 2 files of 32768 bytes
  frames 1 to 1, entries: 1, void because of a fence: 0
  refuse: commit journal /data/.journal/00000000.journal at position 0, for shard t_n_orders_0-00000000000000aa, segment 0 at position 0: ` +
		`the segment's header is damaged [segment header checksum mismatch: stored 0x23992010, computed 0xca0fb934]; ` + remedyShard + "\n"
	if diff := cmp.Diff(want, plan.String()); diff != "" {
		t.Error(diff)
	}
	b, err := json.Marshal(plan)
	j.must(err)
	wantJSON := `{"verdict":"refuse","epoch":"0102030405060708","frames":1,"sequence_first":1,"sequence_last":1,"entries":1,"entries_void":0,"fences":0,"bytes_missing":0,` +
		`"shards":[{"shard":"t_n_orders_0-00000000000000aa","mark":null,"mark_after":null,"segments":[]}],` +
		`"refusals":[{"file":"/data/.journal/00000000.journal","position":0,"shard":"t_n_orders_0-00000000000000aa","segment":0,"segment_position":0,` +
		`"reason":"the segment's header is damaged","remedy":"` + remedyShard + `",` +
		`"cause":"segment header checksum mismatch: stored 0x23992010, computed 0xca0fb934"}],"refusals_more":0}`
	if diff := cmp.Diff(wantJSON, string(b)); diff != "" {
		t.Error(diff)
	}
}
