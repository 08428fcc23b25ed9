package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"felix.local/felix/auth"
	"felix.local/felix/broker"
)

// putStream creates a stream, or brings an existing one's shards and retention up to
// the definition.
func (s *Server) putStream(x *exchange) error {
	if _, err := x.query(); err != nil {
		return err
	}
	if err := jsonBody(x.r); err != nil {
		return err
	}
	body, err := x.readBody(definitionBytesMax)
	if err != nil {
		return err
	}
	defer body.release()
	cfg, err := parseDefinition(body.bytes)
	if err != nil {
		return err
	}
	stream, created, err := s.broker.CreateStream(x.r.Context(), x.name, cfg)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
		x.header().Set("Location", "/v1/streams/"+x.name.String())
	}
	return x.answer(status, describe(stream.Info(), true))
}

// jsonBody refuses bodies that say they are something else than JSON. A form is what
// curl calls a body when it is not told.
func jsonBody(r *http.Request) error {
	media, err := mediaType(r)
	if err != nil {
		return err
	}
	switch media {
	case "", "application/json", "application/x-www-form-urlencoded":
		return plainBody(r)
	}
	return unsupportedMedia("the body is "+short(media), "send application/json")
}

// getStream describes a stream with its shards.
func (s *Server) getStream(x *exchange) error {
	if _, err := x.query(); err != nil {
		return err
	}
	stream, err := s.broker.Stream(x.name)
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, describe(stream.Info(), true))
}

// deleteStream removes a stream and its records.
func (s *Server) deleteStream(x *exchange) error {
	if _, err := x.query(); err != nil {
		return err
	}
	if err := s.broker.DeleteStream(x.r.Context(), x.name); err != nil {
		return err
	}
	x.begun(http.StatusNoContent)
	return nil
}

// The bounds of a page of the list.
const (
	listDefault = 100
	listMax     = 1000
)

// listJSON is one page of streams.
type listJSON struct {
	Streams []streamJSON `json:"streams"`
	// After is what the next page is asked with; absent on the last.
	After string `json:"after,omitempty"`
}

// listStreams gives a page of the streams that the principal may read, by name.
func (s *Server) listStreams(x *exchange) error {
	q, err := x.query("limit", "after")
	if err != nil {
		return err
	}
	limit, err := q.number("limit", 1, listMax, listDefault)
	if err != nil {
		return err
	}
	after, err := q.after()
	if err != nil {
		return err
	}
	page := listJSON{Streams: []streamJSON{}}
	for _, info := range s.sorted() {
		if compareNames(info.Name, after) <= 0 || !x.principal.Allows(auth.Read, info.Name.Tenant) {
			continue
		}
		if len(page.Streams) == int(limit) {
			last := page.Streams[len(page.Streams)-1]
			page.After = last.Tenant + "/" + last.Namespace + "/" + last.Stream
			break
		}
		page.Streams = append(page.Streams, describe(info, false))
	}
	return x.answer(http.StatusOK, page)
}

// after reads the name that a page begins behind.
func (q query) after() (broker.StreamName, error) {
	if !q.has("after") {
		return broker.StreamName{}, nil
	}
	// No valid name is asked for: that of a stream whose definition cannot be read may
	// be none. It is only compared.
	parts := strings.Split(q.text("after"), "/")
	if len(parts) != 3 {
		return broker.StreamName{}, badParameter("after", "after="+short(q.text("after"))+" is not tenant/namespace/stream",
			"give what the page before had as after")
	}
	return broker.StreamName{Tenant: parts[0], Namespace: parts[1], Stream: parts[2]}, nil
}

// sorted gives all streams by name, each name part compared by itself.
func (s *Server) sorted() []broker.StreamInfo {
	streams := s.broker.Streams()
	slices.SortFunc(streams, func(a, b broker.StreamInfo) int { return compareNames(a.Name, b.Name) })
	return streams
}

func compareNames(a, b broker.StreamName) int {
	if c := strings.Compare(a.Tenant, b.Tenant); c != 0 {
		return c
	}
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(a.Stream, b.Stream)
}

// retentionJSON says what a pass removed.
type retentionJSON struct {
	Segments    int      `json:"segments"`
	Bytes       int64    `json:"bytes"`
	BaseOffsets []uint64 `json:"base_offsets"`
}

// enforceRetention makes one pass now.
func (s *Server) enforceRetention(x *exchange) error {
	if _, err := x.query(); err != nil {
		return err
	}
	stream, err := s.broker.Stream(x.name)
	if err != nil {
		return err
	}
	result, err := stream.EnforceRetention(x.r.Context())
	if err != nil {
		return err
	}
	bases := append([]uint64{}, result.Bases...)
	return x.answer(http.StatusOK, retentionJSON{Segments: result.Segments, Bytes: result.Bytes, BaseOffsets: bases})
}
