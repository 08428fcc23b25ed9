package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// A frame is a length of four bytes and as many bytes of a request. The first
// fields of the request say how large it may be.
const (
	frameLengthSize = 4
	// requestHeaderMin: key, version, correlation id.
	requestHeaderMin = 8
	// partSize is how many bytes of a large request, or answer, have the time that
	// there is for a small one. A new buffer for a request begins with as many, and
	// doubles as bytes come, so that announcing a size does not allocate it.
	partSize = 1 << 20
	// parseFactor is the most memory that reading a small request may take, per byte
	// of it: the codec's structures are larger than their shortest encoding.
	parseFactor = 128
)

// frame is a request as it came, and the memory it holds.
type frame struct {
	buf  *buffer
	held int64
	// overdraft is set for the one request that may hold more than there is.
	overdraft bool
}

// requestError ends a connection over what its client sent.
type requestError struct{ problem string }

func (e *requestError) Error() string { return e.problem }

// waitForRequest waits for a request's first byte, within the idle time.
func (c *conn) waitForRequest() error {
	for {
		deadline := time.Now().Add(c.s.cfg.IdleTimeout)
		if until := c.strangerUntil(); !until.IsZero() && until.Before(deadline) {
			deadline = until
		}
		if err := c.readBy(deadline); err != nil {
			return err
		}
		_, err := c.reader.Peek(1)
		var timeout interface{ Timeout() bool }
		if errors.As(err, &timeout) && timeout.Timeout() && c.strangerUntil().IsZero() && c.inFlight.Load() > 0 && !c.s.isStopping() {
			continue // its client waits for an answer, and is not idle
		}
		return err
	}
}

// readFrame reads a request that has begun; raw is for one without a header.
func (c *conn) readFrame(raw bool) (frame, error) {
	deadline := c.requestDeadline()
	if err := c.readBy(deadline); err != nil {
		return frame{}, err
	}
	var start [frameLengthSize + requestHeaderMin]byte
	fixed := start[:]
	if raw {
		fixed = start[:frameLengthSize]
	}
	if _, err := io.ReadFull(c.reader, fixed); err != nil {
		return frame{}, err
	}
	size := int64(int32(binary.BigEndian.Uint32(start[:])))
	prefix := fixed[frameLengthSize:]
	most, factor := c.frameBounds(prefix)
	if size < int64(len(prefix)) || size > most {
		return frame{}, &requestError{fmt.Sprintf("a request of %d bytes; %d to %d are allowed here", size, len(prefix), most)}
	}
	ctx, cancel := context.WithDeadline(c.ctx, deadline)
	held, err := c.s.requests.Take(ctx, size*factor)
	cancel()
	if err != nil {
		return frame{}, fmt.Errorf("waiting for %d bytes of request memory: %w", size*factor, err)
	}
	buf, err := c.readBody(int(size), prefix)
	if err != nil {
		c.s.requests.Give(held)
		return frame{}, err
	}
	return frame{buf: buf, held: held}, nil
}

// requestDeadline is when a request, or the part of it that is read next, has to be
// there.
func (c *conn) requestDeadline() time.Time {
	deadline := time.Now().Add(c.s.cfg.RequestTimeout)
	if until := c.strangerUntil(); !until.IsZero() && until.Before(deadline) {
		deadline = until
	}
	return deadline
}

// frameBounds gives how large a request may be, and how much memory a byte of it
// may come to.
func (c *conn) frameBounds(prefix []byte) (most, factor int64) {
	switch {
	case c.isStranger():
		return int64(c.s.cfg.StrangerRequestBytesMax), parseFactor
	case len(prefix) >= 2 && binary.BigEndian.Uint16(prefix) == uint16(keyProduce):
		return int64(c.s.cfg.RequestBytesMax), 1
	default:
		return int64(c.s.cfg.SmallRequestBytesMax), parseFactor
	}
}

// readBody reads a request of size bytes that begins with prefix. Each part of a
// large one has its own time: on a slow line it takes long, and is no attack.
func (c *conn) readBody(size int, prefix []byte) (*buffer, error) {
	buf := c.s.buffers.kept(size)
	if buf == nil {
		buf = c.s.buffers.get(min(size, partSize))
	}
	n := copy(buf.b, prefix)
	for {
		end := min(n+partSize, len(buf.b))
		if _, err := io.ReadFull(c.reader, buf.b[n:end]); err != nil {
			c.s.buffers.put(buf)
			return nil, err
		}
		if n = end; n == size {
			return buf, nil
		}
		if err := c.readBy(c.requestDeadline()); err != nil {
			c.s.buffers.put(buf)
			return nil, err
		}
		if n == len(buf.b) {
			larger := c.s.buffers.get(min(size, 2*n))
			copy(larger.b, buf.b)
			c.s.buffers.put(buf)
			buf = larger
		}
	}
}

// release gives back what a frame holds. Nothing may alias it any more.
func (s *Server) release(f *frame) {
	s.buffers.put(f.buf)
	s.requests.Give(f.held)
	if f.overdraft {
		<-s.overdraft
	}
	*f = frame{}
}

// requestHeader is what every request begins with.
type requestHeader struct {
	key, version int16
	correlation  int32
	clientID     string
}

// parseHeader reads a request's header. flexible says whether the version has
// tagged fields in its header.
func parseHeader(w *wire, flexible func(key, version int16) bool) requestHeader {
	h := requestHeader{key: w.int16(), version: w.int16(), correlation: w.int32()}
	client, _ := w.text() // not compact, in any version
	h.clientID = string(client)
	w.flexible = flexible(h.key, h.version)
	w.tags()
	return h
}
