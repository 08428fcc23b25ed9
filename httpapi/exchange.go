package httpapi

import (
	"net/http"
	"runtime/debug"
	"time"

	"felix.local/felix/auth"
	"felix.local/felix/broker"
)

// exchange is one request and its answer.
type exchange struct {
	server    *Server
	w         http.ResponseWriter
	r         *http.Request
	control   *http.ResponseController
	principal *auth.Principal
	name      broker.StreamName // set on routes of a stream
	// status is what was answered, 0 as long as nothing was.
	status int
	// bodyDone says that the request's body was read to its end.
	bodyDone bool
}

// serve makes a handler of a route.
func (s *Server) serve(rt *route) http.Handler {
	// Paths that match no route share one row of counters.
	counters := &rt.counters
	if rt.name == "unknown" {
		counters = &s.unknown.counters
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started := time.Now()
		x := &exchange{server: s, w: w, r: r, control: http.NewResponseController(w)}
		s.counters.active.Add(1)
		defer func() {
			s.counters.active.Add(-1)
			counters.count(x.status)
			if s.cfg.Observer != nil {
				s.cfg.Observer.Request(rt.name, x.status, time.Since(started))
			}
		}()
		defer x.survive(rt)
		if err := x.run(rt); err != nil {
			x.fail(err)
		}
	})
}

// run does what comes before every handler, then the handler.
func (x *exchange) run(rt *route) error {
	x.begin()
	if x.server.closing.Err() != nil {
		return &broker.ClosedError{}
	}
	if err := x.called(); err != nil {
		return err
	}
	if err := x.sameOrigin(); err != nil {
		return err
	}
	if err := x.admit(rt); err != nil {
		return err
	}
	if !rt.body && x.r.ContentLength != 0 {
		return badRequest(codeInvalidBody, "this request takes no body", "send it without one")
	}
	return rt.handle(x)
}

// begin replaces the deadline that the connection's last answer may have left, which
// would fail the server's own "100 Continue". An HTTP/2 stream has none yet, and one
// set now would end it even while nothing is written.
func (x *exchange) begin() {
	if x.r.ProtoMajor == 1 {
		x.extendWrite()
	}
	x.bodyDone = x.r.ContentLength == 0
	x.header().Set("X-Content-Type-Options", "nosniff")
}

// survive turns a panic into a logged 500, so that one request's defect is no other's.
func (x *exchange) survive(rt *route) {
	reason := recover()
	if reason == nil {
		return
	}
	x.server.counters.panics.Add(1)
	x.server.cfg.Logger.Error("http: a request panicked; please report this",
		"route", rt.name, "panic", reason, "stack", string(debug.Stack()))
	if x.status != 0 {
		panic(http.ErrAbortHandler) // cuts the answer, so that it does not look whole
	}
	x.fail(errInternal)
}

func (x *exchange) header() http.Header { return x.w.Header() }

// begun sends the status and the headers. An answer without a body is written when
// the handler returns, within this deadline.
func (x *exchange) begun(status int) {
	x.status = status
	x.extendWrite()
	x.w.WriteHeader(status)
}

// Write writes a piece of the answer, which the client has WriteTimeout to accept.
func (x *exchange) Write(p []byte) (int, error) {
	deadline := x.extendWrite()
	n, err := x.w.Write(p)
	x.server.counters.bytesOut.Add(uint64(n))
	x.noteSlow(err, deadline)
	return n, err
}

// flush sends what was written.
func (x *exchange) flush() error {
	deadline := x.extendWrite()
	err := x.control.Flush()
	x.noteSlow(err, deadline)
	return err
}

// noteSlow counts a write that failed since its deadline passed. The error does not
// tell: HTTP/2 says that the stream was closed.
func (x *exchange) noteSlow(err error, deadline time.Time) {
	if err != nil && !time.Now().Before(deadline) {
		x.server.counters.slowReaders.Add(1)
	}
}

// The deadlines are refused by writers that are no connection, as in tests of a
// handler alone; then there is nothing to bound.

func (x *exchange) extendWrite() time.Time {
	deadline := time.Now().Add(x.server.cfg.WriteTimeout)
	_ = x.control.SetWriteDeadline(deadline)
	return deadline
}

func (x *exchange) clearWrite() { _ = x.control.SetWriteDeadline(time.Time{}) }

func (x *exchange) extendRead() {
	_ = x.control.SetReadDeadline(time.Now().Add(x.server.cfg.BodyTimeout))
}

func (x *exchange) clearRead() { _ = x.control.SetReadDeadline(time.Time{}) }
