package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"felix.local/felix/auth"
)

// route is one method of one path.
type route struct {
	// name is what metrics call it; the operationId in openapi.json.
	name         string
	method, path string
	// who says how access is decided, action what a tenant's grant has to hold.
	who    audience
	action auth.Action
	// body says that a request may have one.
	body     bool
	handle   func(*exchange) error
	counters routeCounters
}

// audience says who may use a route.
type audience uint8

const (
	everybody       audience = iota // no credentials are asked for
	anyPrincipal                    // the answer shows what the principal may see
	tenantPrincipal                 // the tenant in the path decides
)

const (
	streamPath  = "/v1/streams/{tenant}/{namespace}/{stream}"
	recordsPath = streamPath + "/records"
)

// routeTable lists every route.
func (s *Server) routeTable() []*route {
	return []*route{
		{name: "list_streams", method: "GET", path: "/v1/streams", who: anyPrincipal, action: auth.Read, handle: s.listStreams},
		{name: "put_stream", method: "PUT", path: streamPath, who: tenantPrincipal, action: auth.Admin, body: true, handle: s.putStream},
		{name: "get_stream", method: "GET", path: streamPath, who: tenantPrincipal, action: auth.Read, handle: s.getStream},
		{name: "delete_stream", method: "DELETE", path: streamPath, who: tenantPrincipal, action: auth.Admin, handle: s.deleteStream},
		{name: "publish", method: "POST", path: recordsPath, who: tenantPrincipal, action: auth.Write, body: true, handle: s.publish},
		{name: "read_records", method: "GET", path: recordsPath, who: tenantPrincipal, action: auth.Read, handle: s.readRecords},
		{name: "delete_records", method: "DELETE", path: recordsPath, who: tenantPrincipal, action: auth.Admin, handle: s.deleteRecords},
		{name: "subscribe", method: "GET", path: streamPath + "/subscribe", who: tenantPrincipal, action: auth.Read, handle: s.subscribe},
		{name: "enforce_retention", method: "POST", path: streamPath + "/retention", who: tenantPrincipal, action: auth.Admin, handle: s.enforceRetention},
		{name: "openapi", method: "GET", path: "/v1/openapi.json", who: everybody, handle: s.openAPI},
	}
}

// mux builds the handler: the guard, then the routes, then what is none of them.
func (s *Server) mux() http.Handler {
	s.routes = s.routeTable()
	mux := http.NewServeMux()
	methods := make(map[string][]string)
	for _, r := range s.routes {
		methods[r.path] = append(methods[r.path], r.method)
		mux.Handle(r.method+" "+r.path, s.serve(r))
	}
	s.unknown = &route{name: "unknown", body: true, handle: func(*exchange) error { return notFound() }}
	s.routes = append(s.routes, s.unknown)
	for path, allowed := range methods {
		slices.Sort(allowed)
		mux.Handle(path, s.serve(s.wrongMethod(strings.Join(allowed, ", "))))
	}
	mux.Handle("/", s.serve(s.unknown))
	return s.guard(mux)
}

// wrongMethod answers the other methods of a path. It counts as unknown.
func (s *Server) wrongMethod(allowed string) *route {
	return &route{name: s.unknown.name, body: true, handle: func(x *exchange) error {
		x.header().Set("Allow", allowed)
		return methodNotAllowed(x.r.Method, allowed)
	}}
}

// guard refuses, before any route is looked at, paths that http.ServeMux would
// answer with a redirect to a cleaned one: a client that sends such a path has put a
// name in it that is none, and should hear so.
func (s *Server) guard(next http.Handler) http.Handler {
	refused := func(err error) http.Handler {
		return s.serve(&route{name: s.unknown.name, body: true, handle: func(*exchange) error { return err }})
	}
	unclean, noPath := refused(uncleanPath()), refused(notFound())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.EscapedPath()
		switch {
		case !strings.HasPrefix(path, "/"):
			noPath.ServeHTTP(w, r)
		case !clean(path):
			unclean.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// clean says that a path has no empty, "." or ".." part, a last empty one excepted.
func clean(path string) bool {
	if strings.Contains(path, "//") {
		return false
	}
	for rest := path; rest != ""; {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		if part == "." || part == ".." {
			return false
		}
	}
	return true
}
