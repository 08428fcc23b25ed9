package fallback

import (
	"errors"
	"fmt"
	"time"
)

// Defaults and bounds of Options.
const (
	// WorkersDefault lets a group of logs flush at the same time, which the
	// filesystem turns into one journal commit, without a thread for each of
	// hundreds of logs.
	WorkersDefault = 32
	// WorkersMax bounds the threads a pool may block.
	WorkersMax = 4096
	// IdleAfterDefault is how long a worker stays for want of work.
	IdleAfterDefault = 10 * time.Second
)

// Options configure a Pool. The zero value gives the defaults.
type Options struct {
	// Workers is the most operations under way at once, each on a thread of
	// its own while it blocks. Default WorkersDefault, at most WorkersMax.
	Workers int
	// IdleAfter is the idle period: a worker ends after being idle for one
	// whole period, that is after one to two periods without work. Default
	// IdleAfterDefault.
	IdleAfter time.Duration
	// AfterFunc is the clock of the idle period. Default time.AfterFunc.
	AfterFunc func(time.Duration, func()) Timer
}

// Timer is the part of *time.Timer that a Pool uses.
type Timer interface {
	Reset(time.Duration) bool
	Stop() bool
}

func (o Options) withDefaults() Options {
	if o.Workers == 0 {
		o.Workers = WorkersDefault
	}
	if o.IdleAfter == 0 {
		o.IdleAfter = IdleAfterDefault
	}
	if o.AfterFunc == nil {
		o.AfterFunc = func(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
	}
	return o
}

func (o Options) validate() error {
	var problems []error
	if o.Workers < 0 || o.Workers > WorkersMax {
		problems = append(problems, fmt.Errorf("fallback: %d workers; 1 to %d are possible", o.Workers, WorkersMax))
	}
	if o.IdleAfter < 0 {
		problems = append(problems, fmt.Errorf("fallback: an idle period of %v; it must be positive", o.IdleAfter))
	}
	return errors.Join(problems...)
}
