package budget

import (
	"context"
	"errors"
	"sync"
	"testing"
)

// queued waits until so many wait.
func (b *Bytes) queued(n int) {
	for {
		b.mu.Lock()
		waiting := b.mu.waiters.Len()
		b.mu.Unlock()
		if waiting == n {
			return
		}
	}
}

func TestBytesAreGivenInTurn(t *testing.T) {
	b := NewBytes(10)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if n, err := b.Take(ctx, 100); n != 10 || err != nil {
		t.Fatalf("more than all gave %d, %v", n, err)
	}
	large, small := make(chan error, 1), make(chan error, 1)
	go func() { _, err := b.Take(ctx, 8); large <- err }()
	b.queued(1)
	go func() { _, err := b.Take(t.Context(), 1); small <- err }()
	b.queued(2)
	b.Give(5)
	if b.TryTake(1) {
		t.Error("somebody was served before those who wait")
	}
	select {
	case <-small:
		t.Error("a small one was served before a large one that came first")
	default:
	}
	cancel() // the large one gives up, and the small one is next
	if err := <-large; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := <-small; err != nil {
		t.Error(err)
	}
	if used := b.Used(); used != 6 {
		t.Errorf("%d are in use", used)
	}
}

func TestBytesAboveTheBoundAreCountedAndHoldOthersBack(t *testing.T) {
	b := NewBytes(10)
	b.Add(25)
	if b.Used() != 25 || b.TryTake(1) {
		t.Errorf("%d are in use, and another could be had", b.Used())
	}
	b.Give(20)
	if !b.TryTake(5) || b.TryTake(1) || b.Max() != 10 {
		t.Errorf("%d of %d are in use", b.Used(), b.Max())
	}
}

func TestMoreThanWasTakenCannotBeGivenBack(t *testing.T) {
	b := NewBytes(10)
	defer func() {
		if recover() == nil {
			t.Error("it was taken")
		}
	}()
	b.Give(1)
}

// Whoever gives up at the very moment of being served leaves nothing behind.
func TestNoBytesAreLostBetweenWaitersThatGiveUp(t *testing.T) {
	b := NewBytes(10)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for k := range 500 {
				ctx, cancel := context.WithCancel(t.Context())
				if (i+k)%3 == 0 {
					go cancel()
				}
				n, err := b.Take(ctx, int64(1+(i+k)%10))
				if err == nil {
					if used := b.Used(); used > 10 {
						t.Errorf("%d of 10 are in use", used)
					}
					b.Give(n)
				}
				cancel()
			}
		})
	}
	all.Wait()
	if used := b.Used(); used != 0 {
		t.Errorf("%d are in use at the end", used)
	}
}
