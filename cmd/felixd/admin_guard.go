package main

import (
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"

	"felix.local/felix/auth"
)

// everyTenant is the tenant that only a grant on all of them covers.
const everyTenant = ""

// guard lets requests through on the admin listener. Without credentials everybody
// is let in: the listener is loopback then, or somebody said that it may be open.
type guard struct {
	credentials *auth.Credentials
	// bound is the address the listener has, and names are those it may be called by,
	// besides what auth.HostAllowed lets pass.
	bound net.Addr
	names []string
}

// principal finds who asks.
func (g guard) principal(r *http.Request) (*auth.Principal, error) {
	if g.credentials == nil {
		return auth.Anonymous(), nil
	}
	token, found := bearerToken(r)
	if !found {
		return nil, &auth.DeniedError{}
	}
	return g.credentials.VerifyToken(r.Context(), token)
}

func bearerToken(r *http.Request) (token string, found bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}

// recalls says that whoever asks is known without work or wait.
func (g guard) recalls(r *http.Request) bool {
	if g.credentials == nil {
		return true
	}
	token, found := bearerToken(r)
	return found && g.credentials.Recall(token) != nil
}

// called refuses requests for a name that is not this server's, when nothing else
// keeps a page from elsewhere out that a browser on this host shows.
func (g guard) called(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.credentials == nil && r.TLS == nil && !auth.HostAllowed(r.Host, g.bound, g.names...) {
			http.Error(w, "this server is not called "+strconv.Quote(r.Host)+"; name it in FELIX_HOSTS, or ask for localhost or the address", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// known lets everybody through who is in the credentials file.
func (g guard) known(next http.Handler) http.Handler {
	return g.allowed(func(*auth.Principal) bool { return true }, next)
}

// administrators lets those through who administer every tenant.
func (g guard) administrators(next http.Handler) http.Handler {
	return g.allowed(func(p *auth.Principal) bool { return p.Allows(auth.Admin, everyTenant) }, next)
}

func (g guard) allowed(may func(*auth.Principal) bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		principal, err := g.principal(r)
		var busy *auth.BusyError
		switch {
		case errors.As(err, &busy):
			w.Header().Set("Retry-After", "1")
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		case err != nil:
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a bearer token of the credentials file is needed", http.StatusUnauthorized)
		case !may(principal):
			http.Error(w, "this needs the grant admin:*", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}
