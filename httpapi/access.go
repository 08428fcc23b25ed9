package httpapi

import (
	"net"
	"net/http"
	"strings"

	"felix.local/felix/auth"
	"felix.local/felix/broker"
)

// admit finds out who asks and whether they may. On a stream's route it also checks
// the name, after the credentials: who is nobody learns nothing.
func (x *exchange) admit(rt *route) error {
	if rt.who == everybody {
		return nil
	}
	if err := x.identify(); err != nil {
		return err
	}
	if rt.who != tenantPrincipal {
		return nil
	}
	x.name = broker.StreamName{
		Tenant:    x.r.PathValue("tenant"),
		Namespace: x.r.PathValue("namespace"),
		Stream:    x.r.PathValue("stream"),
	}
	if err := x.name.Validate(); err != nil {
		return err
	}
	return x.mayStill(rt.action)
}

// identify verifies the bearer token.
func (x *exchange) identify() error {
	credentials := x.server.cfg.Credentials
	if credentials == nil {
		x.principal = x.server.anonymous
		return nil
	}
	scheme, token, _ := strings.Cut(x.r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return errNoToken
	}
	principal, err := credentials.VerifyToken(x.r.Context(), strings.TrimSpace(token))
	if err != nil {
		return err
	}
	x.principal = principal
	return nil
}

// mayStill says that the principal may do this with the stream, now.
func (x *exchange) mayStill(action auth.Action) error {
	if x.principal.Allows(action, x.name.Tenant) {
		return nil
	}
	return forbidden(x.principal.Name(), action, x.name.Tenant)
}

// called refuses requests for a name that is not this server's, where neither a token
// nor a certificate keeps out a page from elsewhere that made its own name resolve here.
func (x *exchange) called() error {
	cfg := &x.server.cfg
	if cfg.Credentials != nil || x.r.TLS != nil {
		return nil
	}
	bound, _ := x.r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if auth.HostAllowed(x.r.Host, bound, cfg.Hosts...) {
		return nil
	}
	return foreignHost(x.r.Host)
}

// client is whom the memory of a request is counted for: the principal, or, where nobody
// says who they are, the IP address.
func (x *exchange) client() string {
	if x.server.cfg.Credentials != nil {
		return x.principal.Name()
	}
	host, _, err := net.SplitHostPort(x.r.RemoteAddr)
	if err != nil {
		return x.r.RemoteAddr
	}
	return host
}

// sameOrigin refuses what a web page of another origin makes a browser send, which
// would otherwise be let in wherever no credentials are asked for.
func (x *exchange) sameOrigin() error {
	if err := x.server.origins.Check(x.r); err != nil {
		return crossOrigin(err)
	}
	return nil
}
