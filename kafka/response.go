package kafka

import (
	"encoding/binary"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// response is an answer: one buffer with everything, or, for fetched records, pieces
// of that buffer and the batches in turn.
type response struct {
	buf *buffer
	// batches and pieces are set for fetched records: pieces alias all buffers.
	batches []*buffer
	pieces  net.Buffers
	// held is response memory to give back.
	held int64
}

// beginResponse gives a buffer with room for the length and with the header.
func (c *conn) beginResponse(x *exchange, size int) *buffer {
	buf := c.s.buffers.get(max(size, 256))
	b := binary.BigEndian.AppendUint32(append(buf.b[:0], 0, 0, 0, 0), uint32(x.correlation))
	if x.key != keyAPIVersions && c.s.flexible(x.key, x.version) {
		b = append(b, 0)
	}
	buf.b = b
	return buf
}

// finish fills in the length of a response in one buffer.
func finish(buf *buffer) *response {
	binary.BigEndian.PutUint32(buf.b, uint32(len(buf.b)-frameLengthSize))
	return &response{buf: buf}
}

// reply is the response with a body of the codec's.
func (c *conn) reply(x *exchange, body kmsg.Response) *response {
	body.SetVersion(x.version)
	buf := c.beginResponse(x, 0)
	buf.b = body.AppendTo(buf.b)
	return finish(buf)
}

// write sends a response in parts, each with its own time.
func (c *conn) write(r *response) error {
	rest := r.pieces
	if rest == nil {
		rest = net.Buffers{r.buf.b}
	}
	for len(rest) > 0 {
		var part net.Buffers
		part, rest = cutPart(rest)
		if err := c.nc.SetWriteDeadline(time.Now().Add(c.s.cfg.WriteTimeout)); err != nil {
			return err
		}
		if _, err := part.WriteTo(c.nc); err != nil {
			return err
		}
	}
	return nil
}

// cutPart takes up to partSize bytes off the front of pieces, which it changes.
func cutPart(pieces net.Buffers) (part, rest net.Buffers) {
	room := partSize
	for i, p := range pieces {
		if len(p) > room {
			part = append(part, pieces[:i]...)
			if room > 0 {
				part = append(part, p[:room])
				pieces[i] = p[room:]
			}
			return part, pieces[i:]
		}
		room -= len(p)
	}
	return pieces, nil
}

func (c *conn) releaseResponse(r *response) {
	if r == nil {
		return
	}
	c.s.buffers.put(r.buf)
	for _, b := range r.batches {
		c.s.buffers.put(b)
	}
	c.s.responses.Give(r.held)
}

// keptFactor is what a small request that was read may still hold, per byte of it.
const keptFactor = 16

// decodeBody reads a request's body with the codec, which copies what it keeps, and
// gives back the memory that only reading might have taken.
func (c *conn) decodeBody(x *exchange, into kmsg.Request) error {
	into.SetVersion(x.version)
	if err := into.ReadFrom(x.body); err != nil {
		return &requestError{"a " + kmsg.NameForKey(x.key) + " request that cannot be read: " + err.Error()}
	}
	if over := x.frame.held - keptFactor*int64(len(x.frame.buf.b)); over > 0 {
		x.frame.held -= over
		c.s.requests.Give(over)
	}
	return nil
}
