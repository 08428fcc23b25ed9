package engine

import (
	"sync"
	"testing"
	"testing/synctest"
)

// A goroutine that ran a commit loop runs the next one, as many at a time as there are
// loops, and ends when the store is closed.
func TestCommitLoopsRunOnGoroutinesThatAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails when a goroutine is left
		var c committers
		kept := func() int {
			synctest.Wait()
			c.mu.Lock()
			defer c.mu.Unlock()
			return len(c.idle)
		}
		for range 3 {
			var done sync.WaitGroup
			done.Add(1)
			c.run(done.Done)
			done.Wait()
			if n := kept(); n != 1 {
				t.Errorf("%d goroutines are kept after one loop at a time", n)
			}
		}
		hold := make(chan struct{})
		var running sync.WaitGroup
		for range committersMax + 10 {
			running.Add(1)
			c.run(func() { running.Done(); <-hold })
		}
		running.Wait() // all at once
		if n := kept(); n != 0 {
			t.Errorf("%d goroutines wait while all have work", n)
		}
		close(hold)
		if n := kept(); n != committersMax {
			t.Errorf("%d goroutines are kept, want %d", n, committersMax)
		}
		late := make(chan struct{})
		c.run(func() { <-late })
		c.end()
		if n := kept(); n != 0 {
			t.Errorf("%d goroutines are kept after the end", n)
		}
		close(late)
		ran := false
		c.run(func() { ran = true })
		if n := kept(); n != 0 || !ran {
			t.Errorf("%d goroutines are kept after the end; a loop that came late ran: %v", n, ran)
		}
	})
}
