package engine_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/segment"
	"felix.local/felix/sidecar"
)

// Where segments end depends on what was appended in which order, and on nothing
// else: not on what a group commit gathered, nor on the backend or the mode.
func TestSegmentBoundariesAreAFunctionOfTheAppendsAlone(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	appends := randomAppends(seed, 300)

	serial := newRig(t)
	for _, records := range appends {
		serial.append(records...)
	}
	if len(serial.checkChain()) < 10 {
		t.Fatal("too few segments to compare")
	}
	serial.close()
	want := withoutRunState(snapshot(t, serial.root))

	gathered := func(t *testing.T, change func(*engine.Config)) {
		disk, faults := withFaults(t)
		r := newRig(t, faults, change)
		random := rand.New(rand.NewPCG(seed, 1))
		var last engine.Pending
		for i := 0; i < len(appends); {
			held := hold(t, disk, faultdisk.Writes, isLog, 1)
			for range 1 + random.IntN(40) {
				if i == len(appends) {
					break
				}
				var err error
				if last, err = r.log.AppendAsync(r.ctx, appends[i]...); err != nil {
					t.Fatal(err)
				}
				i++
			}
			held.Remove()
		}
		if _, err := last.Wait(r.ctx); err != nil {
			t.Fatal(err)
		}
		r.close()
		sameFiles(t, want, withoutRunState(snapshot(t, r.root)))
	}
	eachMode(t, func(t *testing.T, mode func(*engine.Config)) {
		t.Run("gathered", func(t *testing.T) { gathered(t, mode) })
		onBoth(t, func(t *testing.T, backend func(*engine.Config)) {
			r := newRig(t, mode, backend)
			for _, records := range appends {
				r.append(records...)
			}
			r.close()
			sameFiles(t, want, withoutRunState(snapshot(t, r.root)))
		})
	})
}

// withoutRunState leaves out what a run says about itself: its mode is in it.
func withoutRunState(files map[string]string) map[string]string {
	delete(files, sidecar.RunStateName)
	return files
}

// randomAppends are plain, marked and empty records of many sizes; a few need a
// newer segment version.
func randomAppends(seed uint64, n int) [][]engine.Record {
	random := rand.New(rand.NewPCG(seed, 0))
	appends := make([][]engine.Record, n)
	offset := uint64(0)
	for i := range appends {
		records := make([]engine.Record, 1+random.IntN(4))
		for k := range records {
			records[k] = engine.Record{Payload: payload(offset, random.IntN(900)), TimestampMicros: fixedMicros + offset}
			offset++
		}
		switch random.IntN(20) {
		case 0:
			records[0].Mark = segment.Mark{Kind: segment.BatchOpen, Producer: 7, Sequence: offset, Len: uint32(len(records))}
		case 1:
			if i > n/2 {
				records[0].Mark.Kind = segment.GenerationStart
				records[0].Payload = segment.GenerationStartPayload(offset)
			}
		case 2:
			records[0].Payload = payload(offset, 6000)
		}
		appends[i] = records
	}
	return appends
}
