package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"felix.local/felix/auth"
	"felix.local/felix/broker"
)

// putStream creates a stream, or brings an existing one's shards and retention up to
// what the definition asks for.
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
	d, err := parseDefinition(body.bytes)
	if err != nil {
		return err
	}
	stream, created, err := s.define(x.r.Context(), x.name, d)
	if err != nil {
		return tooManyShards(s.unfinished(x.name, err))
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
		x.header().Set("Location", "/v1/streams/"+x.name.String())
	}
	return x.answer(status, describe(stream.Info(), true))
}

// define creates a stream, or changes what is asked for of one that exists; what is not
// asked for stays as it is.
func (s *Server) define(ctx context.Context, name broker.StreamName, d definition) (*broker.Stream, bool, error) {
	cfg := d.config
	if existing, err := s.broker.Stream(name); err == nil {
		has := existing.Config()
		if !d.asks(asksFormat) {
			cfg.Format = has.Format
		}
		if !d.asks(asksDurable) && !has.Durable {
			return existing, false, growInMemory(ctx, existing, d)
		}
	}
	return s.broker.CreateStream(ctx, name, cfg)
}

// growInMemory changes an in-memory stream that the definition does not call one. Should
// the stream be deleted meanwhile, none that holds its records in memory comes to be:
// nobody asked for that.
func growInMemory(ctx context.Context, existing *broker.Stream, d definition) error {
	switch {
	case d.asks(asksFsync | asksRetentionBytes | asksRetentionSeconds):
		return &broker.InvalidError{Stream: existing.Name().String(), Problem: "fsync and retention are for durable streams, and it is in memory"}
	case d.asks(asksFormat) && d.config.Format != existing.Config().Format:
		return &broker.ConflictError{
			Stream: existing.Name(), Field: "format", Has: existing.Config().Format.String(), Asked: d.config.Format.String(),
		}
	case !d.asks(asksShards) || d.config.Shards == existing.Shards():
		return existing.Info().Err
	}
	return existing.Grow(ctx, d.config.Shards)
}

// tooManyShards says what to do about the only size of a definition that the broker bounds.
func tooManyShards(err error) error {
	var large *broker.TooLargeError
	if !errors.As(err, &large) {
		return err
	}
	return &requestError{problem{
		status: http.StatusRequestEntityTooLarge, code: codeTooLarge,
		message: err.Error(), action: fmt.Sprintf("ask for at most %d shards, or have FELIX_SHARDS_MAX raised", large.Max),
		more: map[string]any{"size": large.Size, "max": large.Max},
	}}
}

// unfinished says of a stream that is called deleted, and still there, that its deletion
// is not finished.
func (s *Server) unfinished(name broker.StreamName, err error) error {
	var deleted *broker.DeletedError
	if !errors.As(err, &deleted) {
		return err
	}
	if stream, at := s.broker.Stream(name); at == nil && errors.As(stream.Info().Err, new(*broker.UnfinishedError)) {
		return stream.Info().Err
	}
	return err
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
