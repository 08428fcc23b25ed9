package main

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progressInterval is the time between two paints of a progress bar.
const progressInterval = 100 * time.Millisecond

// progress shows how far a long command is, when people are watching. Counting
// costs one atomic addition, so that a measurement is not one of the bar.
type progress struct {
	count   atomic.Int64
	end     chan struct{}
	painter sync.WaitGroup
}

// progress starts a bar on standard error; total is -1 when there is no end to
// reach. Nothing is shown when results are JSON or standard error is no terminal.
func (a *app) progress(o *output, total int64, what string) *progress {
	p := &progress{end: make(chan struct{})}
	if o.json || !isTerminal(a.stderr) {
		return p
	}
	bar := progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(a.stderr), progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionClearOnFinish())
	p.painter.Go(func() { p.paint(bar) })
	return p
}

// paint ignores what the bar answers: a terminal that went away ends no command.
func (p *progress) paint(bar *progressbar.ProgressBar) {
	tick := time.NewTicker(progressInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = bar.Set64(p.count.Load())
		case <-p.end:
			_ = bar.Finish()
			return
		}
	}
}

// add counts what was done.
func (p *progress) add(n int64) { p.count.Add(n) }

// finish clears the bar.
func (p *progress) finish() {
	close(p.end)
	p.painter.Wait()
}
