package main

import (
	"os"
	"strings"
	"testing"

	"felix.local/felix/bench"
)

// Each target writes about a hundred records with several publishers and reads them back,
// opened anew.
func TestEveryTargetHoldsWhatItAcknowledged(t *testing.T) {
	for _, target := range targets() {
		for _, r := range []row{{1, 1, 1, 128}, {1, 4, 5, 128}, {3, 3, 5, 4096}} {
			if target.serves != nil && !target.serves(r) {
				continue
			}
			t.Run(target.name+"/"+r.name(), func(t *testing.T) {
				dir := t.TempDir()
				in, err := target.open(t.Context(), dir, r)
				if err != nil {
					t.Fatal(err)
				}
				acked := newLedger(r.Publishers, r.PayloadBytes)
				load := bench.Load{Records: 100, PayloadBytes: r.PayloadBytes, Batch: r.Batch, Concurrency: r.Publishers}
				if _, err := load.Run(t.Context(), publishers(in, acked), bench.Hooks{}); err != nil {
					t.Fatal(err)
				}
				if err := in.close(); err != nil {
					t.Fatal(err)
				}
				if err := verify(t.Context(), target, dir, r, acked); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

func TestWhatIsMissingOrTooMuchIsFound(t *testing.T) {
	record := func(publisher int, sequence uint64) []byte {
		b := newRecord(publisher, 64)
		stamp(b, sequence)
		return b
	}
	bent := record(0, 1)
	bent[50]++
	for name, c := range map[string]struct {
		records [][]byte
		want    string
	}{
		"all there":      {[][]byte{record(0, 0), record(0, 1)}, ""},
		"one missing":    {[][]byte{record(0, 0)}, "2 records acknowledged, 1 found"},
		"one twice":      {[][]byte{record(0, 0), record(0, 0), record(0, 1)}, "record 0 where 1 is due"},
		"one too much":   {[][]byte{record(0, 0), record(0, 1), record(0, 2)}, "2 records acknowledged, 3 found"},
		"wrong order":    {[][]byte{record(0, 1), record(0, 0)}, "record 1 where 0 is due"},
		"another's":      {[][]byte{record(1, 0)}, "holds a record of publisher 1"},
		"body differs":   {[][]byte{record(0, 0), bent}, "differs in its body"},
		"length differs": {[][]byte{record(0, 0)[:63]}, "has 63 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(1, 64)
			l.acked[0] = 2
			var err error
			for _, r := range c.records {
				if err = l.visit(0, 1, r); err != nil {
					break
				}
			}
			if err == nil {
				err = l.settle()
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestReadmeShowsTheConfigurationsThatAreMeasured(t *testing.T) {
	document, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(document), targetTable(targets())) {
		t.Error("README.md does not hold the table that --list prints")
	}
}
