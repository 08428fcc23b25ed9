package httpapi

import (
	"errors"
	"fmt"
	"net/http"

	"felix.local/felix/auth"
)

// The codes of what this package finds itself. Those of other packages' errors are in
// the table of errors.go.
const (
	codeInvalidName      = "invalid_name"
	codeInvalidParameter = "invalid_parameter"
	codeInvalidBody      = "invalid_body"
	codeInvalidBatch     = "invalid_batch"
	codeInvalidFormat    = "invalid_format"
	codeInvalidRequest   = "invalid_request"
	codeUnauthorized     = "unauthorized"
	codeForbidden        = "forbidden"
	codeTooLarge         = "too_large"
	codeBackPressure     = "back_pressure"
	codeInternal         = "internal"
)

// requestError is a problem found before the broker was asked.
type requestError struct{ problem problem }

func (e *requestError) Error() string { return e.problem.message }

// crowdedError says that a budget is used up.
type crowdedError struct {
	what string
	max  int64
}

func (e *crowdedError) Error() string {
	return fmt.Sprintf("%s hold all of the %d bytes that the server gives them", e.what, e.max)
}

var (
	errInternal = errors.New("internal error")
	errNoToken  = &requestError{problem{
		status: http.StatusUnauthorized, code: codeUnauthorized,
		message: "no credentials were sent", action: "send the header Authorization: Bearer NAME.SECRET",
	}}
)

func badRequest(code, message, action string) error {
	return &requestError{problem{status: http.StatusBadRequest, code: code, message: message, action: action}}
}

func badParameter(name, message, action string) error {
	return &requestError{problem{
		status: http.StatusBadRequest, code: codeInvalidParameter, message: message, action: action,
		more: map[string]any{"parameter": name},
	}}
}

func notFound() error {
	return &requestError{problem{
		status: http.StatusNotFound, code: "not_found",
		message: "there is nothing at this path", action: "see /v1/openapi.json for what there is",
	}}
}

func uncleanPath() error {
	return badRequest(codeInvalidName, "the path has an empty part, or one that is . or ..",
		"use names of letters, digits, '-' and '_'")
}

func methodNotAllowed(method, allowed string) error {
	return &requestError{problem{
		status: http.StatusMethodNotAllowed, code: "method_not_allowed",
		message: fmt.Sprintf("%q is no method of this path", short(method)), action: "use " + allowed,
	}}
}

func notAcceptable(offered string) error {
	return &requestError{problem{
		status: http.StatusNotAcceptable, code: "not_acceptable",
		message: "the answer has none of the accepted media types", action: "accept " + offered,
	}}
}

func unsupportedMedia(message, action string) error {
	return &requestError{problem{
		status: http.StatusUnsupportedMediaType, code: "unsupported_media_type", message: message, action: action,
	}}
}

func forbidden(principal string, action auth.Action, tenant string) error {
	return &requestError{problem{
		status: http.StatusForbidden, code: codeForbidden,
		message: fmt.Sprintf("%s may not %s with tenant %s", principal, actionWord(action), tenant),
		action:  "ask for that grant in the credentials file",
	}}
}

// actionWord says what an action is to somebody who must not.
func actionWord(action auth.Action) string {
	switch action {
	case auth.Read:
		return "read"
	case auth.Write:
		return "publish"
	default:
		return "administer streams"
	}
}

func crossOrigin(err error) error {
	return &requestError{problem{
		status: http.StatusForbidden, code: "cross_origin",
		message: "a web page of another origin sent this: " + err.Error(), action: "send it from the server's own origin, or from a program",
	}}
}

func foreignHost(host string) error {
	return &requestError{problem{
		status: http.StatusForbidden, code: "foreign_host",
		message: fmt.Sprintf("this server is not called %q", short(host)),
		action:  "ask for localhost or the address, or have the name added to FELIX_HOSTS",
	}}
}

func blocksPublishers(principal, tenant string) error {
	return &requestError{problem{
		status: http.StatusForbidden, code: codeForbidden,
		message: fmt.Sprintf("%s may not publish with tenant %s, and a subscription with when_full=block holds publishers back", principal, tenant),
		action:  "use when_full=disk, or ask for the write grant in the credentials file",
	}}
}

func bodyTooLarge(max int64) error {
	return &requestError{problem{
		status: http.StatusRequestEntityTooLarge, code: codeTooLarge,
		message: fmt.Sprintf("the body is larger than %d bytes", max), action: "send less at a time; nothing was appended",
		more: map[string]any{"max": max},
	}}
}

func bodyTooSlow() error {
	return &requestError{problem{
		status: http.StatusRequestTimeout, code: "body_timeout",
		message: "the body did not arrive in time", action: "send it faster; nothing was appended",
	}}
}

func badLine(line int, message string) error {
	return &requestError{problem{
		status: http.StatusBadRequest, code: codeInvalidBatch,
		message: fmt.Sprintf("line %d: %s", line, message), action: "mend the line and send the batch again; nothing was appended",
		more: map[string]any{"line": line},
	}}
}

func tooManyLines(max int) error {
	return &requestError{problem{
		status: http.StatusRequestEntityTooLarge, code: codeTooLarge,
		message: fmt.Sprintf("the batch has more than %d records", max), action: "send less at a time; nothing was appended",
		more: map[string]any{"max": max},
	}}
}

// short cuts text from a client that goes into a message.
func short(text string) string {
	const max = 60
	if len(text) > max {
		return text[:max] + "…"
	}
	return text
}
