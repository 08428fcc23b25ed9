package kafka

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// readCommitted is the isolation level of clients that leave out aborted
// transactions, of which there are none.
const readCommitted = 1

// The versions of Fetch that add something to a partition's answer.
const (
	fetchLogStart         = 5
	fetchPreferredReplica = 11
)

// fetchFailed answers a request whose session is not there, or is at another epoch.
func (c *conn) fetchFailed(x *exchange, result code) *response {
	out := kmsg.NewFetchResponse()
	out.ErrorCode = int16(result)
	return c.reply(x, &out)
}

// response gives the answer. An incremental one leaves out partitions of which there
// is nothing new to say.
func (f *fetchCall) response(x *exchange, r *kmsg.FetchRequest, s *session, incremental bool) *response {
	f.settle()
	said := f.parts
	if incremental {
		said = f.news()
	}
	buf := f.c.beginResponse(x, 64+len(said)*96)
	w := writer{b: buf.b, flexible: f.c.s.flexible(keyFetch, x.version)}
	w.int32(0) // throttle time
	if x.version >= fetchSessions {
		w.int16(int16(codeNone))
		id := int32(0)
		if s != nil {
			id = s.id
		}
		w.int32(id)
	}
	var cuts []cut
	topics := topicRuns(said)
	w.count(topics)
	for from := 0; from < len(said); {
		to := runEnd(said, from)
		w.text([]byte(said[from].topic))
		w.count(to - from)
		for _, p := range said[from:to] {
			cuts = append(cuts, f.appendPart(&w, p, x.version, r.IsolationLevel))
			p.answered = p.bounds
		}
		w.tags()
		from = to
	}
	w.tags()
	buf.b = w.b
	return f.assemble(buf, cuts)
}

// news are the partitions that an incremental answer names.
func (f *fetchCall) news() []*fetchPart {
	var said []*fetchPart
	for _, p := range f.parts {
		if p.err != nil || p.bytes > 0 || p.bounds != p.answered {
			said = append(said, p)
		}
	}
	return said
}

// topicRuns counts the topics that follow each other.
func topicRuns(parts []*fetchPart) int {
	n := 0
	for from := 0; from < len(parts); from = runEnd(parts, from) {
		n++
	}
	return n
}

// runEnd is where another topic begins.
func runEnd(parts []*fetchPart, from int) int {
	to := from + 1
	for to < len(parts) && parts[to].topic == parts[from].topic {
		to++
	}
	return to
}

// cut is a position of the answer's own buffer where a partition's records go.
type cut struct {
	at     int
	pieces [][]byte
}

func (f *fetchCall) appendPart(w *writer, p *fetchPart, version int16, isolation int8) cut {
	result := f.c.s.codeOf(p.err)
	w.int32(p.index)
	w.int16(int16(result))
	w.int64(p.next) // high watermark: what can be read is committed
	w.int64(p.next) // last stable offset
	if version >= fetchLogStart {
		w.int64(p.start)
	}
	if isolation == readCommitted {
		w.count(0)
	} else {
		w.nullCount()
	}
	if version >= fetchPreferredReplica {
		w.int32(-1)
	}
	pieces := p.pieces
	if result != codeNone {
		pieces = nil
	}
	size := 0
	for _, piece := range pieces {
		size += len(piece)
	}
	w.count(size) // the length of bytes is written like a count
	at := len(w.b)
	w.tags()
	return cut{at: at, pieces: pieces}
}

// assemble puts the answer's own bytes and the records together, without copying.
func (f *fetchCall) assemble(buf *buffer, cuts []cut) *response {
	out := &response{buf: buf, batches: f.batches, held: f.held}
	size, from := len(buf.b), 0
	for _, c := range cuts {
		if len(c.pieces) == 0 {
			continue
		}
		out.pieces = append(out.pieces, buf.b[from:c.at])
		from = c.at
		for _, p := range c.pieces {
			out.pieces = append(out.pieces, p)
			size += len(p)
		}
	}
	if out.pieces != nil && from < len(buf.b) {
		out.pieces = append(out.pieces, buf.b[from:])
	}
	binary.BigEndian.PutUint32(buf.b, uint32(size-frameLengthSize))
	return out
}
