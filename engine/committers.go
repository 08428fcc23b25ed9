package engine

import "sync"

// committersMax bounds how many goroutines wait for a commit loop to run.
const committersMax = 256

// committers run commit loops on goroutines that are kept. A new goroutine has a small
// stack, and growing it to what a commit needs costs more than the commit itself when
// many logs share a frame of the journal.
type committers struct {
	mu   sync.Mutex
	idle []chan func()
	// ended: nobody is kept any more.
	ended bool
}

// run calls f on a goroutine of its own.
func (c *committers) run(f func()) {
	c.mu.Lock()
	n := len(c.idle) - 1
	if n < 0 {
		c.mu.Unlock()
		go c.work(f)
		return
	}
	next := c.idle[n] // the last that came: its stack is in the cache
	c.idle = c.idle[:n]
	c.mu.Unlock()
	next <- f // has room
}

func (c *committers) work(f func()) {
	next := make(chan func(), 1)
	for ok := true; ok; f, ok = <-next {
		f()
		f = nil // names a log
		c.mu.Lock()
		if c.ended || len(c.idle) == committersMax {
			c.mu.Unlock()
			return
		}
		c.idle = append(c.idle, next)
		c.mu.Unlock()
	}
}

// end lets those that wait go. Commit loops that run, or are begun later, end their
// goroutine.
func (c *committers) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for _, next := range c.idle {
		close(next)
	}
	c.idle = nil
}
