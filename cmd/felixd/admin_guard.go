package main

import (
	"errors"
	"net/http"
	"strings"

	"felix.local/felix/auth"
)

// everyTenant is the tenant that only a grant on all of them covers.
const everyTenant = ""

// guard lets requests through on the admin listener. Without credentials everybody
// is let in: the listener is loopback then, or somebody said that it may be open.
type guard struct{ credentials *auth.Credentials }

// principal finds who asks.
func (g guard) principal(r *http.Request) (*auth.Principal, error) {
	if g.credentials == nil {
		return auth.Anonymous(), nil
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return nil, &auth.DeniedError{}
	}
	return g.credentials.VerifyToken(r.Context(), strings.TrimSpace(token))
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
