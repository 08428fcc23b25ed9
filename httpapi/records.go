package httpapi

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"

	"felix.local/felix/broker"
)

// The headers of a range read.
const (
	headerBase      = "Felix-Base-Offset"
	headerNext      = "Felix-Next-Offset"
	headerContinue  = "Felix-Continue-Offset"
	headerOffset    = "Felix-Offset"
	headerTimestamp = "Felix-Timestamp-Micros"
	headerKey       = "Felix-Key-Base64"
	headerNull      = "Felix-Null"
)

// rangeRead is what a range read asks for.
type rangeRead struct {
	stream     *broker.Stream
	shard      int
	start      broker.Start
	maxBytes   int64
	maxRecords int
	media      string
}

// readRecords gives one page of records.
func (s *Server) readRecords(x *exchange) error {
	read, err := x.rangeRead()
	if err != nil {
		return err
	}
	h := x.hold()
	defer h.release()
	if err := h.resize(read.maxBytes); err != nil {
		return err
	}
	page, err := x.page(read)
	if err != nil {
		return err
	}
	if err := h.resize(pageBytes(page.Records)); err != nil {
		return err
	}
	header := x.header()
	header.Set("Cache-Control", "no-store")
	header.Set(headerBase, strconv.FormatUint(page.Base, 10))
	header.Set(headerNext, strconv.FormatUint(page.Next, 10))
	if read.media == mediaBytes {
		return x.payload(page)
	}
	return x.lines(read.shard, page)
}

func (x *exchange) rangeRead() (read rangeRead, err error) {
	cfg := &x.server.cfg
	if read.media, err = choose(x.r, mediaNDJSON, mediaBytes); err != nil {
		return read, err
	}
	q, err := x.query("shard", "from", "max_bytes", "max_records")
	if err != nil {
		return read, err
	}
	if read.maxBytes, err = q.number("max_bytes", 1, cfg.PageBytesMax, cfg.PageBytes); err != nil {
		return read, err
	}
	records := int64(cfg.PageRecordsMax)
	if read.media == mediaBytes {
		records = 1
	}
	if records, err = q.number("max_records", 1, records, records); err != nil {
		return read, err
	}
	read.maxRecords = int(records)
	if read.start, err = q.start(broker.Earliest()); err != nil {
		return read, err
	}
	if read.stream, err = x.server.broker.Stream(x.name); err != nil {
		return read, err
	}
	read.shard, err = q.shard(read.stream)
	return read, err
}

// page reads. Where the start is no offset, retention may take the record found
// before it is read; then it is looked for again, a bounded number of times.
func (x *exchange) page(read rangeRead) (page broker.Page, err error) {
	for range 3 {
		from, resolveErr := read.stream.Resolve(x.r.Context(), read.shard, read.start)
		if resolveErr != nil {
			return page, resolveErr
		}
		page, err = read.stream.Read(x.r.Context(), read.shard, from, read.maxBytes, read.maxRecords)
		if err == nil || !errors.As(err, new(*broker.CursorTooOldError)) || read.start == broker.AtOffset(from) {
			break
		}
	}
	return page, err
}

// lines answers with a page as NDJSON.
func (x *exchange) lines(shard int, page broker.Page) error {
	x.header().Set(headerContinue, strconv.FormatUint(page.Continue, 10))
	x.header().Set("Content-Type", mediaNDJSON)
	x.begun(http.StatusOK)
	out := x.server.output(x)
	defer out.done(x.server)
	for i := range page.Records {
		out.record(shard, &page.Records[i])
		out.raw("\n")
		if out.err != nil {
			break
		}
	}
	return out.flush()
}

// payload answers with the one record of a page as it is, or with 204.
func (x *exchange) payload(page broker.Page) error {
	header := x.header()
	header.Set(headerContinue, strconv.FormatUint(page.Continue, 10))
	if len(page.Records) == 0 {
		x.begun(http.StatusNoContent)
		return nil
	}
	record := &page.Records[0]
	header.Set(headerOffset, strconv.FormatUint(record.Offset, 10))
	header.Set(headerTimestamp, strconv.FormatUint(record.TimestampMicros, 10))
	if record.Key != nil {
		header.Set(headerKey, base64.StdEncoding.EncodeToString(record.Key))
	}
	if record.Value == nil {
		header.Set(headerNull, "true")
	}
	header.Set("Content-Type", mediaBytes)
	header.Set("Content-Length", strconv.Itoa(len(record.Value)))
	x.begun(http.StatusOK)
	return x.writePieces(record.Value)
}

// writePieces writes in pieces that WriteTimeout is meant for.
func (x *exchange) writePieces(data []byte) error {
	for len(data) > 0 {
		n := min(len(data), outputBytes)
		if _, err := x.Write(data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// deletedJSON answers a deletion of records.
type deletedJSON struct {
	Shard      int    `json:"shard"`
	BaseOffset uint64 `json:"base_offset"`
}

// deleteRecords makes everything below an offset unreadable.
func (s *Server) deleteRecords(x *exchange) error {
	q, err := x.query("shard", "before")
	if err != nil {
		return err
	}
	if !q.has("before") {
		return badParameter("before", "before is missing", "give the first offset to keep")
	}
	before, err := q.uint64("before")
	if err != nil {
		return err
	}
	stream, err := s.broker.Stream(x.name)
	if err != nil {
		return err
	}
	shard, err := q.shard(stream)
	if err != nil {
		return err
	}
	oldest, err := stream.DeleteRecords(x.r.Context(), shard, before)
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, deletedJSON{Shard: shard, BaseOffset: oldest})
}
