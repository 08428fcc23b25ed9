package fallback

import (
	"errors"
	"sync"

	"felix.local/felix/device"
)

// Pool is a device.Queue of blocking workers.
type Pool struct {
	options Options
	ended   sync.WaitGroup // workers

	mu struct {
		sync.Mutex
		head, tail *device.Op // the line, through Op.Link
		queued     int
		workers    map[*worker]struct{}
		idle       []*worker // the last one is woken first and the first one ends first
		idleLow    int       // fewest idle workers since the idle period began
		timer      Timer     // nil while there is no worker
		closed     bool
		counts     counts
	}
}

var _ device.Queue = (*Pool)(nil)

// Open makes a pool. It panics on options out of bounds.
func Open(options Options) *Pool {
	if err := options.validate(); err != nil {
		panic(err)
	}
	p := &Pool{options: options.withDefaults()}
	p.mu.workers = make(map[*worker]struct{})
	return p
}

// Submit puts ops in line, in order, and returns.
func (p *Pool) Submit(ops ...*device.Op) {
	for _, op := range ops {
		op.Prepare()
	}
	if !p.enqueue(ops) {
		for _, op := range ops {
			op.Complete(0, device.NewError(op.Kind.String(), op.File.Name(), -1, device.ErrQueueClosed))
		}
	}
}

func (p *Pool) enqueue(ops []*device.Op) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		return false
	}
	for _, op := range ops {
		if p.mu.tail == nil {
			p.mu.head = op
		} else {
			p.mu.tail.Link = op
		}
		p.mu.tail = op
	}
	p.mu.queued += len(ops)
	for range ops {
		if !p.callWorkerLocked() {
			break
		}
	}
	return true
}

// takeLocked removes the first op in line; nil when there is none.
func (p *Pool) takeLocked() *device.Op {
	op := p.mu.head
	if op == nil {
		return nil
	}
	if p.mu.head = op.Link; p.mu.head == nil {
		p.mu.tail = nil
	}
	op.Link = nil
	p.mu.queued--
	return op
}

// Close completes everything in line and ends the workers.
func (p *Pool) Close() error {
	p.mu.Lock()
	if p.mu.closed {
		p.mu.Unlock()
		return errors.New("fallback: the pool is closed already")
	}
	p.mu.closed = true
	if p.mu.timer != nil {
		p.mu.timer.Stop()
	}
	for _, w := range p.mu.idle {
		w.wake <- struct{}{}
	}
	p.mu.idle = nil
	p.mu.Unlock()
	p.ended.Wait()
	return nil
}
