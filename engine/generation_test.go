package engine_test

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/segment"
	"felix.local/felix/sidecar"
)

// epoch is one entry of a history.
func epoch(generation, start uint64) sidecar.Epoch {
	return sidecar.Epoch{Generation: generation, Start: start}
}

func (r *rig) wantGenerations(want ...sidecar.Epoch) {
	r.Helper()
	if got := r.log.Generations(); len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
		r.Errorf("generations are %v, want %v", got, want)
	}
}

// small gives the bytes of a small file, on whatever disk the rig has; nil for none.
func (r *rig) small(name string) []byte {
	r.Helper()
	fs := r.cfg.FS
	if fs == nil {
		fs = device.OS()
	}
	b, err := sidecar.Read(fs, r.log.Dir(), name, sidecar.EpochsBytesMax)
	r.must(err)
	return b
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// start starts a generation, which is accepted first where it was not.
func (r *rig) start(generation uint64) (offset uint64, recorded bool) {
	r.Helper()
	if generation > r.log.AcceptedGeneration() {
		r.accept(generation, "")
	}
	leader, _ := r.log.AcceptedLeader()
	offset, recorded, err := r.log.StartGeneration(r.ctx, generation, leader)
	r.must(err)
	return offset, recorded
}

// wantStart checks what starting a generation gives.
func (r *rig) wantStart(generation, offset uint64, recorded bool) {
	r.Helper()
	if gotOffset, gotRecorded := r.start(generation); gotOffset != offset || gotRecorded != recorded {
		r.Errorf("generation %d starts at %d, recorded %v; want %d and %v", generation, gotOffset, gotRecorded, offset, recorded)
	}
}

func TestTheFirstRecordOfAGenerationSaysSoAndOnlyReplicationReadsIt(t *testing.T) {
	eachMode(t, func(t *testing.T, choose func(*engine.Config)) {
		r := newRig(t, choose)
		r.appendSizes(10, 20)
		r.wantStart(7, 2, true)
		r.appendSizes(30)
		if got := r.log.TailOffset(); got != 4 {
			t.Errorf("the log ends at %d; the record takes an offset", got)
		}
		stored, err := r.log.ReadStored(r.ctx, 0, 1<<20, 100)
		r.must(err)
		if len(stored) != 4 {
			t.Fatalf("%d records are stored", len(stored))
		}
		if generation, ok := stored[2].Generation(); !ok || generation != 7 || segment.EncodedSize(stored[2].Mark, len(stored[2].Payload)) != 36 {
			t.Errorf("record 2 is %+v", stored[2])
		}
		var offsets []uint64
		for _, record := range r.read(0, 1<<20) {
			offsets = append(offsets, record.Offset)
		}
		if want := []uint64{0, 1, 3}; !reflect.DeepEqual(offsets, want) {
			t.Errorf("a reader gets %v, want %v", offsets, want)
		}
		if got := r.read(2, 1<<20); len(got) != 1 || got[0].Offset != 3 {
			t.Errorf("a reader that begins at the record gets %v", got)
		}
		r.wantGenerations(epoch(7, 2))
		r.wantVersions("[v3:0-2 v4:2-4]")
		r.reopen()
		r.wantGenerations(epoch(7, 2))
		r.wantStart(7, 2, false)
	})
}

func TestAReaderGoesOnBehindRecordsThatStartGenerations(t *testing.T) {
	r := newRig(t)
	r.appendSizes(10)
	for generation := uint64(1); generation <= 3; generation++ {
		r.start(generation)
	}
	records, next, err := r.log.ReadNext(r.ctx, 1, 1<<20, 1)
	if len(records) != 0 || next != 4 || err != nil {
		t.Errorf("behind the last record of a client: %v, next %d, %v", records, next, err)
	}
	r.appendSizes(10)
	records, next, err = r.log.ReadNext(r.ctx, 1, 1<<20, 1)
	if len(records) != 1 || records[0].Offset != 4 || next != 5 || err != nil {
		t.Errorf("a bound of one record: %v, next %d, %v", records, next, err)
	}
	if records, next, err = r.log.ReadNext(r.ctx, 5, 1<<20, 1); len(records) != 0 || next != 5 || err != nil {
		t.Errorf("at the tail: %v, next %d, %v", records, next, err)
	}
}

func TestAnEmptyLogStartsAGenerationWithoutARecord(t *testing.T) {
	r := newRig(t)
	r.wantStart(3, 0, false)
	r.wantGenerations(epoch(3, 0))
	r.wantVersions("[v3:0-0]")
	r.appendSizes(10)
	r.wantStart(3, 0, false)
	r.wantStart(4, 1, true)
	r.wantGenerations(epoch(3, 0), epoch(4, 1))
}

// A crash, or a full disk, may leave the note of a generation without its record.
func TestAGenerationThatWasNotedAndHasNoRecordGetsOne(t *testing.T) {
	r := newRig(t)
	r.appendSizes(10)
	r.must(r.log.RecordGeneration(r.ctx, 5, 1))
	r.wantStart(5, 1, true)
	r.wantStart(5, 1, false)
	r.wantGenerations(epoch(5, 1))
}

func TestAGenerationThatIsOverIsNotStarted(t *testing.T) {
	r := newRig(t)
	r.appendSizes(10)
	r.start(5)
	_, _, err := r.log.StartGeneration(r.ctx, 4, "a")
	if e := errorAs[*engine.SupersededError](t, err); e.Accepted != 5 || e.Generation != 4 {
		t.Error(e)
	}
	_, err = r.log.AcceptGeneration(r.ctx, 9, "a")
	r.must(err)
	_, _, err = r.log.StartGeneration(r.ctx, 8, "a")
	errorAs[*engine.SupersededError](t, err)
	r.must(r.log.GiveUpGeneration(r.ctx))
	_, _, err = r.log.StartGeneration(r.ctx, 9, "a")
	errorAs[*engine.GivenUpError](t, err)
	_, _, err = r.log.StartGeneration(r.ctx, 10, "a")
	errorAs[*engine.InvalidRangeError](t, err) // it was accepted by nobody
	if tail := r.log.TailOffset(); tail != 2 {
		t.Errorf("the log ends at %d", tail)
	}
	r.wantGenerations(epoch(5, 1))
}

func TestAVersion2LogRollsBeforeAGenerationStarts(t *testing.T) {
	root := memoryDir(t)
	placeSegment(t, filepath.Join(root, testKey(0).DirName()), 0,
		segment.Header{Version: 2, CreatedAtMicros: 5}, "a", "b")
	r := newRigIn(t, root)
	r.wantStart(1, 2, true)
	r.wantVersions("[v2:0-2 v4:2-3]")
}

// The history says for each generation where it begins and ends.
func TestTheHistoryOfGenerations(t *testing.T) {
	r := newRig(t)
	r.must(r.log.RecordGeneration(r.ctx, 1, 0))
	r.appendSizes(1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
	r.must(r.log.RecordGeneration(r.ctx, 3, 10))
	golden := "464c4550" + "0001" + "0002" + "65d91078" +
		"0000000000000001" + "0000000000000000" + "0000000000000003" + "000000000000000a"
	if got := fmt.Sprintf("%x", r.small("epochs")); got != golden {
		t.Errorf("epochs is %s, want %s", got, golden)
	}
	r.appendSizes(1, 1)
	for _, c := range []struct {
		generation, end uint64
		known           bool
	}{{1, 10, true}, {2, 0, false}, {3, 12, true}, {4, 0, false}} {
		if end, known := r.log.GenerationEnd(c.generation, r.log.TailOffset()); end != c.end || known != c.known {
			t.Errorf("generation %d ends at %d, known %v", c.generation, end, known)
		}
	}
	// Known ones change nothing, and what cannot be is refused.
	r.must(r.log.RecordGeneration(r.ctx, 2, 11))
	r.must(r.log.RecordGeneration(r.ctx, 3, 12))
	errorAs[*engine.InvalidRangeError](t, r.log.RecordGeneration(r.ctx, 4, 13))
	errorAs[*engine.InvalidRangeError](t, r.log.RecordGeneration(r.ctx, 4, 9))
	r.wantGenerations(epoch(1, 0), epoch(3, 10))
	if got := fmt.Sprintf("%x", r.small("epochs")); got != golden {
		t.Errorf("epochs is %s, want %s", got, golden)
	}
}

func TestRecordsAreLabelledWithTheGenerationsThatWroteThem(t *testing.T) {
	one := []sidecar.Epoch{epoch(1, 0)}
	for _, c := range []struct {
		name    string
		held    []sidecar.Epoch
		base    uint64
		from    uint64
		entries []sidecar.Epoch
		want    []sidecar.Epoch
	}{
		{"a newer one", one, 0, 4, []sidecar.Epoch{epoch(1, 0), epoch(2, 6)}, []sidecar.Epoch{epoch(1, 0), epoch(2, 6)}},
		{"none newer", one, 0, 4, one, one},
		{"one that is to begin at the tail is left out", one, 0, 4, []sidecar.Epoch{epoch(2, 10)}, one},
		{"and so is one past it", one, 0, 4, []sidecar.Epoch{epoch(2, 11)}, one},
		{"one that began in front counts from here on", one, 0, 4, []sidecar.Epoch{epoch(2, 3)}, []sidecar.Epoch{epoch(1, 0), epoch(2, 4)}},
		{"of a log that begins here, the whole history", nil, 4, 4, []sidecar.Epoch{epoch(2, 3)}, []sidecar.Epoch{epoch(2, 3)}},
		{
			"a generation that wrote nothing here gives way to an older one that did",
			[]sidecar.Epoch{epoch(1, 0), epoch(5, 8)},
			0, 8,
			[]sidecar.Epoch{epoch(2, 8), epoch(6, 9)},
			[]sidecar.Epoch{epoch(1, 0), epoch(2, 8), epoch(6, 9)},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.must(r.log.ResetTo(r.ctx, c.base))
			for r.log.TailOffset() < 10 {
				r.appendSizes(1)
			}
			for _, e := range c.held {
				r.must(r.log.RecordGeneration(r.ctx, e.Generation, e.Start))
			}
			r.must(r.log.LabelGenerations(r.ctx, c.from, math.MaxUint64, c.entries))
			r.wantGenerations(c.want...)
			r.reopen()
			r.wantGenerations(c.want...)
		})
	}
}

// Every bit and every length of the history has its verdict: it reads as it was, or
// the log opens without one, with a warning, and is counted. Nothing else changes.
func TestADamagedHistoryIsNoneAndTheLogOpens(t *testing.T) {
	r := newRig(t, func(c *engine.Config) { c.MarkSyncInterval = 0 })
	r.appendSizes(10, 20, 30)
	r.must(r.log.RecordGeneration(r.ctx, 2, 3))
	whole := r.small("epochs")
	path := filepath.Join(r.log.Dir(), "epochs")
	r.close()
	var warnings strings.Builder
	r.cfg.Logger = slog.New(slog.NewTextHandler(&warnings, nil))
	damaged := func(name string, b []byte, want ...sidecar.Epoch) {
		t.Helper()
		warnings.Reset()
		r.must(os.WriteFile(path, b, 0o640))
		r.open()
		defer r.close()
		r.wantGenerations(want...)
		unusable := r.store.Stats().EpochsUnusable
		if warned := strings.Contains(warnings.String(), "generations is unusable"); warned != (want == nil) || (unusable == 1) != warned {
			t.Errorf("%s: counted %d, warned %v: %s", name, unusable, warned, &warnings)
		}
		r.checkPayloads(func(offset uint64) int { return int(offset+1) * 10 })
		if got := r.small("epochs"); string(got) != string(b) {
			t.Errorf("%s: opening the log changed the file", name)
		}
	}
	damaged("as it was", whole, epoch(2, 3))
	for n := range len(whole) {
		damaged(fmt.Sprintf("%d bytes", n), whole[:n])
	}
	for bit := range len(whole) * 8 {
		b := append([]byte(nil), whole...)
		b[bit/8] ^= 1 << (bit % 8)
		damaged(fmt.Sprintf("bit %d", bit), b)
	}
	damaged("longer", append(whole[:len(whole):len(whole)], "more"...), epoch(2, 3))
	r.must(os.Remove(path))
	r.open()
	r.wantGenerations()
	if got := r.small("epochs"); got != nil {
		t.Errorf("a history that was not there is now %x", got)
	}
}

// What a crash leaves past the tail goes at open, for good; what begins at the tail
// stays.
func TestGenerationsPastTheTailAreDroppedAtOpen(t *testing.T) {
	r := newRig(t)
	r.appendSizes(10, 20, 30)
	path := filepath.Join(r.log.Dir(), "epochs")
	var history sidecar.Epochs
	for _, e := range []sidecar.Epoch{epoch(1, 0), epoch(2, 3), epoch(3, 4), epoch(4, 9)} {
		history.Record(e.Generation, e.Start)
	}
	r.close()
	r.must(os.WriteFile(path, history.AppendTo(nil), 0o640))
	r.open()
	r.wantGenerations(epoch(1, 0), epoch(2, 3))
	onDisk, err := sidecar.DecodeEpochs(r.small("epochs"))
	r.must(err)
	if got := onDisk.Entries(); len(got) != 2 {
		t.Errorf("the file holds %v", got)
	}
	if n := r.store.Stats().EpochsUnusable; n != 0 {
		t.Errorf("%d histories count as unusable", n)
	}
}

// A power loss while a generation starts leaves a log without it, with its note, or
// with its record, never a record without a note; once it has started, both.
func TestAPowerLossWhileAGenerationStartsLeavesNoRecordWithoutItsNote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSimRig(t)
		r.must(r.log.RecordGeneration(r.ctx, 1, 0))
		r.appendSizes(10, 20)
		r.accept(2, "a")
		started := false
		seen := make(map[string]int)
		r.eachImage(func() error {
			_, _, err := r.log.StartGeneration(r.ctx, 2, "a")
			synctest.Wait() // for what goes on in the background, which looks at this too
			started = true
			return err
		}, func(image *rig) {
			tail, noted := image.log.TailOffset(), len(image.log.Generations())
			seen[fmt.Sprintf("tail %d, %d generations", tail, noted)]++
			switch {
			case tail == 3 && noted == 2:
				image.wantGenerations(epoch(1, 0), epoch(2, 2))
				if records := image.readAll(); records[2].Mark.Kind != segment.GenerationStart {
					t.Errorf("record 2 is %+v", records[2])
				}
			case started || tail != 2 || noted < 1:
				t.Errorf("started %v: the log ends at %d and has %d generations", started, tail, noted)
			}
			// The next leader starts where the log ends, whatever was left.
			offset, recorded := image.start(3)
			if offset != tail || !recorded || len(image.readAll()) != int(tail)+1 {
				t.Errorf("generation 3 starts at %d, recorded %v", offset, recorded)
			}
		})
		if len(seen) != 3 {
			t.Errorf("%v: want no generation, its note alone, and both", seen)
		}
	})
}
