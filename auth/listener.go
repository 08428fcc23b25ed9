package auth

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"time"
)

// resolveTimeout bounds the wait for the addresses of a host name.
const resolveTimeout = 5 * time.Second

// CheckListener refuses, with an *ExposedError, an address that others than this
// host can reach when nothing asks who they are and nobody said that this is
// meant. What names the listener in the error, as "http". A host name counts as
// loopback when all its addresses are; call it again with the address that was
// bound, if the name may change its meaning in between.
func CheckListener(what, addr string, authenticated, insecure bool) error {
	if authenticated || insecure {
		return nil
	}
	return checkExposed(what, addr, func(host string) ([]netip.Addr, error) {
		ctx, cancel := context.WithTimeout(context.Background(), resolveTimeout)
		defer cancel()
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	})
}

func checkExposed(what, addr string, resolve func(host string) ([]netip.Addr, error)) error {
	exposed := &ExposedError{What: what, Addr: addr}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		exposed.Reached, exposed.Err = "is no HOST:PORT", err
		return exposed
	}
	if host == "" {
		exposed.Reached = "is reached at every address of this host"
		return exposed
	}
	addresses := make([]netip.Addr, 1)
	if addresses[0], err = netip.ParseAddr(host); err != nil {
		if addresses, err = resolve(host); err != nil || len(addresses) == 0 {
			exposed.Reached, exposed.Err = "has a host name without known addresses, so it may be reached from outside", err
			return exposed
		}
	}
	var reached []string
	for _, address := range addresses {
		switch address = address.Unmap(); {
		case address.IsLoopback():
		case address.IsUnspecified():
			exposed.Reached = "is reached at every address of this host"
			return exposed
		default:
			reached = append(reached, address.String())
		}
	}
	if len(reached) == 0 {
		return nil
	}
	exposed.Reached = "is reached from outside this host at " + strings.Join(reached, ", ")
	return exposed
}
