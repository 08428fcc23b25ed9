package auth

import (
	"net"
	"testing"
)

func TestAHostThatAPageCouldMakeItsOwnIsRefused(t *testing.T) {
	loopback, mapped := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}, &net.TCPAddr{IP: net.ParseIP("::1"), Port: 80}
	every := &net.TCPAddr{IP: net.IPv4zero, Port: 80}
	for _, c := range []struct {
		host  string
		bound net.Addr
		names []string
		want  bool
	}{
		{"localhost:9644", loopback, nil, true},
		{"LOCALHOST.", loopback, nil, true},
		{"felix.localhost:80", loopback, nil, true},
		{"127.0.0.1:9644", loopback, nil, true},
		{"127.0.0.1", mapped, nil, true},
		{"[::1]:9644", mapped, nil, true},
		{"[::1]", loopback, nil, true},
		{"192.0.2.7:80", every, nil, true},
		{"evil.example:9644", loopback, nil, false},
		{"evil.example", every, nil, false},
		{"127.0.0.1.evil.example:9644", loopback, nil, false},
		{"localhost.evil.example", loopback, nil, false},
		{"", loopback, nil, false},
		{":80", loopback, nil, false},
		{"felixd:80", every, nil, true},
		{"felixd:80", loopback, nil, false},
		{"felixd:80", nil, nil, false},
		{"felix.example:80", loopback, []string{"felix.example:9644"}, true},
		{"Felix.Example.", every, []string{"other", "felix.example"}, true},
		{"", loopback, []string{""}, false},
	} {
		if got := HostAllowed(c.host, c.bound, c.names...); got != c.want {
			t.Errorf("%q at %v with %q: %v, want %v", c.host, c.bound, c.names, got, c.want)
		}
	}
}
