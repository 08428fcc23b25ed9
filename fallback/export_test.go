package fallback

import "runtime"

// Workers is the number of workers there are.
func (p *Pool) Workers() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.mu.workers)
}

// WaitIdle returns once n workers are idle.
func (p *Pool) WaitIdle(n int) {
	p.waitUntil(func() bool { return len(p.mu.idle) == n })
}

// WaitQuiet returns once every worker there is, if any, is idle.
func (p *Pool) WaitQuiet() {
	p.waitUntil(func() bool { return len(p.mu.idle) == len(p.mu.workers) })
}

// WaitWorkers returns once there are n workers.
func (p *Pool) WaitWorkers(n int) {
	p.waitUntil(func() bool { return len(p.mu.workers) == n })
}

func (p *Pool) waitUntil(stateLocked func() bool) {
	for {
		p.mu.Lock()
		reached := stateLocked()
		p.mu.Unlock()
		if reached {
			return
		}
		runtime.Gosched()
	}
}
