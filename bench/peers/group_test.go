package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
)

// One request is being written; those that come meanwhile are one group.
func TestRequestsThatWaitAreOneGroup(t *testing.T) {
	const n = 20
	writing, goOn := make(chan struct{}), make(chan struct{})
	var groups [][]int
	c := committer[int]{write: func(_ context.Context, requests []int) error {
		groups = append(groups, slices.Clone(requests))
		if len(groups) == 1 {
			close(writing)
			<-goOn
		}
		return nil
	}}
	var wg sync.WaitGroup
	commit := func(i int) {
		wg.Go(func() {
			if err := c.commit(t.Context(), i); err != nil {
				t.Error(err)
			}
		})
	}
	commit(0)
	<-writing
	for i := 1; i <= n; i++ {
		commit(i)
	}
	for waiting := 0; waiting < n; {
		c.mu.Lock()
		waiting = len(c.mu.waiting)
		c.mu.Unlock()
	}
	close(goOn)
	wg.Wait()
	if len(groups) != 2 || len(groups[1]) != n {
		t.Errorf("groups %v, want one request and then %d", groups, n)
	}
}

func TestAFailedGroupFailsForAllOfIt(t *testing.T) {
	broken := errors.New("broken")
	c := committer[int]{write: func(context.Context, []int) error { return broken }}
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			if err := c.commit(t.Context(), i); !errors.Is(err, broken) {
				t.Errorf("request %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if c.mu.busy || len(c.mu.waiting) > 0 {
		t.Error("the committer is left busy")
	}
}
