package main

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// turnstile bounds the connections of the admin listener, so that none of them takes a
// descriptor from those that carry records. One too many closes the one that has been
// silent for longest, between two requests or before its first: somebody who holds
// connections and says nothing keeps no health check out. When all are busy the new
// one is closed.
//
// The server tells it what becomes of a connection, by ConnState: before the next one
// is accepted it knows of the last.
type turnstile struct {
	net.Listener
	max int
	mu  struct {
		sync.Mutex
		// silentSince has every open connection; the zero time is one that is busy.
		silentSince map[net.Conn]time.Time
	}
}

func newTurnstile(listener net.Listener, max int) *turnstile {
	t := &turnstile{Listener: listener, max: max}
	t.mu.silentSince = make(map[net.Conn]time.Time)
	return t
}

// Accept gives the next connection that there is room for.
func (t *turnstile) Accept() (net.Conn, error) {
	for {
		conn, err := t.Listener.Accept()
		if err != nil || t.room() {
			return conn, err
		}
		_ = conn.Close() // nothing was promised on it
	}
}

// room says whether there is a place, and closes a silent connection to make one.
func (t *turnstile) room() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.mu.silentSince) < t.max {
		return true
	}
	var longest net.Conn
	for conn, since := range t.mu.silentSince {
		if !since.IsZero() && (longest == nil || since.Before(t.mu.silentSince[longest])) {
			longest = conn
		}
	}
	if longest == nil {
		return false
	}
	delete(t.mu.silentSince, longest)
	go longest.Close() // TLS says goodbye first, which may take a while
	return true
}

// changed is the server's ConnState.
func (t *turnstile) changed(conn net.Conn, state http.ConnState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch state {
	case http.StateNew, http.StateIdle:
		t.mu.silentSince[conn] = time.Now()
	case http.StateActive:
		t.mu.silentSince[conn] = time.Time{}
	default:
		delete(t.mu.silentSince, conn)
	}
}
