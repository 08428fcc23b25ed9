package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"
)

// problem is what a client is told when a request fails.
type problem struct {
	// status is the HTTP status, code the stable name that programs branch on.
	status int
	code   string
	// message says what happened and where, action what to do about it.
	message, action string
	// retrySeconds is when trying again may help; 0 is never, unless something changes.
	retrySeconds int
	// more are further fields of the JSON form.
	more map[string]any
}

// json is the object under "error".
func (p *problem) json() map[string]any {
	fields := map[string]any{"code": p.code, "message": p.message, "action": p.action}
	maps.Copy(fields, p.more)
	return fields
}

func (p *problem) set(name string, value any) {
	if p.more == nil {
		p.more = make(map[string]any)
	}
	p.more[name] = value
}

// fail answers with an error. After the answer has begun there is nothing left to say.
func (x *exchange) fail(err error) {
	if x.status != 0 {
		x.server.cfg.Logger.Debug("http: an answer was cut short", "path", x.r.URL.Path, "error", err)
		return
	}
	if errors.Is(err, context.Canceled) && x.r.Context().Err() != nil {
		return // the client is gone
	}
	p := x.server.explain(err)
	if p.code == codeInternal {
		x.server.cfg.Logger.Error("http: a request failed for a reason that no client can be told",
			"method", x.r.Method, "path", x.r.URL.Path, "error", err)
	}
	header := x.header()
	if p.status == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", `Bearer realm="felix"`)
	}
	if p.retrySeconds > 0 {
		header.Set("Retry-After", strconv.Itoa(p.retrySeconds))
	}
	if x.server.closing.Err() != nil {
		header.Set("Connection", "close")
	}
	if !x.bodyDone && x.r.ProtoMajor == 1 {
		header.Set("Connection", "close")
		// The server reads some more of the body, so that the client gets to see the
		// answer, and is to wait no longer for it than for any other.
		x.extendRead()
	}
	_ = x.answer(p.status, map[string]any{"error": p.json()}) // there is nobody else to tell
}

// answer sends a JSON document.
func (x *exchange) answer(status int, document any) error {
	text, err := json.Marshal(document)
	if err != nil {
		return err
	}
	header := x.header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Length", strconv.Itoa(len(text)+1))
	x.begun(status)
	_, err = x.Write(append(text, '\n'))
	return err
}
