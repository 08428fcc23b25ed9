package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
)

// beforeEveryOp holds the disk before each operation that changes it and calls
// look: what the directory holds then is what a process killed at that moment
// leaves. stop ends it and returns how many operations there were.
func beforeEveryOp(disk *faultdisk.Disk, look func(n int)) (stop func() int) {
	fault := faultdisk.Fault{Kinds: faultdisk.Changes, Times: faultdisk.Forever, Stall: true}
	held := disk.Inject(fault)
	quit, ended := make(chan struct{}), make(chan int)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-held.Reached():
			case <-quit:
				held.Remove()
				ended <- n
				return
			}
			look(n)
			// The next one is in place before this one lets go.
			next := disk.Inject(fault)
			held.Remove()
			held = next
		}
	}()
	return func() int {
		close(quit)
		return <-ended
	}
}

// killed is the model as it was at one moment.
type killed struct {
	acked             map[uint64][]byte
	inFlight          [][]byte
	base, next, floor uint64
}

func (r *faultRun) killedNow() killed {
	r.mu.Lock()
	defer r.mu.Unlock()
	return killed{maps.Clone(r.acked), r.inFlight, r.base, r.next, r.floor}
}

// check opens what a kill left, twice.
func (k killed) check(t testing.TB, root string, cfg engine.Config, pool device.Queue) {
	t.Helper()
	cfg.FS, cfg.Queue = device.OS(), pool
	var first map[string]string
	for range 2 {
		store, err := engine.OpenStore(context.Background(), root, cfg)
		if err != nil {
			t.Error(err)
			return
		}
		log, err := store.OpenLog(context.Background(), testKey(0))
		if err != nil {
			t.Error(err)
		} else {
			k.compare(t, log)
		}
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
		now := snapshot(t, root)
		if first != nil {
			sameFiles(t, first, now)
		}
		first = now
	}
}

func (k killed) compare(t testing.TB, log *engine.Log) {
	t.Helper()
	base, tail := log.BaseOffset(), log.TailOffset()
	if base < k.base || tail < k.floor || tail > k.next+uint64(len(k.inFlight)) {
		t.Errorf("recovered [%d, %d); acknowledged were [%d, %d), at least %d", base, tail, k.base, k.next, k.floor)
	}
	for _, record := range readAll(t, context.Background(), log) {
		if want, ok := k.acked[record.Offset]; ok && bytes.Equal(record.Payload, want) {
			continue
		}
		if i := record.Offset - k.next; record.Offset < k.next || i >= uint64(len(k.inFlight)) || !bytes.Equal(record.Payload, k.inFlight[i]) {
			t.Errorf("record %d is not what was appended", record.Offset)
		}
	}
}

// A process that is killed before any operation of the workload leaves a
// directory that opens, holds everything acknowledged and nothing that was not
// appended, and is the same after it was opened again.
func TestC230KilledAtEveryOperationNothingAcknowledgedIsLost(t *testing.T) {
	var total atomic.Int64
	t.Cleanup(func() { t.Logf("%d moments", total.Load()) })
	for _, mode := range []engine.FsyncMode{engine.FsyncNone, engine.FsyncPeriodic, engine.FsyncOnCommit} {
		for _, background := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, background rolls %v", mode, background), func(t *testing.T) {
				t.Parallel()
				dir, pool := fastDir(t), sharedPool(t)
				root := filepath.Join(dir, "root")
				w := newFaultWorld(root, pool, faultConfig(mode, background), faultdisk.Options{})
				r := newFaultRun(context.Background(), w)
				moment := filepath.Join(dir, "moment")
				stop := beforeEveryOp(w.disk, func(n int) {
					if t.Failed() {
						return
					}
					before := r.killedNow()
					copyTree(t, root, moment)
					after := r.killedNow()
					// With a roll in the background the workload may go on meanwhile.
					before.next, before.inFlight = after.next, after.inFlight
					for offset, p := range after.acked {
						before.acked[offset] = p
					}
					before.check(t, moment, w.cfg, pool)
					if err := os.RemoveAll(moment); err != nil {
						t.Error(err)
					}
					if t.Failed() {
						log := w.disk.Log(faultdisk.Changes)
						t.Errorf("killed at operation %d, %v", n, log[max(0, len(log)-5):])
					}
				})
				r.workload()
				total.Add(int64(stop()))
				if len(r.faults) > 0 || len(r.errs) > 0 {
					t.Errorf("%v %v", r.faults, r.errs)
				}
			})
		}
	}
}

func TestC230KilledAtEveryOperationOfARecoveryTheNextOneFinishesIt(t *testing.T) {
	dir, pool := fastDir(t), sharedPool(t)
	root, moment := filepath.Join(dir, "root"), filepath.Join(dir, "moment")
	records := damagedShard(t, root, pool)
	w := newFaultWorld(root, pool, faultConfig(engine.FsyncOnCommit, false), faultdisk.Options{})
	stop := beforeEveryOp(w.disk, func(int) {
		again := openCopy(t, root, moment, pool)
		again.wantRecords(records)
		again.close()
		first := snapshot(t, moment)
		again = openCopy(t, moment, "", pool)
		again.close()
		sameFiles(t, first, snapshot(t, moment))
		if err := os.RemoveAll(moment); err != nil {
			t.Error(err)
		}
	})
	store, _, err := w.open(context.Background())
	if err == nil {
		err = store.Close(context.Background())
	}
	if n := stop(); err != nil || n < 10 {
		t.Fatalf("%d moments, %v", n, err)
	}
}
