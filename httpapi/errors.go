package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"

	"felix.local/felix/auth"
	"felix.local/felix/broker"
	"felix.local/felix/engine"
)

// errorRow says what a client is told about one type of error.
type errorRow struct {
	kind reflect.Type
	// fill gives the details of an error of that type; its message is filled in already.
	fill func(err error, p *problem)
	base problem
	// wrapper: a row further inside, if there is one, says more.
	wrapper bool
}

// row makes a table row for errors of type E.
func row[E error](status int, code, action string, fill func(err E, p *problem)) errorRow {
	r := errorRow{kind: reflect.TypeFor[E](), base: problem{status: status, code: code, action: action}}
	if fill != nil {
		r.fill = func(err error, p *problem) { fill(err.(E), p) }
	}
	return r
}

func (r errorRow) retry(seconds int) errorRow {
	r.base.retrySeconds = seconds
	return r
}

func (r errorRow) wrapping() errorRow {
	r.wrapper = true
	return r
}

// Codes that more than one row has.
const (
	codeCursorTooOld   = "cursor_too_old"
	codeUnavailable    = "unavailable"
	codeStorageError   = "storage_error"
	codeStorageFull    = "storage_full"
	codeClosing        = "closing"
	codeUnknownOutcome = "unknown_outcome"
)

// How long clients are told to wait.
const (
	retrySoon  = 1  // something that passes by itself
	retryLater = 10 // something that somebody has to do
)

const (
	actionFull        = "nothing was appended; make room, or let retention do it"
	actionUnknown     = "the records may still become durable; read from first_offset before sending them again"
	actionUnavailable = "see the reason; the server's operator has to act, and other shards serve"
	actionElsewhere   = "another server leads the shard; publish there"
	actionTooOld      = "go on from oldest, or from=earliest; what was before is gone"
)

// errorTable lists every error type that a request can meet.
func errorTable() []errorRow {
	return append(append(brokerErrors(), engineErrors()...), authErrors()...)
}

func brokerErrors() []errorRow {
	return []errorRow{
		row(http.StatusBadRequest, codeInvalidName, "use 1 to 128 letters, digits, '-' and '_' for each part of the name",
			func(e *broker.NameError, p *problem) { p.set("part", e.Part) }),
		row[*broker.NotFoundError](http.StatusNotFound, "stream_not_found", "create it with PUT", nil),
		row(http.StatusNotFound, "no_such_shard", "name a shard that there is",
			func(e *broker.NoShardError, p *problem) { p.set("shard", e.Shard); p.set("shards", e.Shards) }),
		row(http.StatusConflict, "conflict", "leave the field out, or give it as the stream has it",
			func(e *broker.ConflictError, p *problem) {
				p.set("field", e.Field)
				p.set("has", e.Has)
				p.set("asked", e.Asked)
				if e.Field == "shards" {
					p.action = fmt.Sprintf("the number of shards may grow, not shrink: leave the field out, or give at least %s", e.Has)
				}
			}),
		row[*broker.NoStorageError](http.StatusConflict, "no_storage",
			`create the stream with "durable": false, or give the server a storage directory`, nil),
		row[*broker.InvalidError](http.StatusBadRequest, codeInvalidRequest, "see the message", nil),
		row(http.StatusRequestEntityTooLarge, codeTooLarge, "send less at a time; nothing was appended",
			func(e *broker.TooLargeError, p *problem) { p.set("size", e.Size); p.set("max", e.Max) }),
		row(http.StatusTooManyRequests, "limit_reached", "give up what is no longer needed, or raise the limit",
			func(e *broker.LimitError, p *problem) { p.set("limit", e.What); p.set("max", e.Max) }).retry(retryLater),
		row(http.StatusTooManyRequests, "memory_full", "nothing was appended; try again when slow subscriptions to in-memory streams have gone on",
			func(e *broker.MemoryError, p *problem) { p.set("max", e.Max) }).retry(retrySoon),
		row[*broker.FormatError](http.StatusBadRequest, codeInvalidFormat, "create a stream with format kafka for this", nil),
		row(http.StatusGone, codeCursorTooOld, actionTooOld,
			func(e *broker.CursorTooOldError, p *problem) {
				p.set("requested", e.Requested)
				p.set("oldest", e.Oldest)
			}),
		row(http.StatusRequestedRangeNotSatisfiable, "cursor_in_future", "ask for an offset up to next",
			func(e *broker.CursorInFutureError, p *problem) {
				p.set("requested", e.Requested)
				p.set("next", e.Next)
			}),
		row(http.StatusServiceUnavailable, codeUnavailable, actionUnavailable,
			func(e *broker.UnavailableError, p *problem) {
				p.set("state", e.State.String())
				p.set("shard", e.Shard)
				p.set("reason", fmt.Sprint(e.Err))
			}).retry(retryLater),
		row(http.StatusTooManyRequests, codeBackPressure, "a slow subscription with when_full=block holds publishers back; nothing was appended; try again",
			func(e *broker.BlockedError, p *problem) { p.set("shard", e.Shard) }).retry(retrySoon),
		row[*broker.DefinitionError](http.StatusServiceUnavailable, codeStorageError, "see the message; the server's operator has to act", nil).
			retry(retryLater).wrapping(),
		row(http.StatusInternalServerError, "unreadable_record", "read on from the offset after it",
			func(e *broker.EnvelopeError, p *problem) { p.set("shard", e.Shard); p.set("offset", e.Offset) }),
		row[*broker.DeletedError](http.StatusNotFound, "deleted", "create the stream again if it is needed", nil),
		row[*broker.UnfinishedError](http.StatusServiceUnavailable, codeUnavailable, "delete the stream again; the server's log says what was in the way", nil).
			retry(retryLater),
		row[*broker.ClosedError](http.StatusServiceUnavailable, codeClosing, "connect again when the server is back", nil).retry(retrySoon),
	}
}

func engineErrors() []errorRow {
	return []errorRow{
		row[*engine.ClosedError](http.StatusServiceUnavailable, codeClosing, "connect again when the server is back", nil).retry(retrySoon),
		row[*engine.PoisonedError](http.StatusServiceUnavailable, codeUnavailable, actionUnavailable,
			func(_ *engine.PoisonedError, p *problem) { p.set("state", broker.StatePoisoned.String()) }).retry(retryLater),
		row[*engine.FullError](http.StatusInsufficientStorage, codeStorageFull, actionFull, nil).retry(retryLater),
		row(http.StatusGone, codeCursorTooOld, actionTooOld,
			func(e *engine.TrimmedError, p *problem) { p.set("requested", e.Requested); p.set("oldest", e.Oldest) }),
		row[*engine.InvalidRangeError](http.StatusBadRequest, codeInvalidRequest, "see the message", nil),
		row[*engine.UnsupportedError](http.StatusBadRequest, codeInvalidRequest, "see the message", nil),
		row(http.StatusConflict, "sequence_reused", "send new records under the next sequence", fillSequence),
		row[*engine.ExhaustedError](http.StatusServiceUnavailable, codeUnavailable, "start a new stream; this one stays readable", nil),
		row(http.StatusTooManyRequests, codeBackPressure, "nothing was appended; try again, or send less at a time",
			func(e *engine.BackPressureError, p *problem) { p.set("bound", e.Bound); p.set("max", e.Max) }).retry(retrySoon),
		row(http.StatusGatewayTimeout, codeUnknownOutcome, actionUnknown,
			func(e *engine.UnknownOutcomeError, p *problem) {
				p.set("first_offset", e.First)
				p.set("last_offset", e.Last)
			}),
		row[*engine.ShardMismatchError](http.StatusServiceUnavailable, codeUnavailable, actionUnavailable, nil),
		row[*engine.AlreadyOpenError](http.StatusServiceUnavailable, codeUnavailable, actionUnavailable, nil),
		row[*engine.MarkerError](http.StatusServiceUnavailable, codeUnavailable, actionUnavailable, nil).retry(retryLater).wrapping(),
		row[*engine.IncarnationError](http.StatusServiceUnavailable, codeUnavailable, actionUnavailable, nil).retry(retryLater),
		row[*engine.SupersededError](http.StatusServiceUnavailable, codeUnavailable, actionElsewhere, nil).retry(retrySoon),
		row[*engine.PromisedError](http.StatusServiceUnavailable, codeUnavailable, actionElsewhere, nil).retry(retrySoon),
		row[*engine.GivenUpError](http.StatusServiceUnavailable, codeUnavailable, actionElsewhere, nil).retry(retrySoon),
		row[*engine.DeletingError](http.StatusServiceUnavailable, codeUnavailable, "try again when the deletion is through", nil).retry(retrySoon),
		row[*engine.LogError](http.StatusServiceUnavailable, codeStorageError, "see the message; nothing was appended; try again", nil).
			retry(retrySoon).wrapping(),
		row[*engine.BackendLostError](http.StatusServiceUnavailable, codeUnavailable, "the server has to be restarted", nil).retry(retryLater),
		row[*engine.BackendError](http.StatusServiceUnavailable, codeUnavailable, actionUnavailable, nil),
		row[*engine.ConfigError](http.StatusServiceUnavailable, codeUnavailable, actionUnavailable, nil),
	}
}

func authErrors() []errorRow {
	return []errorRow{
		row[*auth.DeniedError](http.StatusUnauthorized, codeUnauthorized, "send a bearer token NAME.SECRET of the credentials file", nil),
		row[*auth.BusyError](http.StatusTooManyRequests, "busy", "try again", nil).retry(retrySoon),
	}
}

// errorRows makes the table searchable.
func errorRows() map[reflect.Type]errorRow {
	rows := make(map[reflect.Type]errorRow)
	for _, r := range errorTable() {
		rows[r.kind] = r
	}
	return rows
}

// explain says what a client is told about an error: what the outermost error that
// the table knows says, unless that one only wraps another. What is not in the table
// is nobody's business but the log's.
func (s *Server) explain(err error) *problem {
	if own := new(requestError); errors.As(err, &own) {
		return &own.problem
	}
	if crowded := new(crowdedError); errors.As(err, &crowded) {
		return &problem{
			status: http.StatusTooManyRequests, code: codeBackPressure, message: crowded.Error(),
			action: "try again", retrySeconds: retrySoon,
		}
	}
	r, found, ok := s.find(err)
	switch {
	case errors.Is(err, engine.ErrFull) && (!ok || r.wrapper):
		return &problem{
			status: http.StatusInsufficientStorage, code: codeStorageFull, message: err.Error(),
			action: actionFull, retrySeconds: retryLater,
		}
	case ok:
		p := r.base
		p.message = err.Error()
		if r.fill != nil {
			r.fill(found, &p)
		}
		return &p
	case errors.Is(err, context.DeadlineExceeded):
		return &problem{
			status: http.StatusGatewayTimeout, code: "timeout",
			message: "it took too long", action: "try again", retrySeconds: retrySoon,
		}
	}
	return &problem{
		status: http.StatusInternalServerError, code: codeInternal,
		message: "the server failed in a way it does not know", action: "look at the server's log",
	}
}

// find walks an error from the outside in.
func (s *Server) find(err error) (r errorRow, found error, ok bool) {
	for err != nil {
		if at, known := s.errors[reflect.TypeOf(err)]; known {
			if !at.wrapper {
				return at, err, true
			}
			if !ok {
				r, found, ok = at, err, true
			}
		}
		if several, is := err.(interface{ Unwrap() []error }); is {
			for _, one := range several.Unwrap() {
				if inner, at, known := s.find(one); known {
					return inner, at, true
				}
			}
			return r, found, ok
		}
		err = errors.Unwrap(err)
	}
	return r, found, ok
}
