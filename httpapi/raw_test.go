package httpapi

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// raw is a connection on which a test writes what no client would.
type raw struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func (f *fixture) dial() *raw {
	f.t.Helper()
	conn, err := net.Dial("tcp", f.addr)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		f.t.Fatal(err)
	}
	return &raw{f.t, conn, bufio.NewReader(conn)}
}

func (c *raw) write(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

// answer reads one answer.
func (c *raw) answer() reply {
	c.t.Helper()
	response, err := http.ReadResponse(c.in, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return reply{c.t, response.StatusCode, response.Header, body}
}

// closed wants the server to have closed the connection.
func (c *raw) closed() {
	c.t.Helper()
	if rest, err := io.ReadAll(c.in); err != nil && !strings.Contains(err.Error(), "reset") || len(rest) > 0 {
		c.t.Fatalf("%q, %v instead of the end", rest, err)
	}
}
