package httpapi

import (
	"net"
	"net/http"
	"sync/atomic"
)

// door counts the connections of all listeners of a server and closes those over the
// bound at once. The end of one is learnt from http.Server.ConnState, so that
// connections are handed on as they are: HTTP/2 needs to see that one is a *tls.Conn.
type door struct {
	max      int64
	open     atomic.Int64
	accepted atomic.Uint64
	refused  atomic.Uint64
}

// guardedListener is a listener behind a door.
type guardedListener struct {
	net.Listener
	door *door
}

// Accept gives the next connection that is within the bound.
func (l guardedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.door.open.Add(1) <= l.door.max {
			l.door.accepted.Add(1)
			return conn, nil
		}
		l.door.open.Add(-1)
		l.door.refused.Add(1)
		_ = conn.Close() // nothing was promised on it
	}
}

// changed is the server's ConnState. Connections are never hijacked.
func (d *door) changed(_ net.Conn, state http.ConnState) {
	if state == http.StateClosed {
		d.open.Add(-1)
	}
}
