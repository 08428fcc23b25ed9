package kafka

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"felix.local/felix/auth"
)

// readerSize is the buffer a connection holds while it is idle.
const readerSize = 4 << 10

// conn is one client's connection. Its reader (serve) takes requests and starts
// produces, so that several are under way; its answerer carries out everything
// else and writes the answers in the order of the requests.
type conn struct {
	s      *Server
	nc     net.Conn
	reader *bufio.Reader
	opened time.Time
	// ctx ends with the client, or when the server stops: nothing waits any longer
	// for records to come.
	ctx    context.Context
	cancel context.CancelFunc

	// answers are the requests read, in order. A place in slots bounds them.
	answers  chan *exchange
	slots    chan struct{}
	inFlight atomic.Int64
	// others are requests that are no produces and not answered yet: they act in the
	// answerer, and a produce that follows starts after them.
	others sync.WaitGroup
	lanes  lanes
	sasl   saslState

	mu struct {
		sync.Mutex
		stopped bool
	}
}

// exchange is a request and what it takes to answer it.
type exchange struct {
	requestHeader
	frame frame
	// body is what follows the header.
	body []byte
	// produce is set for a produce, which is under way; else handle is called.
	produce *produceCall
	handle  handler
	// raw is a SASL token of an old client, without a header.
	raw bool
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{
		s: s, nc: nc, reader: bufio.NewReaderSize(nc, readerSize), opened: time.Now(),
		answers: make(chan *exchange, s.cfg.InFlightMax), slots: make(chan struct{}, s.cfg.InFlightMax),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.lanes.publish = c.publishLane
	if s.cfg.Credentials == nil {
		c.sasl.principal, c.sasl.done = auth.Anonymous(), true
	}
	return c
}

// serve runs the connection to its end.
func (c *conn) serve() {
	answered := make(chan struct{})
	err := c.handshake()
	go func() {
		defer close(answered)
		c.answer()
	}()
	if err == nil {
		err = c.read()
	}
	c.cancel()
	close(c.answers)
	<-answered
	c.s.sessions.dropAll(c)
	c.report(err)
	c.nc.Close()
}

// handshake finishes TLS, if that is what the listener gives, in the time there is
// to authenticate.
func (c *conn) handshake() error {
	t, ok := c.nc.(*tls.Conn)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.s.cfg.AuthenticationTimeout)
	defer cancel()
	return t.HandshakeContext(ctx)
}

// report says why a connection ended, where somebody who looks for it finds it.
func (c *conn) report(err error) {
	if errors.Is(err, io.EOF) || c.s.isStopping() {
		return
	}
	if refused := (*requestError)(nil); errors.As(err, &refused) {
		c.s.stats.requestsRefused.Add(1)
	}
	c.s.cfg.Logger.Debug("kafka: connection closed", "client", c.nc.RemoteAddr().String(), "error", err)
}

// stop ends reading: what was read is answered, and the connection closed.
func (c *conn) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.stopped = true
	c.cancel()
	// A connection that cannot be told is closed by its end of life instead.
	_ = c.nc.SetReadDeadline(time.Now())
}

// readBy sets the time by which reading has to be done, unless it is over.
func (c *conn) readBy(deadline time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.stopped {
		return ErrServerClosed
	}
	return c.nc.SetReadDeadline(deadline)
}

// isStranger says whether the client has yet to authenticate.
func (c *conn) isStranger() bool { return !c.sasl.done }

// strangerUntil is when the client has to have authenticated; zero once it has.
func (c *conn) strangerUntil() time.Time {
	if !c.isStranger() {
		return time.Time{}
	}
	return c.opened.Add(c.s.cfg.AuthenticationTimeout)
}

// read takes requests until there are no more.
func (c *conn) read() error {
	for {
		if err := c.waitForRequest(); err != nil {
			return err
		}
		select {
		case c.slots <- struct{}{}:
		case <-c.ctx.Done():
			return c.ctx.Err()
		}
		x, err := c.next()
		if err != nil {
			return err
		}
		if x.produce == nil {
			c.others.Add(1)
		}
		c.inFlight.Add(1)
		sasl := x.raw || x.key == keySASLHandshake || x.key == keySASLAuthenticate
		stranger := c.isStranger()
		c.answers <- x
		if sasl || stranger {
			// What comes next may depend on the answer.
			c.others.Wait()
			if c.sasl.failed {
				return nil
			}
		}
	}
}

// next reads a request, and starts it if it is a produce.
func (c *conn) next() (*exchange, error) {
	raw := c.sasl.rawTokens()
	f, err := c.readFrame(raw)
	if err != nil {
		return nil, err
	}
	x, err := c.parse(f, raw)
	if err != nil {
		c.s.release(&f)
		return nil, err
	}
	return x, nil
}

func (c *conn) parse(f frame, raw bool) (*exchange, error) {
	if raw {
		c.s.stats.requests.add(keySASLAuthenticate)
		return &exchange{frame: f, body: f.buf.b, raw: true, handle: (*conn).rawToken}, nil
	}
	w := &wire{src: f.buf.b}
	header := parseHeader(w, c.s.flexible)
	if w.bad {
		return nil, &requestError{"a request ends within its header"}
	}
	x := &exchange{requestHeader: header, frame: f, body: w.src}
	a := c.s.apis[header.key]
	switch {
	case a == nil:
		return nil, &requestError{unsupportedText(header)}
	case c.isStranger() && !a.stranger:
		return nil, &requestError{"a request other than ApiVersions and SASL before authentication"}
	case header.key == keyAPIVersions && header.version > a.max:
		x.version, x.handle = 0, (*conn).apiVersionsUnsupported
	case header.version < a.min || header.version > a.max:
		return nil, &requestError{unsupportedText(header)}
	default:
		x.handle = a.handle
	}
	c.s.stats.requests.add(header.key)
	if header.key != keyProduce {
		return x, nil
	}
	c.others.Wait()
	var err error
	x.produce, err = c.startProduce(x, w)
	return x, err
}

// answer carries requests out and writes their answers, in order. After a failure
// to write it only waits for what is under way.
func (c *conn) answer() {
	broken := false
	for x := range c.answers {
		out, err := c.carryOut(x, broken)
		if out != nil && !broken {
			err = c.write(out)
		}
		c.releaseResponse(out)
		if err != nil && !broken {
			c.s.cfg.Logger.Debug("kafka: closing a connection", "client", c.nc.RemoteAddr().String(), "error", err)
			broken = true
			c.nc.Close()
		}
		if x.produce == nil {
			c.others.Done()
		}
		c.s.release(&x.frame)
		c.inFlight.Add(-1)
		<-c.slots
	}
}

// carryOut gives the answer to a request, or nil for none.
func (c *conn) carryOut(x *exchange, broken bool) (*response, error) {
	switch {
	case x.produce != nil:
		return c.finishProduce(x)
	case broken:
		return nil, nil
	default:
		return x.handle(c, x)
	}
}
