package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"felix.local/felix/broker"
)

const (
	// resumeBackoffMin and resumeBackoffMax bound the wait before another attempt to
	// subscribe; each is twice the one before, and records reset it.
	resumeBackoffMin = 100 * time.Millisecond
	resumeBackoffMax = 10 * time.Second
	// feedSilenceMax ends a connection that brings not even a heartbeat.
	feedSilenceMax = time.Minute
	// feedLineMax bounds a line of the feed: a record of the largest size in base64,
	// with its key and headers.
	feedLineMax = 128 << 20
)

// subscriber is given what a subscription brings; an error of it ends that.
type subscriber interface {
	// started is told once where the subscription begins.
	started(offset uint64) error
	record(feedRecord) error
	missed(missedEvent) error
	// pause is called when nothing more has arrived.
	pause() error
}

// subscription follows one shard of a server over as many connections as it takes:
// every record exactly once, in order, or an error.
type subscription struct {
	client *client
	name   broker.StreamName
	// shard is nil as long as neither the caller nor the server has named it: a
	// server names the only one, and refuses where there are several. Shards that are
	// added later change nothing for a subscription that has begun.
	shard    *int
	from     string
	whenFull string
	// last is the offset that was delivered last, nil as long as there is none.
	last *uint64
	// start is where it begins, nil as long as the server has not said so.
	start *uint64
	// warn is told why a connection ended that is made again.
	warn func(string)
	// progressed says that the present connection brought something.
	progressed bool
}

// localError is an error of the subscriber's own: connecting again would not help.
type localError struct{ error }

func (e localError) Unwrap() error { return e.error }

// run delivers until ctx ends, the subscriber has enough, or going on is impossible.
func (s *subscription) run(ctx context.Context, to subscriber) error {
	wait, before := resumeBackoffMin, ""
	for {
		s.progressed = false
		err := s.connect(ctx, to)
		var local localError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &local):
			return local.error
		case !mayPass(err) || s.refused(ctx, err):
			return err
		}
		if s.progressed {
			wait, before = resumeBackoffMin, ""
		}
		// Many clients of one server must not come back all at once.
		pause := wait/2 + rand.N(wait/2)
		why := oneLine(err)
		if why == before {
			why = "as before" // a reason may be long
		} else {
			before = why
		}
		s.warn(fmt.Sprintf("%s; connecting again in %v", why, pause.Round(time.Millisecond)))
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
		wait = min(2*wait, resumeBackoffMax)
	}
}

// codeUnavailable is what a server answers about a shard that does not serve.
const codeUnavailable = "unavailable"

// mayPass says whether trying again may help.
func mayPass(err error) bool {
	var answered *serverError
	if !errors.As(err, &answered) {
		return true // the connection, or what is between
	}
	if answered.Status != 0 {
		return slices.Contains([]int{
			http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
		}, answered.Status)
	}
	return slices.Contains([]string{"closing", codeUnavailable, "storage_error", "back_pressure", "busy"}, answered.Code)
}

// refused says that the shard, or the stream as a whole, does not serve before somebody
// mends its files: every further answer would be the same. The code of the answer does not
// say that, since a poisoned shard has it too, which the next start may well serve.
func (s *subscription) refused(ctx context.Context, err error) bool {
	var answered *serverError
	if !errors.As(err, &answered) || answered.Code != codeUnavailable {
		return false
	}
	var stream streamDocument
	if err := s.client.json(ctx, request{method: http.MethodGet, path: streamPath(s.name)}, &stream); err != nil {
		var described *serverError
		return errors.As(err, &described) && described.Code == codeUnavailable // its definition cannot be read
	}
	shard := 0
	if s.shard != nil {
		shard = *s.shard
	}
	return stream.Error != "" || slices.ContainsFunc(stream.ShardList, func(d shardDocument) bool {
		return d.Shard == shard && d.State == broker.StateRefused.String()
	})
}

// connect subscribes once, from where the last connection ended.
func (s *subscription) connect(ctx context.Context, to subscriber) (err error) {
	query := url.Values{}
	if s.shard != nil {
		query.Set("shard", strconv.Itoa(*s.shard))
	}
	header := http.Header{"Accept": {"application/x-ndjson"}}
	if s.whenFull != "" {
		query.Set("when_full", s.whenFull)
	}
	switch {
	case s.last != nil:
		header.Set("Last-Event-ID", strconv.FormatUint(*s.last, 10))
	case s.start != nil:
		query.Set("from", strconv.FormatUint(*s.start, 10))
	default:
		query.Set("from", s.from)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answer, err := s.client.do(ctx, request{method: http.MethodGet, path: streamPath(s.name, "subscribe"), query: query, header: header})
	if err != nil {
		return missing(err, s.name)
	}
	defer answer.Body.Close()
	silence := time.AfterFunc(feedSilenceMax, cancel)
	defer silence.Stop()
	lines := bufio.NewReaderSize(answer.Body, 64<<10)
	for {
		line, err := readFeedLine(lines)
		if err != nil {
			return fmt.Errorf("the connection to %s ended: %w", s.client.base.Host, err)
		}
		silence.Reset(feedSilenceMax)
		if err := s.line(line, to); err != nil {
			return err
		}
		if !bufferedLine(lines) {
			if err := to.pause(); err != nil {
				return localError{err}
			}
		}
	}
}

func readFeedLine(lines *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		piece, err := lines.ReadSlice('\n')
		line = append(line, piece...)
		switch {
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			if errors.Is(err, io.EOF) && len(line) > 0 {
				err = io.ErrUnexpectedEOF // half a line is no record
			}
			return nil, err
		case len(line) > feedLineMax:
			return nil, localError{fmt.Errorf("a line of the feed has more than %d bytes", feedLineMax)}
		}
	}
}

// feedLine is any line of the feed: a record, or what Event names.
type feedLine struct {
	Event string `json:"event"`
	feedRecord
	StartOffset uint64        `json:"start_offset"`
	First       uint64        `json:"first"`
	Last        uint64        `json:"last"`
	Error       errorDocument `json:"error"`
}

// line delivers one line.
func (s *subscription) line(text []byte, to subscriber) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	var line feedLine
	if err := json.Unmarshal(text, &line); err != nil {
		return fmt.Errorf("the feed cannot be read: %w", err)
	}
	switch line.Event {
	case "":
		if err := s.due(line.Offset); err != nil {
			return err
		}
		s.delivered(line.Offset)
		return local(to.record(line.feedRecord))
	case "subscribed":
		if next, known := s.next(); known && line.StartOffset != next {
			return localError{fmt.Errorf("the server begins at offset %d where %d was asked for", line.StartOffset, next)}
		}
		if s.shard == nil {
			s.shard = &line.Shard
		}
		if s.start == nil {
			s.start = &line.StartOffset
			return local(to.started(line.StartOffset))
		}
		return nil
	case "missed":
		if err := s.due(line.First); err != nil {
			return err
		}
		s.delivered(line.Last)
		return local(to.missed(missedEvent{Shard: line.Shard, First: line.First, Last: line.Last}))
	case "closing", "error":
		return line.Error.serverError(0)
	default: // heartbeats, and what later servers may have to say
		return nil
	}
}

func local(err error) error {
	if err == nil {
		return nil
	}
	return localError{err}
}

// next is the offset that is due, once that is known.
func (s *subscription) next() (offset uint64, known bool) {
	switch {
	case s.last != nil:
		return *s.last + 1, true
	case s.start != nil:
		return *s.start, true
	default:
		return 0, false
	}
}

// due refuses an offset that is not the next one: a hole must not go unnoticed.
func (s *subscription) due(offset uint64) error {
	if next, known := s.next(); known && offset != next {
		return localError{fmt.Errorf("the server sent offset %d where %d was due", offset, next)}
	}
	return nil
}

func (s *subscription) delivered(offset uint64) {
	s.last = &offset
	s.progressed = true
}
