package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// aloneWait is how long a plan waits for another to end on the same host, and alonePoll
// how often it asks.
const (
	aloneWait = 15 * time.Minute
	alonePoll = 100 * time.Millisecond
)

// alone waits until no other plan runs on this host, by a lock on the directory of its
// sysctls: two at once would save each other's values as the former ones, and one would
// expect the ring while the other has it forbidden. The lock ends with this process at
// the latest.
func alone(ctx context.Context, dir string) (release func(), err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, aloneWait, fmt.Errorf("it has not ended in %v", aloneWait))
	defer cancel()
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for told := false; ; {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil // which gives the lock back
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", dir, err), f.Close())
		}
		if !told {
			fmt.Fprintln(os.Stderr, "guest: another run of the matrix is under way on this host; waiting for its end")
			told = true
		}
		select {
		case <-time.After(alonePoll):
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("another run of the matrix is under way on this host: %w", context.Cause(ctx)), f.Close())
		}
	}
}
