package httpapi

import (
	"errors"
	"io"
	"os"
	"time"
)

// bodyBufferBytes is the size of the pooled buffers: what a body gets before anything
// of it is known to be there.
const bodyBufferBytes = 32 << 10

// body is the body of a request, in memory that was taken from Server.bodies.
type body struct {
	server *Server
	client string
	bytes  []byte
	pooled *[]byte // the buffer to put back
	taken  int64
}

// release gives the memory back. Nothing may use bytes afterwards.
func (b *body) release() {
	if b.pooled != nil {
		b.server.buffers.Put(b.pooled)
		b.pooled = nil
	}
	b.server.bodies.give(b.client, b.taken)
	b.bytes, b.taken = nil, 0
}

// claim takes memory for what is made of the body beside it.
func (b *body) claim(n int64) error {
	if err := b.server.bodies.take(b.client, b.taken, n); err != nil {
		return err
	}
	b.taken += n
	return nil
}

// grow makes room for more, up to max bytes in all. The old and the new buffer are
// both counted while both are there. A body that is larger than the bound on all is
// taken when it is the only one.
func (b *body) grow(max int64) error {
	size := min(2*int64(cap(b.bytes)), max)
	if err := b.server.bodies.take(b.client, b.taken, size); err != nil {
		return err
	}
	larger := make([]byte, len(b.bytes), size)
	copy(larger, b.bytes)
	if b.pooled != nil {
		b.server.buffers.Put(b.pooled)
		b.pooled = nil
	}
	b.server.bodies.give(b.client, b.taken)
	b.bytes, b.taken = larger, size
	return nil
}

// readBody reads the request's body of at most max bytes. Memory follows what has
// arrived, not what was announced. The caller releases what it gets.
func (x *exchange) readBody(max int64) (*body, error) {
	announced := x.r.ContentLength
	if announced > max {
		return nil, bodyTooLarge(max)
	}
	if err := x.server.bodies.take(x.client(), 0, bodyBufferBytes); err != nil {
		return nil, err
	}
	buffer := x.server.buffers.Get().(*[]byte)
	b := &body{server: x.server, client: x.client(), bytes: (*buffer)[:0], pooled: buffer, taken: bodyBufferBytes}
	if announced == 0 {
		return b, nil
	}
	limit := max + 1 // one more tells that there is too much
	if announced > 0 {
		limit = announced
	}
	err := x.fill(b, limit)
	if err == nil && int64(len(b.bytes)) > max {
		err = bodyTooLarge(max)
	}
	if err != nil {
		b.release()
		return nil, err
	}
	x.bodyDone = true
	return b, nil
}

// fill reads up to limit bytes. Each BodyProgressBytes extend the deadline, so that a
// client that trickles loses its request, and one that is slow but honest does not. So
// that nobody holds much memory for long, a whole body has a deadline too, which moves
// with what has come of it, at BodyRateMin.
func (x *exchange) fill(b *body, limit int64) error {
	began := time.Now()
	x.readUntil(began, began, 0)
	defer x.clearRead()
	progress := int64(0)
	for int64(len(b.bytes)) < limit {
		if len(b.bytes) == cap(b.bytes) {
			if err := b.grow(limit); err != nil {
				return err
			}
		}
		room := b.bytes[len(b.bytes):min(int64(cap(b.bytes)), limit)]
		n, err := x.r.Body.Read(room)
		b.bytes = b.bytes[:len(b.bytes)+n]
		x.server.counters.bytesIn.Add(uint64(n))
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return bodyError(err)
		}
		if progress += int64(n); progress >= x.server.cfg.BodyProgressBytes {
			progress = 0
			x.readUntil(began, time.Now(), int64(len(b.bytes)))
		}
	}
	return nil
}

// readUntil sets the deadline of a body of which so many bytes have come since it began,
// the last ones now.
func (x *exchange) readUntil(began, now time.Time, bytes int64) {
	cfg := &x.server.cfg
	next := now.Add(cfg.BodyTimeout)
	whole := began.Add(cfg.BodyTimeout + time.Duration(float64(bytes)/float64(cfg.BodyRateMin)*float64(time.Second)))
	if whole.Before(next) {
		next = whole
	}
	_ = x.control.SetReadDeadline(next)
}

func bodyError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return bodyTooSlow()
	}
	return badRequest(codeInvalidBody, "the body ended too early or is not well formed: "+err.Error(),
		"send it again; nothing was appended")
}
