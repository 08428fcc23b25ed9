package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"

	"felix.local/felix/broker"
)

// unreachedError says that no server was asked anything.
type unreachedError struct {
	host string
	// flag is the one that names the server.
	flag string
	err  error
}

func (e *unreachedError) Error() string {
	s := fmt.Sprintf("%s is not reached: %v", e.host, e.err)
	if errors.Is(e.err, syscall.ECONNREFUSED) {
		s += fmt.Sprintf("; is felixd serve running there? %s names another address", e.flag)
	}
	return s
}

// Unwrap gives the cause.
func (e *unreachedError) Unwrap() error { return e.err }

// lostError says that a server was reached, and that its answer did not come, or not to
// its end: what was asked for is done or not.
type lostError struct {
	host string
	err  error
}

func (e *lostError) Error() string {
	return fmt.Sprintf("%s was reached, and its answer was lost: %v", e.host, e.err)
}

// Unwrap gives the cause.
func (e *lostError) Unwrap() error { return e.err }

// publishedOrNot says what to do about a publish whose answer was lost.
func publishedOrNot(err error, numbered bool) error {
	var lost *lostError
	switch {
	case !errors.As(err, &lost):
		return err
	case numbered:
		return fmt.Errorf("%w; the records of this request are stored or not: the same command again stores them once", err)
	default:
		return fmt.Errorf("%w; the records of the last request are stored or not: read from behind the last offset printed before you send them again", err)
	}
}

// atShell says in commands and flags what the server, which does not know who asks, says
// in terms of HTTP.
func (c *client) atShell(r request, err error) error {
	var answered *serverError
	if !errors.As(err, &answered) {
		return err
	}
	switch parts := strings.Split(r.path, "/"); {
	case answered.Status == http.StatusUnauthorized && c.token == "":
		answered.Action = "give a token NAME.SECRET by --token-file, FELIX_TOKEN_FILE or FELIX_TOKEN"
	case answered.Status == http.StatusUnauthorized && !strings.Contains(c.token, "."):
		answered.Message, answered.Action = "the token is not of the form NAME.SECRET", "felixd credentials add prints one"
	case answered.Code != "stream_not_found" || len(parts) < 5:
	case r.method == http.MethodDelete && len(parts) == 5:
		answered.Action = "felixd streams list shows those that are there"
	default:
		return missing(err, broker.StreamName{Tenant: parts[2], Namespace: parts[3], Stream: parts[4]})
	}
	return err
}

// missing says how to get a stream that is not there, for whoever is at a shell.
func missing(err error, name broker.StreamName) error {
	var answered *serverError
	if errors.As(err, &answered) && answered.Code == "stream_not_found" {
		answered.Action = "create it with felixd streams create " + name.String()
	}
	return err
}

// Validate is called by kong.
func (c *streamsCreateCommand) Validate() error {
	if c.Shards == nil {
		return nil
	}
	return validate(limit{"shards", int64(*c.Shards), 1, 1 << 20})
}
