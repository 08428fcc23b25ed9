package sidecar

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// epochModel is a history as a plain slice, searched from end to end.
type epochModel []Epoch

func (m epochModel) record(generation, start uint64) (epochModel, bool) {
	for _, e := range m {
		if e.Generation >= generation {
			return m, false
		}
	}
	m = append(m.where(func(e Epoch) bool { return e.Start <= start }), Epoch{generation, start})
	return m[max(0, len(m)-EpochsMax):], true
}

func (m epochModel) where(keep func(Epoch) bool) (kept epochModel) {
	for _, e := range m {
		if keep(e) {
			kept = append(kept, e)
		}
	}
	return kept
}

func (m epochModel) endOf(generation, tail uint64) (uint64, bool) {
	for i, e := range m {
		if e.Generation == generation {
			if i+1 < len(m) {
				return m[i+1].Start, true
			}
			return tail, true
		}
	}
	return 0, false
}

func (m epochModel) generationAt(offset uint64) (generation uint64, found bool) {
	for _, e := range m {
		if e.Start <= offset {
			generation, found = e.Generation, true
		}
	}
	return generation, found
}

// number draws small numbers, which collide, and the ends of the range.
func number() *rapid.Generator[uint64] {
	return rapid.OneOf(rapid.Uint64Range(0, 40), rapid.Uint64Range(1<<64-3, 1<<64-1), rapid.Uint64())
}

func TestAHistoryIsWhatASliceOfItsEntriesWouldBe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var history Epochs
		var model epochModel
		// Copies that were taken on the way, and what they held.
		var copies []Epochs
		var held [][]Epoch
		changed := func(t *rapid.T, model2 epochModel, got, want bool) {
			if got != want {
				t.Fatalf("reports %v, want %v", got, want)
			}
			model = model2
		}
		t.Repeat(map[string]func(*rapid.T){
			"record": func(t *rapid.T) {
				g, start := number().Draw(t, "generation"), number().Draw(t, "start")
				next, want := model.record(g, start)
				changed(t, next, history.Record(g, start), want)
			},
			"next generations": func(t *rapid.T) {
				for range rapid.IntRange(1, 300).Draw(t, "generations") {
					e, _ := history.Newest()
					next, want := model.record(e.Generation+1, e.Start)
					changed(t, next, history.Record(e.Generation+1, e.Start), want)
				}
			},
			"truncate": func(t *rapid.T) {
				offset := number().Draw(t, "offset")
				next := model.where(func(e Epoch) bool { return e.Start < offset })
				changed(t, next, history.TruncateFrom(offset), len(next) < len(model))
			},
			"drop past": func(t *rapid.T) {
				tail := number().Draw(t, "tail")
				next := model.where(func(e Epoch) bool { return e.Start <= tail })
				changed(t, next, history.DropPast(tail), len(next) < len(model))
			},
			"copy": func(t *rapid.T) {
				copies, held = append(copies, history), append(held, history.Entries())
			},
			"change a copy": func(t *rapid.T) {
				mine := history
				mine.Record(1<<64-1, number().Draw(t, "start"))
				mine.TruncateFrom(number().Draw(t, "offset"))
			},
			"reopen": func(t *rapid.T) {
				again, err := DecodeEpochs(history.AppendTo(nil))
				if err != nil {
					t.Fatal(err)
				}
				history = again
			},
			"": func(t *rapid.T) {
				if got := history.Entries(); !slices.Equal(got, model) {
					t.Fatalf("%v, want %v", got, model)
				}
				for i := range copies {
					if got := copies[i].Entries(); !slices.Equal(got, held[i]) {
						t.Fatalf("copy %d changed from %v to %v", i, held[i], got)
					}
				}
				newest, some := history.Newest()
				if some != (len(model) > 0) || some && newest != model[len(model)-1] {
					t.Fatalf("newest is %v, %v", newest, some)
				}
				asked, tail := number().Draw(t, "asked"), number().Draw(t, "tail")
				if some && rapid.Bool().Draw(t, "one of them") {
					asked = rapid.SampledFrom(model).Draw(t, "entry").Generation
				}
				got, found := history.EndOf(asked, tail)
				if want, wanted := model.endOf(asked, tail); got != want || found != wanted {
					t.Fatalf("generation %d ends at %d, %v; want %d, %v", asked, got, found, want, wanted)
				}
				got, found = history.GenerationAt(tail)
				if want, wanted := model.generationAt(tail); got != want || found != wanted {
					t.Fatalf("offset %d is of generation %d, %v; want %d, %v", tail, got, found, want, wanted)
				}
			},
		})
	})
}

func TestAHistoryAnswersForItsGenerations(t *testing.T) {
	e := history(1, 0, 3, 10, 4, 10, 7, 25)
	for _, c := range []struct {
		generation uint64
		want       any
	}{
		{0, nil},
		{1, uint64(10)},
		{2, nil},
		{3, uint64(10)}, // wrote nothing
		{4, uint64(25)},
		{5, nil},
		{7, uint64(40)}, // the newest ends at the tail
		{8, nil},
	} {
		end, found := e.EndOf(c.generation, 40)
		if found != (c.want != nil) || found && end != c.want {
			t.Errorf("generation %d ends at %d, %v; want %v", c.generation, end, found, c.want)
		}
	}
	if _, found := (Epochs{}).EndOf(0, 40); found {
		t.Error("the empty history knows an end")
	}
}

func TestThe513thGenerationPushesOutTheOldest(t *testing.T) {
	var e Epochs
	for g := range uint64(EpochsMax) {
		e.Record(g+1, 10*g)
	}
	full := e
	if !e.Record(EpochsMax+1, 10*EpochsMax) {
		t.Fatal("a full history takes no more")
	}
	entries := e.Entries()
	if len(entries) != EpochsMax || entries[0] != (Epoch{2, 10}) || entries[EpochsMax-1] != (Epoch{EpochsMax + 1, 10 * EpochsMax}) {
		t.Fatalf("%d entries from %v to %v", len(entries), entries[0], entries[len(entries)-1])
	}
	if first := full.Entries()[0]; first != (Epoch{1, 0}) {
		t.Fatalf("the copy from before begins with %v", first)
	}
	b := e.AppendTo(nil)
	if len(b) != epochsHeaderBytes+EpochsMax*epochBytes {
		t.Fatalf("%d bytes", len(b))
	}
	again, err := DecodeEpochs(b)
	if diff := cmp.Diff(e, again, values); err != nil || diff != "" {
		t.Fatalf("%v\n%s", err, diff)
	}
}

func TestAFileOfMoreEntriesThanAreKeptIsRefused(t *testing.T) {
	for count, want := range map[int]error{EpochsMax: nil, EpochsMax + 1: ErrContent, 1<<16 - 1: ErrContent} {
		e := Epochs{}
		for g := range count {
			e.entries = append(e.entries, Epoch{uint64(g), uint64(g)})
		}
		b := e.AppendTo(nil)
		if len(b) > EpochsBytesMax {
			t.Fatalf("%d bytes, more than are read", len(b))
		}
		if _, err := DecodeEpochs(b); !errors.Is(err, want) {
			t.Errorf("%d entries: %v, want %v", count, err, want)
		}
	}
}
