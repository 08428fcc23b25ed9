package kafka

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"felix.local/felix/auth"
)

// mechanism is the only SASL mechanism: a name and a secret, as they are. Off this
// host it wants TLS under it.
const mechanism = "PLAIN"

// saslState is how far a client has come to prove who it is. The answerer changes
// it; the reader reads it only while no other request than a produce is under way.
type saslState struct {
	principal *auth.Principal
	// done says that the client may send any request, failed that it was refused and
	// the connection ends.
	done, failed bool
	// offered is set by a handshake that named the mechanism; raw says that the token
	// comes without a header, as for clients older than SaslAuthenticate.
	offered, raw bool
}

// rawTokens says that the next frame is a bare token.
func (s *saslState) rawTokens() bool { return s.offered && s.raw }

func (c *conn) saslHandshake(x *exchange) (*response, error) {
	request := kmsg.NewSASLHandshakeRequest()
	if err := c.decodeBody(x, &request); err != nil {
		return nil, err
	}
	out := kmsg.NewSASLHandshakeResponse()
	out.SupportedMechanisms = []string{mechanism}
	switch {
	case request.Mechanism != mechanism:
		out.ErrorCode = int16(codeUnsupportedSASLMechanism)
	case c.s.cfg.Credentials == nil:
		// Nobody has to prove anything here; whoever wants to is told so.
		out.ErrorCode = int16(codeIllegalSASLState)
	default:
		c.sasl.offered, c.sasl.raw = true, x.version == 0
	}
	return c.reply(x, &out), nil
}

func (c *conn) saslAuthenticate(x *exchange) (*response, error) {
	request := kmsg.NewSASLAuthenticateRequest()
	if err := c.decodeBody(x, &request); err != nil {
		return nil, err
	}
	out := kmsg.NewSASLAuthenticateResponse()
	if !c.sasl.offered {
		out.ErrorCode = int16(codeIllegalSASLState)
		out.ErrorMessage = messageOf(errors.New("SaslHandshake has to come first, and the server has to ask for authentication"))
		return c.reply(x, &out), nil
	}
	if err := c.authenticate(request.SASLAuthBytes); err != nil {
		out.ErrorCode = int16(codeSASLAuthenticationFailed)
		out.ErrorMessage = messageOf(err)
	}
	return c.reply(x, &out), nil
}

// rawToken answers a bare token: an empty frame, or the end of the connection.
func (c *conn) rawToken(x *exchange) (*response, error) {
	if err := c.authenticate(x.body); err != nil {
		return nil, err
	}
	buf := c.s.buffers.get(frameLengthSize)
	binary.BigEndian.PutUint32(buf.b, 0)
	return &response{buf: buf}, nil
}

// authenticate judges a token of PLAIN: authorization id, name and secret, each
// ended by a zero byte but the last. A connection that failed once is over.
func (c *conn) authenticate(token []byte) error {
	c.sasl.offered = false
	principal, err := c.verify(token)
	if err != nil {
		c.sasl.failed = true
		c.s.stats.authenticationFailures.Add(1)
		c.s.cfg.Logger.Debug("kafka: authentication failed", "client", c.nc.RemoteAddr().String(), "error", err)
		return err
	}
	c.sasl.principal, c.sasl.done = principal, true
	return nil
}

func (c *conn) verify(token []byte) (*auth.Principal, error) {
	parts := bytes.Split(token, []byte{0})
	if len(parts) != 3 {
		return nil, refuse(codeSASLAuthenticationFailed, "a PLAIN token has three parts: an authorization id, a name and a secret")
	}
	id, name, secret := string(parts[0]), string(parts[1]), string(parts[2])
	if id != "" && id != name {
		return nil, refuse(codeSASLAuthenticationFailed, "acting for another name than one's own is not supported")
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.s.cfg.AuthenticationTimeout)
	defer cancel()
	return c.s.cfg.Credentials.Verify(ctx, name, secret)
}
