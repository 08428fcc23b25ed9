package httpapi

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"felix.local/felix/broker"
)

// query is the parameters of a request, each there once and known to the route.
type query struct{ values url.Values }

// parseQuery reads a raw query. A parameter that the route does not know is refused:
// a misspelt one would silently mean its default.
func parseQuery(raw string, known ...string) (query, error) {
	if raw == "" {
		return query{}, nil
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return query{}, badRequest(codeInvalidParameter, "the query cannot be read: "+short(err.Error()), "percent-encode it")
	}
	for name, all := range values {
		if !slices.Contains(known, name) {
			return query{}, badParameter(short(name), fmt.Sprintf("there is no parameter %q here", short(name)), knownParameters(known))
		}
		if len(all) > 1 {
			return query{}, badParameter(name, name+" is there more than once", "give it once")
		}
	}
	return query{values: values}, nil
}

func knownParameters(known []string) string {
	if len(known) == 0 {
		return "send no parameters"
	}
	return "use " + strings.Join(known, ", ")
}

// query parses the request's parameters.
func (x *exchange) query(known ...string) (query, error) {
	return parseQuery(x.r.URL.RawQuery, known...)
}

func (q query) has(name string) bool       { return q.values.Has(name) }
func (q query) text(name string) string    { return q.values.Get(name) }
func (q query) bytes(name string) []byte   { return []byte(q.values.Get(name)) }
func (q query) is(name, value string) bool { return q.values.Get(name) == value }
func (q query) uint64(name string) (uint64, error) {
	return parseUint(name, q.text(name), ^uint64(0))
}

// number gives a whole number from min to max, or standard when it is not there.
func (q query) number(name string, min, max, standard int64) (int64, error) {
	if !q.has(name) {
		return standard, nil
	}
	n, err := parseUint(name, q.text(name), uint64(max))
	if err == nil && int64(n) < min {
		err = badParameter(name, fmt.Sprintf("%s is %d", name, n), fmt.Sprintf("give at least %d", min))
	}
	return int64(n), err
}

func parseUint(name, text string, max uint64) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n > max {
		return 0, badParameter(name, fmt.Sprintf("%s=%s is no number that fits", name, short(text)),
			fmt.Sprintf("give a whole number, at most %d", max))
	}
	return n, nil
}

// shard gives the shard that a read is about. It need not be named where there is
// only one.
func (q query) shard(stream *broker.Stream) (int, error) {
	if !q.has("shard") {
		if n := stream.Shards(); n > 1 {
			return 0, badParameter("shard", fmt.Sprintf("the stream has %d shards", n), fmt.Sprintf("name one, shard=0 to shard=%d", n-1))
		}
		return 0, nil
	}
	return q.explicitShard()
}

func (q query) explicitShard() (int, error) {
	n, err := parseUint("shard", q.text("shard"), 1<<31-1)
	return int(n), err
}

// start reads the parameter from, or gives standard when it is not there.
func (q query) start(standard broker.Start) (broker.Start, error) {
	if !q.has("from") {
		return standard, nil
	}
	return parseStart(q.text("from"))
}

// parseStart reads earliest, latest, an offset, or @ and a time.
func parseStart(text string) (broker.Start, error) {
	switch text {
	case "earliest":
		return broker.Earliest(), nil
	case "latest":
		return broker.Latest(), nil
	}
	if when, isTime := strings.CutPrefix(text, "@"); isTime {
		micros, err := parseTime(when)
		return broker.AtTime(micros), err
	}
	offset, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return broker.Start{}, badParameter("from", fmt.Sprintf("from=%s names no place", short(text)),
			"use earliest, latest, an offset, or @ and a time: RFC 3339 or microseconds since 1970")
	}
	return broker.AtOffset(offset), nil
}

// parseTime reads RFC 3339 or microseconds since 1970.
func parseTime(text string) (uint64, error) {
	if micros, err := strconv.ParseUint(text, 10, 64); err == nil {
		return micros, nil
	}
	// The + of a zone is a space in a query that was not percent-encoded.
	at, err := time.Parse(time.RFC3339Nano, strings.Replace(text, " ", "+", 1))
	if err != nil || at.UnixMicro() < 0 {
		return 0, badParameter("from", fmt.Sprintf("@%s is no time since 1970", short(text)),
			"write it as 2026-01-31T12:00:00Z, or in microseconds since 1970")
	}
	return uint64(at.UnixMicro()), nil
}
