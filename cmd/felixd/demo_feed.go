package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// demoFeed is everything that the demo's subscription was given, over all servers.
type demoFeed struct {
	// payloads are those of offsets 0, 1, 2 and so on: subscription lets no other
	// order through.
	payloads []string
	// wanted ends the subscription once so many were given; 0 is no end.
	wanted int
}

func (f *demoFeed) started(offset uint64) error {
	if offset != uint64(len(f.payloads)) {
		return fmt.Errorf("the subscription begins at offset %d where %d was due", offset, len(f.payloads))
	}
	return nil
}

func (f *demoFeed) record(r feedRecord) error {
	if r.Offset != uint64(len(f.payloads)) {
		return fmt.Errorf("the subscription was given offset %d where %d was due", r.Offset, len(f.payloads))
	}
	f.payloads = append(f.payloads, string(r.payload()))
	if len(f.payloads) == f.wanted {
		return errEnough
	}
	return nil
}

func (f *demoFeed) missed(e missedEvent) error {
	return fmt.Errorf("the subscription missed offsets %d to %d of a durable stream", e.First, e.Last)
}

func (f *demoFeed) pause() error { return nil }

// follow subscribes from the last offset that was given, on the present server.
func (d *demo) follow(ctx context.Context) error {
	s := &subscription{client: d.client, name: orders(), from: "earliest", warn: func(string) {}}
	if n := uint64(len(d.feed.payloads)); n > 0 {
		last := n - 1
		s.last = &last
	}
	return s.run(ctx, d.feed)
}

// catchUpMax bounds the wait for a subscription that has everything before it.
const catchUpMax = time.Minute

// catchUp follows until offset next is the one that is due.
func (d *demo) catchUp(next uint64) error {
	if uint64(len(d.feed.payloads)) >= next {
		return nil
	}
	ctx, cancel := context.WithTimeout(d.app.ctx, catchUpMax)
	defer cancel()
	d.feed.wanted = int(next)
	defer func() { d.feed.wanted = 0 }()
	err := d.follow(ctx)
	if errors.Is(err, errEnough) {
		return nil
	}
	return fmt.Errorf("the subscription has %d of %d records: %w", len(d.feed.payloads), next, err)
}

// missing counts the acknowledged records that the subscription was not given, or
// was given with another payload, and the payloads that it was given twice.
func (d *demo) missing() (missing, twice int) {
	for offset, payload := range d.acked {
		if offset >= uint64(len(d.feed.payloads)) || d.feed.payloads[offset] != payload {
			missing++
		}
	}
	sorted := slices.Sorted(slices.Values(d.feed.payloads))
	for i := 1; i < len(sorted); i++ {
		if sorted[i] == sorted[i-1] {
			twice++
		}
	}
	return missing, twice
}
