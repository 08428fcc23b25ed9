package engine_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
)

// Many publishers at once, a fault somewhere, the page cache lost with it: what
// was acknowledged is there, once and in its place.
func TestPublishersUnderARandomFaultLoseNothingAcknowledged(t *testing.T) {
	rounds := 150
	switch {
	case long():
		rounds = 5000
	case raceDetector:
		rounds = 40
	}
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	dir, pool := fastDir(t), sharedPool(t)
	hits := 0
	for round := range rounds {
		random := rand.New(rand.NewPCG(seed, uint64(round)))
		kind := failedKinds[random.IntN(len(failedKinds)-1)] // no directory is made on the way
		fault := faultdisk.Fault{
			Kinds: kind, At: 1 + random.IntN(25), Errno: failedErrnos[random.IntN(len(failedErrnos))],
			Lands: faultdisk.Lands(random.IntN(3)), DropDirty: kind == faultdisk.Flush,
		}
		root := filepath.Join(dir, fmt.Sprint(round))
		cfg := faultConfig(engine.FsyncOnCommit, random.IntN(2) == 0)
		w := newFaultWorld(root, pool, cfg, faultdisk.Options{TrackDirty: true})
		store, log, err := w.open(deadline(t))
		if err != nil {
			t.Fatal(err)
		}
		injected := w.disk.Inject(fault)
		acked := publishUnderFaults(t, log, random.Uint64())
		if injected.Hits() > 0 {
			hits++
		}
		_ = store.Close(deadline(t)) // poisoned or not
		if n := w.fs.open.Load(); n != 0 {
			t.Errorf("%d files are still open", n)
		}
		again := openCopy(t, root, "", pool)
		records := readAll(t, deadline(t), again.log)
		for offset, p := range acked {
			if offset >= uint64(len(records)) || !bytes.Equal(records[offset].Payload, p) {
				t.Errorf("offset %d of %d is not what was acknowledged", offset, len(records))
			}
		}
		again.close()
		for _, problem := range w.mark.problems() {
			t.Error(problem)
		}
		if t.Failed() {
			t.Fatalf("round %d: %+v", round, fault)
		}
		if err := os.RemoveAll(root); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d rounds, %d faults hit", rounds, hits)
}

// publishUnderFaults appends from several goroutines and returns what was acknowledged.
func publishUnderFaults(t *testing.T, log *engine.Log, seed uint64) map[uint64][]byte {
	var (
		all   sync.WaitGroup
		mu    sync.Mutex
		acked = make(map[uint64][]byte)
	)
	for p := range 6 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(p)))
			for i := range 12 {
				text := fmt.Appendf(nil, "%d/%d/%s", p, i, make([]byte, random.IntN(150)))
				got, err := log.Append(t.Context(), engine.Record{Payload: text})
				if err != nil {
					continue
				}
				mu.Lock()
				if acked[got.First] != nil {
					t.Errorf("offset %d was acknowledged twice", got.First)
				}
				acked[got.First] = text
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return acked
}
