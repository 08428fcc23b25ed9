package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// sameRequest is how long after a signal that asks a server to end another one counts as
// the same request.
const sameRequest = time.Second

// repeats are the signals after the first that asks a server to end. Whoever signals a
// process and then its group, as timeout(1) does, or a shell and what runs in it, asks
// once and is heard twice: that must not kill a server in the middle of its orderly end.
// Later ones are not caught, and end a server that is stuck.
type repeats struct {
	catch, release func()
	// later has something done after a while.
	later func(after time.Duration, do func())
}

// osRepeats are those of the process.
func osRepeats() repeats {
	caught := make(chan os.Signal, 1) // nobody reads it: to be caught is all that is wanted
	return repeats{
		catch:   func() { signal.Notify(caught, os.Interrupt, syscall.SIGTERM) },
		release: func() { signal.Stop(caught) },
		later:   func(after time.Duration, do func()) { time.AfterFunc(after, do) },
	}
}

// ignore has repeats ignored for a while once ctx, which the first signal ends, is over.
func (r repeats) ignore(ctx context.Context) {
	r.catch() // now: there is no moment between the first signal and this
	context.AfterFunc(ctx, func() { r.later(sameRequest, r.release) })
}
