package fallback

import (
	"time"

	"felix.local/felix/device"
)

// worker is one goroutine of a pool. Its fields but wake are under Pool.mu.
type worker struct {
	// wake has room for the one signal a worker gets per stay on the idle list,
	// so sending it never blocks.
	wake chan struct{}
	// dismissed tells a worker taken off the idle list to end.
	dismissed bool
	// since is when the op under way was submitted; zero without one.
	since time.Time
}

// callWorkerLocked sends one worker to the line: the one idle for the shortest
// time, whose thread is the warmest, else a new one. It reports false when
// the bound is reached.
func (p *Pool) callWorkerLocked() bool {
	if n := len(p.mu.idle); n > 0 {
		w := p.mu.idle[n-1]
		p.mu.idle[n-1] = nil
		p.mu.idle = p.mu.idle[:n-1]
		p.mu.idleLow = min(p.mu.idleLow, n-1)
		w.wake <- struct{}{}
		return true
	}
	if len(p.mu.workers) >= p.options.Workers {
		return false
	}
	w := &worker{wake: make(chan struct{}, 1)}
	p.mu.workers[w] = struct{}{}
	if p.mu.timer == nil {
		p.mu.idleLow = 0
		p.mu.timer = p.options.AfterFunc(p.options.IdleAfter, p.endIdle)
	}
	p.ended.Go(func() { p.work(w) })
	return true
}

// work carries out ops until the worker is dismissed or the pool closed.
func (p *Pool) work(w *worker) {
	op := p.first(w)
	for op != nil {
		n, err := op.File.Perform(op)
		next := p.next(w, op, err)
		op.Complete(n, err)
		if next == nil {
			next = p.first(w)
		}
		op = next
	}
}

// next books the end of op and takes the next one, in one lock section. It is nil
// when the line is empty.
func (p *Pool) next(w *worker, done *device.Op, err error) *device.Op {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.counts.add(done, err)
	return p.assignLocked(w)
}

// first takes the first op in line, waiting for one; nil means that the worker is
// to end.
func (p *Pool) first(w *worker) *device.Op {
	for {
		p.mu.Lock()
		op := p.assignLocked(w)
		stay := op == nil && !p.mu.closed && !w.dismissed
		if stay {
			p.mu.idle = append(p.mu.idle, w)
		} else if op == nil {
			delete(p.mu.workers, w)
		}
		p.mu.Unlock()
		if !stay {
			return op
		}
		<-w.wake
	}
}

func (p *Pool) assignLocked(w *worker) *device.Op {
	op := p.takeLocked()
	if op == nil {
		w.since = time.Time{}
	} else {
		w.since = op.SubmittedAt
	}
	return op
}

// endIdle runs at the end of each idle period and dismisses as many workers as
// were idle all through it.
func (p *Pool) endIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		return
	}
	n := p.mu.idleLow
	for _, w := range p.mu.idle[:n] {
		w.dismissed = true
		w.wake <- struct{}{}
	}
	rest := copy(p.mu.idle, p.mu.idle[n:])
	clear(p.mu.idle[rest:])
	p.mu.idle = p.mu.idle[:rest]
	p.mu.idleLow = rest
	if len(p.mu.workers) == n {
		p.mu.timer = nil // the last ones are leaving
		return
	}
	p.mu.timer.Reset(p.options.IdleAfter)
}
