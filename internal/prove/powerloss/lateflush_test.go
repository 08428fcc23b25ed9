package powerloss

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
)

// TestARollReportsNothingDurableWhileAFlushOfItsSegmentHasFailedUnseen holds back
// the completion of a flush that failed. A second flush of the same file succeeds
// then, since the kernel counts the lost pages as clean and tells of an error
// once per open file. Nothing may be reported durable on the strength of it.
func TestARollReportsNothingDurableWhileAFlushOfItsSegmentHasFailedUnseen(t *testing.T) {
	for _, threshold := range []int{inlineRolls, backgroundRolls} {
		s := scenario{mode: engine.FsyncNone, threshold: threshold}
		t.Run(s.rolls(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { rollBesideFailedFlush(t, s) })
		})
	}
}

func rollBesideFailedFlush(t *testing.T, s scenario) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	h := newSimulated(simdisk.QueueOptions{})
	q := h.disk.NewQueue(simdisk.QueueOptions{Mode: simdisk.Stepped})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	// Everything completes at once but the operation held.
	held := make(chan uint64, 1)
	hold := false
	go func() {
		kept := uint64(0)
		for {
			op, err := q.Await(ctx, func(op simdisk.PendingOp) bool { return op.ID != kept })
			if err != nil {
				return
			}
			if hold && kept == 0 && op.Kind == device.Flush && strings.HasSuffix(op.Path, ".log") {
				kept = op.ID
				q.Settle(kept)
				held <- kept
				continue
			}
			q.Step(op.ID)
		}
	}()
	config := s.config(h.disk, q)
	config.MarkSyncInterval = 0
	store, err := engine.OpenStore(ctx, h.store(), config)
	must(err)
	l, err := store.OpenLog(ctx, shardKey(0))
	must(err)
	append1 := func() {
		_, err := l.Append(ctx, engine.Record{Payload: bytes.Repeat([]byte{'a'}, 1000)})
		if err != nil {
			t.Log("an append beside the failure:", err)
		}
	}
	for range 5 {
		append1()
	}
	synctest.Wait()
	hold = true
	h.disk.FailSync(simdisk.SyncFault{Files: true, Path: func(path string) bool { return strings.HasSuffix(path, ".log") }})
	synced := make(chan error, 1)
	go func() { synced <- l.Sync(ctx) }()
	failed := <-held
	appended := make(chan struct{})
	go func() {
		defer close(appended)
		for range 20 {
			append1()
		}
	}()
	synctest.Wait()
	if durable := l.DurableOffset(); durable != 0 {
		t.Errorf("%d records count as durable, and all were lost by the flush whose completion is to come", durable)
	}
	q.Step(failed)
	if err := <-synced; err == nil {
		t.Error("a failed flush was reported as a success")
	}
	<-appended
	synctest.Wait()
	if durable := l.DurableOffset(); durable != 0 {
		t.Errorf("%d records count as durable after the failure was seen", durable)
	}
	_ = store.Close(ctx)
	stop()
	synctest.Wait()
	must(q.Close())
}
