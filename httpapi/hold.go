package httpapi

import (
	"context"
	"sync"
	"time"
	"unsafe"

	"felix.local/felix/broker"
)

// pageHold is what a request has taken of Server.pages.
type pageHold struct {
	pages  *budget
	client string
	bytes  int64

	mu struct {
		sync.Mutex
		// settled says that a lent hold is the request's own again.
		settled bool
	}
}

func (x *exchange) hold() *pageHold { return &pageHold{pages: x.server.pages, client: x.client()} }

// resize brings what is held to the size of a page that was read, or reports that there
// is no room for so much.
func (h *pageHold) resize(n int64) error {
	if n > h.bytes {
		if err := h.pages.take(h.client, h.bytes, n-h.bytes); err != nil {
			return err
		}
	} else {
		h.pages.give(h.client, h.bytes-n)
	}
	h.bytes = n
	return nil
}

// wait takes n bytes as soon as there is room. Nothing is held yet.
func (h *pageHold) wait(ctx context.Context, n int64) error {
	if err := h.pages.wait(ctx, h.client, n); err != nil {
		return err
	}
	h.bytes = n
	return nil
}

// waitFor is resize that waits for room. What is held is given back for that, so that
// nobody waits for one who waits.
func (h *pageHold) waitFor(ctx context.Context, n int64) error {
	if h.resize(n) == nil {
		return nil
	}
	h.release()
	return h.wait(ctx, n)
}

// lend gives what is held back should the request not settle within a time. Until then
// the request does not look at it.
func (h *pageHold) lend(within time.Duration) (settle func()) {
	timer := time.AfterFunc(within, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if !h.mu.settled {
			h.release()
		}
	})
	return func() {
		timer.Stop()
		h.mu.Lock()
		defer h.mu.Unlock()
		h.mu.settled = true
	}
}

func (h *pageHold) release() {
	h.pages.give(h.client, h.bytes)
	h.bytes = 0
}

// pageBytes is what a page holds in memory: payloads, and the records around them. It is
// more than was asked for when its first record alone is, or when its records are small.
func pageBytes(records []broker.Record) int64 {
	bytes := len(records) * int(unsafe.Sizeof(broker.Record{}))
	for i := range records {
		r := &records[i]
		bytes += len(r.Value) + len(r.Key) + len(r.Headers)*int(headerBytes)
		for k := range r.Headers {
			bytes += len(r.Headers[k].Key) + len(r.Headers[k].Value)
		}
	}
	return int64(bytes)
}
