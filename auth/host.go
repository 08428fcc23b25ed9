package auth

import (
	"net"
	"net/netip"
	"strings"
)

// HostAllowed says whether a request may name this server as it does in its Host
// header, on a listener without TLS that asks nobody who they are. A page from
// elsewhere can make its own name resolve to this host, and a browser then lets it
// talk to listeners that only this host reaches, under that name. Whoever asks for a
// token, or for TLS, whose certificate lacks that name, needs no such check.
//
// Allowed are localhost, every IP address, since a page has none of its own, the names
// given, each as HOST or HOST:PORT, such as the address the listener was configured
// with, and on a listener that others reach, bound to no loopback address, names
// without a dot, as containers call each other. The port does not matter.
func HostAllowed(host string, bound net.Addr, names ...string) bool {
	host = hostOf(host)
	if host == "" {
		return false
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	for _, name := range names {
		if hostOf(name) == host {
			return true
		}
	}
	return !strings.Contains(host, ".") && !isLoopback(bound)
}

// hostOf is the host of HOST or HOST:PORT, in one spelling.
func hostOf(addr string) string {
	host := addr
	if h, _, err := net.SplitHostPort(addr); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// isLoopback says that an address is known to be loopback.
func isLoopback(addr net.Addr) bool {
	if addr == nil {
		return true // nothing is known, so the stricter rule holds
	}
	bound, err := netip.ParseAddrPort(addr.String())
	return err != nil || bound.Addr().Unmap().IsLoopback()
}
