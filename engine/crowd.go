package engine

import (
	"sync"
	"time"
)

// crowdPatience is how long the appends of one batch wait for it alone before
// each of them also waits for the end of its context. Most batches take less.
const crowdPatience = 2 * time.Millisecond

// crowd is where the blocking appends of one batch wait for a device. To wait for
// a batch and a context at once takes the locks of two channels, and appends often
// share their context: with 64 publishers on two cores that was an eighth of the
// time between two flushes. So they first wait for one channel, which opens when
// the batch is complete or has used up their patience; from then on the end of a
// context is noticed at once.
type crowd struct {
	open     chan struct{}
	opened   sync.Once
	patience *time.Timer
}

// joinCrowd gives the batch's crowd; the caller holds Log.mu.
func (b *batch) joinCrowd() *crowd {
	if b.crowd == nil {
		c := &crowd{open: make(chan struct{})}
		c.patience = time.AfterFunc(crowdPatience, c.disperse)
		b.crowd = c
	}
	return b.crowd
}

func (c *crowd) wait() { <-c.open }

// disperse lets everyone go on.
func (c *crowd) disperse() { c.opened.Do(func() { close(c.open) }) }

// end is for when the batch is complete.
func (c *crowd) end() {
	c.patience.Stop()
	c.disperse()
}
