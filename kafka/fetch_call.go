package kafka

import (
	"context"
	"time"

	"felix.local/felix/auth"
	"felix.local/felix/broker"
)

const (
	// fetchPageMax is how many payload bytes are read at a time, and so about how
	// large a batch gets.
	fetchPageMax = 1 << 20
	// recordOverhead is about what a record's fields take beside its bytes.
	recordOverhead = 24
)

// fetchCall is a Fetch under way.
type fetchCall struct {
	c                  *conn
	parts              []*fetchPart
	streams            []*broker.Stream // by part, nil where there is none
	bytesMax, bytesMin int
	wait               time.Duration

	// batches are those of all partitions; total is how many bytes, count how many
	// records.
	batches      []*buffer
	total, count int
	// asked is what the partitions' bounds come to, held what is accounted for.
	asked, held int64
	failed      bool
	// full says that there are records for which there is no room, in the bounds or in
	// memory: waiting would bring nothing.
	full bool
}

// run reads until there is enough, something failed, or the time is over.
func (f *fetchCall) run() {
	f.find()
	f.round()
	if !f.enough() && f.wait > 0 {
		f.poll()
	}
	f.c.s.stats.fetchedRecords.Add(uint64(f.count))
	f.c.s.stats.fetchedBytes.Add(uint64(f.total))
}

func (f *fetchCall) enough() bool {
	return f.failed || f.full || len(f.parts) == 0 || f.total >= f.bytesMin
}

// find looks up the streams, and what may be said without reading them.
func (f *fetchCall) find() {
	f.streams = make([]*broker.Stream, len(f.parts))
	var last string
	var stream *broker.Stream
	var err error
	for i, p := range f.parts {
		if i == 0 || p.topic != last {
			last = p.topic
			stream, err = f.c.stream(p.topic, auth.Read)
		}
		p.found = found{bounds: bounds{start: -1, next: -1}, err: err}
		switch {
		case err != nil:
		case p.offset < 0:
			p.err = refuse(codeOffsetOutOfRange, "an offset below zero")
		default:
			p.position = uint64(p.offset)
			f.streams[i] = stream
		}
		f.failed = f.failed || p.err != nil
		f.asked += int64(max(p.bytesMax, 0))
	}
}

// poll waits for records, and reads what is new at every change.
func (f *fetchCall) poll() {
	watch := f.c.s.cfg.Broker.NewWatch()
	defer watch.Close()
	for i, p := range f.parts {
		if stream := f.streams[i]; stream != nil {
			if err := watch.Add(stream, int(p.index)); err != nil {
				f.fail(p, err)
			}
		}
	}
	timer := time.NewTimer(f.wait)
	defer timer.Stop()
	for {
		// What came between the first look and the watch has to be seen.
		f.round()
		if f.enough() {
			return
		}
		f.settle()
		select {
		case <-watch.C:
		case <-timer.C:
			return
		case <-f.c.ctx.Done():
			return
		}
	}
}

// round reads what is there beyond what was read.
func (f *fetchCall) round() {
	for i, p := range f.parts {
		if p.err == nil && f.streams[i] != nil {
			f.read(p, f.streams[i])
		}
	}
}

// read appends a partition's records while the bounds allow it.
func (f *fetchCall) read(p *fetchPart, stream *broker.Stream) {
	info, known, err := f.admit(p, stream)
	if err != nil {
		f.fail(p, err)
		return
	}
	for p.position != info.Next {
		budget := min(f.bytesMax-f.total, int(p.bytesMax)-p.bytes)
		must := f.total == 0
		if budget <= batchHeaderSize && !must {
			f.full = true
			return
		}
		if !f.reserve() {
			return
		}
		page, err := stream.Read(f.c.ctx, int(p.index), p.position, int64(min(max(budget, 1), fetchPageMax)), 0)
		if err == nil && page.Continue > info.Next { // the page knows more than the epochs
			known, err = epochsOf(stream, int(p.index))
		}
		if err != nil {
			if p.bytes == 0 && f.c.ctx.Err() == nil {
				f.fail(p, err)
			}
			return
		}
		switch {
		case len(page.Records) == 0 && page.Continue > p.position:
			f.pass(p, page.Continue, known)
		case !f.append(p, page.Records, known, budget, must):
			return
		}
	}
}

// admit says where a partition's records stand, and of which generations they are, or
// why the client gets none of them.
func (f *fetchCall) admit(p *fetchPart, stream *broker.Stream) (info broker.ShardInfo, known epochs, err error) {
	if info, err = stream.Shard(int(p.index)); err != nil {
		return info, known, err
	}
	if err := f.c.allow(stream.Name(), auth.Read); err != nil { // a grant may end while a fetch waits
		return info, known, err
	}
	if info.State == broker.StateRefused {
		return info, known, unavailable(stream, info)
	}
	if !p.admitted || p.position != info.Next {
		// Again when there is news, which may be another leader's.
		if known, err = epochsFor(stream, int(p.index), p.epoch); err != nil {
			return info, known, err
		}
		p.admitted = true
	}
	p.start, p.next = int64(info.Base), int64(info.Next)
	if p.position == info.Next && info.State == broker.StatePoisoned && p.bytes == 0 {
		return info, known, unavailable(stream, info)
	}
	return info, known, nil
}

// append encodes records into batches, and says whether all of them fitted.
func (f *fetchCall) append(p *fetchPart, records []broker.Record, known epochs, budget int, must bool) bool {
	if len(records) == 0 {
		return false
	}
	size := batchHeaderSize
	for i := range records {
		size += len(records[i].Key) + len(records[i].Value) + recordOverhead
	}
	buf := f.c.s.buffers.get(size)
	out, taken := appendBatches(buf.b[:0], records, known, budget, must)
	buf.b = out
	f.full = f.full || taken < len(records)
	if taken == 0 {
		f.c.s.buffers.put(buf)
		return false
	}
	f.take(p, buf, records[taken-1].Offset+1)
	f.count += taken
	return taken == len(records)
}

// pass takes a client over offsets before next that hold no records. Without it a
// client would wait for ever in front of what starts a generation at the log's end.
func (f *fetchCall) pass(p *fetchPart, next uint64, known epochs) {
	buf := f.c.s.buffers.get(batchHeaderSize)
	buf.b, next = appendGap(buf.b[:0], p.position, next, known)
	f.take(p, buf, next)
}

// take adds batches to a partition's, which end before position.
func (f *fetchCall) take(p *fetchPart, buf *buffer, position uint64) {
	f.batches = append(f.batches, buf)
	p.pieces = append(p.pieces, buf.b)
	p.bytes += len(buf.b)
	p.position = position
	f.total += len(buf.b)
}

// reserve takes memory for the rest of the answer, before the first record of it is
// read. Only a fetch that holds nothing waits for it.
func (f *fetchCall) reserve() bool {
	want := min(max(f.asked, 1), int64(max(f.bytesMax, 1))) - f.held
	if want <= 0 {
		return true
	}
	if f.held > 0 {
		if !f.c.s.responses.TryTake(want) {
			f.full = true
			return false
		}
		f.held += want
		return true
	}
	ctx, cancel := context.WithTimeout(f.c.ctx, f.c.s.cfg.RequestTimeout)
	defer cancel()
	held, err := f.c.s.responses.Take(ctx, want)
	f.held = held
	f.full = err != nil
	return err == nil
}

// settle makes what is accounted for what is there: less than was reserved, or, with
// one record above all bounds, more.
func (f *fetchCall) settle() {
	if over := f.held - int64(f.total); over > 0 {
		f.c.s.responses.Give(over)
	} else {
		f.c.s.responses.Add(-over)
	}
	f.held = int64(f.total)
}

func (f *fetchCall) fail(p *fetchPart, err error) {
	p.err = err
	f.failed = true
}

func unavailable(stream *broker.Stream, info broker.ShardInfo) error {
	return &broker.UnavailableError{Stream: stream.Name(), Shard: info.Shard, State: info.State, Err: info.Reason}
}
