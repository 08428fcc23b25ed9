package powercut

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"felix.local/felix/engine"
	"felix.local/felix/test/matrix/powercut/workload"
)

func TestPowerGoesOutOnceAfterTheDrawnEvents(t *testing.T) {
	wait := trigger{kind: workload.Acked, store: "a", count: 2, delay: time.Millisecond}
	var pulled []int
	for i, e := range []workload.Event{
		{Kind: workload.Acked, Store: "a"},
		{Kind: workload.Acked, Store: "b"},
		{Kind: workload.Durable, Store: "a"},
		{Kind: workload.Acked, Store: "a"},
		{Kind: workload.Acked, Store: "a"},
	} {
		if wait.pull(e) {
			pulled = append(pulled, i)
		}
	}
	if !slices.Equal(pulled, []int{3}) {
		t.Errorf("pulled at %v", pulled)
	}
	if got := wait.String(); got != "1ms after 2 of ACK a" {
		t.Error(got)
	}
}

func TestASeedGivesTheSameOrderOfCutsAndTheFirstIsDuringAppends(t *testing.T) {
	orders := make(map[string]bool)
	for seed := range uint64(20) {
		draw := func() []bool {
			c := &cutter{Options: Options{Cuts: 5, RecoveryCuts: 3}, chance: rand.New(rand.NewPCG(seed, 0))}
			return c.order()
		}
		order := draw()
		if !slices.Equal(order, draw()) {
			t.Errorf("seed %d gives two orders", seed)
		}
		during := 0
		for _, recovering := range order {
			if recovering {
				during++
			}
		}
		if order[0] || during != 3 || len(order) != 8 {
			t.Errorf("seed %d: %v", seed, order)
		}
		orders[fmt.Sprint(order)] = true
	}
	if len(orders) < 10 {
		t.Errorf("%d orders of 20 seeds", len(orders))
	}
}

func TestALieIsAboutOnCommitAlone(t *testing.T) {
	for _, s := range (Options{Lie: true}).stores("ring") {
		if s.Lie != (s.Mode == "on_commit") {
			t.Errorf("%+v", s)
		}
		c, err := s.Config()
		if err != nil {
			t.Error(err)
		}
		if s.Lie && (c.FsyncMode != engine.FsyncNone || c.Journal != engine.JournalOff) {
			t.Errorf("%+v is written under %v, journal %v", s, c.FsyncMode, c.Journal)
		}
	}
	names := make(map[string]bool)
	for _, backend := range []string{"ring", "pool"} {
		for _, s := range (Options{}).stores(backend) {
			if s.Lie {
				t.Errorf("%+v", s)
			}
			if _, err := s.Config(); err != nil {
				t.Error(err)
			}
			names[s.Name] = true
		}
	}
	if len(names) != 8 {
		t.Errorf("%d combinations: %v", len(names), names)
	}
}

func TestASparseImageIsCopiedWholly(t *testing.T) {
	dir := t.TempDir()
	want := make([]byte, 5*pieceBytes+100)
	want[0], want[2*pieceBytes+5], want[len(want)-1] = 1, 2, 3
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	if err := os.WriteFile(from, want, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := readSparse(from)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.pieces) != 3 {
		t.Errorf("%d pieces hold something, want 3", len(s.pieces))
	}
	f, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.writeTo(f), f.Close()); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(to); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the copy differs, %v", err)
	}
}

func TestARowHasWhatTheLedgerCounts(t *testing.T) {
	c := &cutter{stores: []workload.Store{{Name: "s", Mode: "on_commit"}}, rows: map[string]*Row{"s": {}}}
	c.ledger = NewLedger(c.stores, nil)
	for _, e := range []workload.Event{
		{Kind: workload.Acked, Store: "s", Log: "lone", Bound: 9},
		{Kind: workload.Have, Store: "s", Log: "lone", Bound: 12},
	} {
		c.take(e)
	}
	rows := c.result()
	if len(rows) != 1 || rows[0].Appends != 1 || rows[0].Promised != 10 || rows[0].Records != 12 || len(rows[0].Findings) > 0 {
		t.Errorf("got %+v", rows)
	}
}
