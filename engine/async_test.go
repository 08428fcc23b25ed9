package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
)

func TestAppendAsyncCompletesInOffsetOrder(t *testing.T) {
	eachMode(t, func(t *testing.T, mode func(*engine.Config)) {
		r := newRig(t, mode)
		const publishers, each = 8, 60
		var (
			mu      sync.Mutex
			pending = make(map[uint64]engine.Pending) // by first offset
			all     sync.WaitGroup
		)
		for p := range publishers {
			all.Go(func() {
				for i := range each {
					handle, err := r.log.AppendAsync(r.ctx, engine.Record{Payload: fmt.Appendf(nil, "%d/%d", p, i)})
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					pending[handle.Offsets().First] = handle
					mu.Unlock()
				}
			})
		}
		all.Wait()
		for offset := uint64(publishers * each); offset > 0; offset-- {
			select {
			case <-pending[offset-1].Done():
				for below := range offset - 1 {
					select {
					case <-pending[below].Done():
					default:
						t.Fatalf("offset %d completed before %d", offset-1, below)
					}
				}
			default:
			}
		}
		for offset := range uint64(publishers * each) {
			got, err := pending[offset].Wait(r.ctx)
			if err != nil || got.First != offset {
				t.Fatalf("offset %d: %v %v", offset, got, err)
			}
		}
		if n := len(r.readAll()); n != publishers*each {
			t.Fatalf("%d records", n)
		}
	})
}

// The order must also hold at the moment of each completion, whatever batch the
// records are in and however the device orders its answers.
func TestNoCompletionOvertakesAnotherWhileTheDeviceIsSlow(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	disk, faults := withFaults(t)
	r := newRig(t, faults)
	var handles []engine.Pending
	for range 20 {
		held := hold(t, disk, faultdisk.WriteDsync, isLog, 1)
		for range 1 + random.IntN(15) {
			handle, err := r.log.AppendAsync(r.ctx, engine.Record{Payload: make([]byte, random.IntN(1500))})
			if err != nil {
				t.Fatal(err)
			}
			handles = append(handles, handle)
		}
		<-held.Reached()
		held.Remove()
		last := len(handles) - 1
		<-handles[last].Done()
		for i := range handles[:last] {
			select {
			case <-handles[i].Done():
			default:
				t.Fatalf("offset %d completed before %d", last, i)
			}
		}
	}
}

func TestC234ACancelledAppendKeepsItsPlace(t *testing.T) {
	disk, faults := withFaults(t)
	r := newRig(t, faults)
	held := hold(t, disk, faultdisk.WriteDsync, isLog, 1)
	first, err := r.log.AppendAsync(r.ctx, engine.Record{Payload: []byte("in flight")})
	if err != nil {
		t.Fatal(err)
	}
	<-held.Reached()
	ctx, cancel := context.WithCancel(r.ctx)
	second, err := r.log.AppendAsync(ctx, engine.Record{Payload: []byte("given up")})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	_, err = second.Wait(ctx)
	unknown := errorAs[*engine.UnknownOutcomeError](t, err)
	if unknown.First != 1 || unknown.Last != 1 || !errors.Is(err, context.Canceled) {
		t.Fatalf("%+v", unknown)
	}
	third, err := r.log.AppendAsync(r.ctx, engine.Record{Payload: []byte("after it")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Wait(ctx); err == nil {
		t.Fatal("a wait with an ended context did not end")
	}
	held.Release()
	if got, err := third.Wait(r.ctx); err != nil || got.First != 2 {
		t.Fatalf("%v %v", got, err)
	}
	// A handle may be waited for again, and with an ended context once it is
	// complete.
	if got, err := first.Wait(ctx); err != nil || got.First != 0 {
		t.Fatalf("%v %v", got, err)
	}
	var texts []string
	for _, record := range r.readAll() {
		texts = append(texts, string(record.Payload))
	}
	if got := fmt.Sprint(texts); got != "[in flight given up after it]" {
		t.Fatal(got)
	}
}

func TestC234AContextThatEndedBeforeTheAppendAppendsNothing(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	if _, err := r.log.Append(ctx, engine.Record{}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, err := r.log.AppendAsync(ctx, engine.Record{}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if r.append(engine.Record{}).First != 0 {
		t.Fatal("a refused append took an offset")
	}
}

func TestC234AContextThatEndsWhileThereIsNoStagingRoomAppendsNothing(t *testing.T) {
	disk, faults := withFaults(t)
	r := newRig(t, faults, func(c *engine.Config) { c.StagedBytesPerLogMax = 100 })
	held := hold(t, disk, faultdisk.WriteDsync, isLog, 1)
	first, err := r.log.AppendAsync(r.ctx, engine.Record{Payload: make([]byte, 70)})
	if err != nil {
		t.Fatal(err)
	}
	<-held.Reached()
	ctx, cancel := context.WithCancel(r.ctx)
	waits := newPatience(ctx)
	go func() {
		<-waits.waiting
		cancel()
	}()
	_, err = r.log.Append(waits, engine.Record{Payload: make([]byte, 70)})
	pressure := errorAs[*engine.BackPressureError](t, err)
	if pressure.Max != 100 || pressure.Bound != "StagedBytesPerLogMax" || !errors.Is(err, context.Canceled) {
		t.Fatalf("%+v", pressure)
	}
	held.Release()
	if _, err := first.Wait(r.ctx); err != nil {
		t.Fatal(err)
	}
	if next := r.append(engine.Record{}); next.First != 1 {
		t.Fatalf("the refused append took an offset: the next is %d", next.First)
	}
}
