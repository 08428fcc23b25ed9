package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strings"
	"time"

	"felix.local/felix/broker"
)

// clientFlags say which server to talk to, and as whom.
type clientFlags struct {
	Server string `name:"server" env:"FELIX_SERVER" default:"http://127.0.0.1:8080" placeholder:"URL" help:"the server's HTTP address"`
	identityFlags
}

// identityFlags say who a client is, and whom it takes for the server.
type identityFlags struct {
	Token     string `name:"token" env:"FELIX_TOKEN" placeholder:"NAME.SECRET" help:"bearer token; better given by the variable or a file, since others see command lines"`
	TokenFile string `name:"token-file" type:"path" env:"FELIX_TOKEN_FILE" placeholder:"FILE" help:"file that holds the bearer token; it wins over --token"`
	CAFile    string `name:"ca-file" type:"path" env:"FELIX_CA_FILE" placeholder:"FILE" help:"authorities, PEM, that the server's certificate may come from; without it the system's"`
	CertFile  string `name:"cert-file" type:"path" env:"FELIX_CERT_FILE" placeholder:"FILE" help:"certificate, PEM, to show to a server that asks for one"`
	KeyFile   string `name:"key-file" type:"path" env:"FELIX_KEY_FILE" placeholder:"FILE" help:"private key of the certificate, PEM"`
}

const (
	// clientDialTimeout and clientAnswerTimeout bound how long a server may take to
	// be reached and to begin an answer: longer than it lets a publish wait.
	clientDialTimeout   = 10 * time.Second
	clientAnswerTimeout = 90 * time.Second
	// clientDocumentMax bounds a JSON answer; a list of many streams is long.
	clientDocumentMax = 256 << 20
	// clientErrorMax bounds what is read of an answer that is no JSON error.
	clientErrorMax = 64 << 10
)

// client talks to one server.
type client struct {
	base *url.URL
	// flag is the one that named the server.
	flag  string
	token string
	http  *http.Client
}

// serverError is what a server answered in place of what it was asked for, or with
// Status 0, what ended a subscription.
type serverError struct {
	Status                int
	Code, Message, Action string
	// Oldest is the first offset that can be read, when Code says that earlier ones
	// are gone.
	Oldest *uint64
}

func (e *serverError) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("the server answered HTTP %d: %s", e.Status, e.Message)
	}
	s := fmt.Sprintf("%s: %s", e.Code, e.Message)
	if e.Action != "" {
		s += "; " + e.Action
	}
	if e.Status == 0 {
		return s
	}
	return fmt.Sprintf("%s (HTTP %d)", s, e.Status)
}

// client makes a client of the flags.
func (f *clientFlags) client() (*client, error) {
	return f.identityFlags.client("--server (FELIX_SERVER)", f.Server)
}

// client makes a client of the server at address, which the flag gave that is named with
// its variable.
func (f *identityFlags) client(flag, address string) (*client, error) {
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, usage("%s %q is no http:// or https:// address", flag, address)
	}
	token := strings.TrimSpace(f.Token)
	if f.TokenFile != "" {
		text, err := os.ReadFile(f.TokenFile)
		if err != nil {
			return nil, err
		}
		token = strings.TrimSpace(string(text))
	}
	if strings.ContainsAny(token, "\r\n") {
		return nil, usage("the token has more than one line")
	}
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: clientDialTimeout}).DialContext,
		TLSHandshakeTimeout:   clientDialTimeout,
		ResponseHeaderTimeout: clientAnswerTimeout,
		ForceAttemptHTTP2:     true,
	}
	if transport.TLSClientConfig, err = f.tls(); err != nil {
		return nil, err
	}
	return &client{base: base, flag: flag, token: token, http: &http.Client{
		Transport: transport,
		// A redirect would carry the token to somebody else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// tls says whom to trust and what to show.
func (f *identityFlags) tls() (*tls.Config, error) {
	config := new(tls.Config)
	if f.CAFile != "" {
		pem, err := os.ReadFile(f.CAFile)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, usage("--ca-file %s holds no certificate in PEM form", f.CAFile)
		}
	}
	if (f.CertFile == "") != (f.KeyFile == "") {
		return nil, usage("--cert-file and --key-file: one is given without the other")
	}
	if f.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(f.CertFile, f.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("--cert-file %s with --key-file %s: %w", f.CertFile, f.KeyFile, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// streamPath is the path of a stream, or of something of it.
func streamPath(name broker.StreamName, of ...string) string {
	parts := append([]string{"v1", "streams", name.Tenant, name.Namespace, name.Stream}, of...)
	return strings.Join(parts, "/")
}

// request is one request to a server.
type request struct {
	method, path string
	query        url.Values
	header       http.Header
	body         []byte
}

// do sends a request and returns the answer, whose body the caller closes. An
// answer that is no success is a *serverError.
func (c *client) do(ctx context.Context, r request) (*http.Response, error) {
	at := c.base.JoinPath(r.path)
	at.RawQuery = r.query.Encode()
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	out, err := http.NewRequestWithContext(ctx, r.method, at.String(), body)
	if err != nil {
		return nil, err
	}
	if r.header != nil {
		out.Header = r.header.Clone()
	}
	answer, err := c.send(out)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		defer answer.Body.Close()
		return nil, c.atShell(r, readServerError(answer))
	}
	return answer, nil
}

// send sends a request as the client's principal. An error is an *unreachedError or a
// *lostError, unless the request's context has ended.
func (c *client) send(out *http.Request) (*http.Response, error) {
	reached := false
	out = out.WithContext(httptrace.WithClientTrace(out.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { reached = true },
	}))
	if c.token != "" {
		out.Header.Set("Authorization", "Bearer "+c.token)
	}
	answer, err := c.http.Do(out)
	var failed *url.Error
	if errors.As(err, &failed) && out.Context().Err() == nil {
		err = &unreachedError{host: c.base.Host, flag: c.flag, err: failed.Err}
		if reached {
			err = &lostError{host: c.base.Host, err: failed.Err}
		}
	}
	return answer, err
}

// readServerError reads the JSON form of an error, or shows what else was answered.
func readServerError(answer *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(answer.Body, clientErrorMax))
	if err != nil {
		return fmt.Errorf("the server answered HTTP %d, and reading why failed: %w", answer.StatusCode, err)
	}
	var document struct {
		Error errorDocument `json:"error"`
	}
	if json.Unmarshal(text, &document) != nil || document.Error.Code == "" {
		return &serverError{Status: answer.StatusCode, Message: strings.TrimSpace(string(text))}
	}
	return document.Error.serverError(answer.StatusCode)
}

// errorDocument is the form of every error of the server.
type errorDocument struct {
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Action  string  `json:"action"`
	Oldest  *uint64 `json:"oldest"`
}

func (d errorDocument) serverError(status int) *serverError {
	return &serverError{Status: status, Code: d.Code, Message: d.Message, Action: d.Action, Oldest: d.Oldest}
}

// json sends a request and reads the JSON document that answers it; into may be nil.
func (c *client) json(ctx context.Context, r request, into any) (err error) {
	answer, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	defer joined(&err, answer.Body.Close)
	body := io.LimitReader(answer.Body, clientDocumentMax)
	if into == nil {
		_, err = io.Copy(io.Discard, body)
		return err
	}
	if err := json.NewDecoder(body).Decode(into); err != nil {
		if notJSON := (*json.SyntaxError)(nil); !errors.As(err, &notJSON) {
			return &lostError{host: c.base.Host, err: err}
		}
		return fmt.Errorf("the server's answer cannot be read: %w", err)
	}
	return nil
}

// read reads one page of records.
func (c *client) read(ctx context.Context, r request) (records []feedRecord, err error) {
	answer, err := c.do(ctx, r)
	if err != nil {
		return nil, err
	}
	defer joined(&err, answer.Body.Close)
	lines := json.NewDecoder(io.LimitReader(answer.Body, clientDocumentMax))
	for {
		var record feedRecord
		if err := lines.Decode(&record); errors.Is(err, io.EOF) {
			return records, nil
		} else if err != nil {
			return records, fmt.Errorf("the server's answer cannot be read: %w", err)
		}
		records = append(records, record)
	}
}
