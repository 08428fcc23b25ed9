package httpapi

import (
	"context"
	"errors"
	"net/http"
	"testing"
)

// waiters counts those who wait for bytes.
func (b *budget) waiters() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.mu.waiting)
}

func TestABudgetIsTakenUpToItsBoundAndBeyondItOnlyAlone(t *testing.T) {
	server := must(New(Config{Broker: inMemory(t, brokerDefaults), PageBytes: 10, PageBytesMax: 100, PagesBytesMax: 150, PagesBytesClient: 150}))
	pages := server.pages
	for _, step := range []struct {
		take func() error
		fits bool
	}{
		{func() error { return pages.take("a", 0, 100) }, true},
		{func() error { return pages.take("a", 100, 1000) }, true}, // alone
		{func() error { return pages.take("b", 0, 1) }, false},
		{func() error { pages.give("a", 1000); return pages.take("b", 0, 51) }, false},
		{func() error { return pages.take("b", 0, 50) }, true},
		{func() error { return pages.take("b", 50, 1) }, false},
		{func() error { return pages.take("b", 50, 0) }, true},
		{func() error { pages.give("a", 100); return pages.take("b", 50, 101) }, true},
	} {
		if err := step.take(); (err == nil) != step.fits {
			t.Fatalf("%v with %d taken", err, pages.held())
		} else if err != nil {
			if p := server.explain(err); p.status != http.StatusTooManyRequests || p.code != codeBackPressure || p.retrySeconds == 0 {
				t.Errorf("%+v", p)
			}
		}
	}
	pages.give("b", 151)
	if n := pages.held(); n != 0 || len(pages.mu.clients) != 0 {
		t.Errorf("%d bytes are still taken, %v", n, pages.mu.clients)
	}
}

func TestOneClientHoldsNoMoreThanItsShare(t *testing.T) {
	b := newBudget("bytes", 100, 25)
	for _, step := range []struct {
		client string
		own, n int64
		fits   bool
	}{
		{"a", 0, 20, true},
		{"a", 0, 6, false},
		{"a", 20, 10, true}, // one request may be larger than the share
		{"a", 0, 1, false},
		{"b", 0, 25, true},
		{"b", 0, 1, false},
		{"c", 0, 25, true},
	} {
		if err := b.take(step.client, step.own, step.n); (err == nil) != step.fits {
			t.Errorf("%+v: %v", step, err)
		}
	}
}

func TestWhoWaitsForABudgetGetsItInTurn(t *testing.T) {
	b := newBudget("bytes", 100, 50)
	if err := errors.Join(b.take("a", 0, 50), b.take("b", 0, 40)); err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 10)
	wait := func(client string, n int64, before int) {
		go func() {
			if err := b.wait(t.Context(), client, n); err != nil {
				client = err.Error()
			}
			got <- client
		}()
		eventually(t, client+" waits", func() bool { return b.waiters() == before+1 })
	}
	wait("a", 10, 0) // its client has its share, which holds up nobody else
	if err := b.take("c", 0, 1); err != nil {
		t.Error(err)
	}
	wait("c", 20, 1)
	if err := b.take("d", 0, 1); err == nil {
		t.Error("one who begins came before one who waits")
	}
	b.give("b", 40)
	if first := <-got; first != "c" {
		t.Errorf("%s instead of c", first)
	}
	b.give("a", 10)
	if second := <-got; second != "a" {
		t.Errorf("%s instead of a", second)
	}
	if n := b.held(); n != 71 {
		t.Errorf("%d bytes are taken", n)
	}
}

func TestWhoGivesUpWaitingHoldsNothing(t *testing.T) {
	b := newBudget("bytes", 10, 10)
	if err := b.take("a", 0, 10); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.wait(ctx, "b", 10) }()
	eventually(t, "it waits", func() bool { return b.waiters() == 1 })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	b.give("a", 10)
	if b.held() != 0 || b.waiters() != 0 || b.mu.short {
		t.Errorf("%+v", b)
	}
}
