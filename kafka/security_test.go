package kafka

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"felix.local/felix/auth"
	"felix.local/felix/broker"
)

const secret = "a-secret-of-some-length"

// credentials knows "root", who may do everything, and "reader", who may read
// tenant "acme".
func credentials(t *testing.T) (known *auth.Credentials, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "credentials")
	for name, grants := range map[string][]string{
		"root": {"read:*", "write:*", "admin:*"}, "reader": {"read:acme"},
	} {
		if err := auth.Add(path, name, secret, grants); err != nil {
			t.Fatal(err)
		}
	}
	c, err := auth.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return c, path
}

// guarded is a server that asks who its clients are.
func guarded(t *testing.T, change ...func(*Config, *broker.Config)) *rig {
	known, _ := credentials(t)
	return start(t, append([]func(*Config, *broker.Config){func(c *Config, _ *broker.Config) { c.Credentials = known }}, change...)...)
}

// as authenticates with a name.
func as(name, secret string) kgo.Opt {
	return kgo.SASL(plain.Auth{User: name, Pass: secret}.AsMechanism())
}

func TestOnlyWhoAuthenticatesIsServed(t *testing.T) {
	r := guarded(t)
	if err := r.client(as("root", secret)).Ping(r.ctx()); err != nil {
		t.Errorf("the right secret gave %v", err)
	}
	for name, opt := range map[string]kgo.Opt{
		"wrong secret": as("root", secret+"!"), "unknown name": as("nobody", secret),
		"acting for another": kgo.SASL(plain.Auth{Zid: "reader", User: "root", Pass: secret}.AsMechanism()),
	} {
		if err := r.client(opt).Ping(r.ctx()); !errors.Is(err, kerr.SaslAuthenticationFailed) {
			t.Errorf("%s gave %v", name, err)
		}
	}
	ctx, cancel := context.WithTimeout(r.ctx(), 200*time.Millisecond)
	defer cancel()
	if err := r.client().Ping(ctx); err == nil {
		t.Error("a client without credentials was served")
	}
	if n := r.server.Stats().AuthenticationFailures; n < 3 {
		t.Errorf("%d failures were counted", n)
	}
}

func TestBeforeAuthenticationOnlyVersionsAndSASLAreAnswered(t *testing.T) {
	r := guarded(t, func(c *Config, _ *broker.Config) { c.StrangerRequestBytesMax = 1000 })
	for key, request := range requests() {
		c := r.dial()
		if key == keyAPIVersions || key == keySASLHandshake {
			c.ask(request)
			continue
		}
		if key == keySASLAuthenticate {
			if got := failureOf(c.ask(request)); got != codeIllegalSASLState {
				t.Errorf("a token without a handshake gave %d", got)
			}
			continue
		}
		c.send(request)
		c.ended(kmsg.NameForKey(key))
	}
	c := r.dial()
	c.write([]byte{0, 0, 0x10, 0, 0, byte(keySASLAuthenticate), 0, 0, 0, 0, 0, 1})
	c.ended("a large request of a stranger")
	if n := r.server.Stats().RequestsRefused; n == 0 {
		t.Error("no refusals were counted")
	}
}

func TestAWrongSecretEndsTheConnectionAfterItsAnswer(t *testing.T) {
	r := guarded(t)
	c := r.dial()
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Mechanism = "SCRAM-SHA-256"
	if got := failureOf(c.ask(handshake)); got != codeUnsupportedSASLMechanism {
		t.Errorf("SCRAM gave %d", got)
	}
	handshake.Mechanism = mechanism
	c.ask(version(1, handshake))
	token := version(2, kmsg.NewPtrSASLAuthenticateRequest())
	token.SASLAuthBytes = []byte("\x00root\x00wrong")
	answer := c.ask(token).(*kmsg.SASLAuthenticateResponse)
	if code(answer.ErrorCode) != codeSASLAuthenticationFailed || answer.ErrorMessage == nil {
		t.Errorf("got %+v", answer)
	}
	c.ended("after the answer")
}

func TestOldClientsSendTheirTokenBare(t *testing.T) {
	r := guarded(t)
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Mechanism = mechanism
	for token, right := range map[string]bool{"\x00root\x00" + secret: true, "\x00root\x00wrong": false, "": false} {
		c := r.dial()
		c.ask(version(0, handshake))
		frame := append([]byte{0, 0, 0, byte(len(token))}, token...)
		c.write(frame)
		if !right {
			c.ended("a wrong token")
			continue
		}
		if body, err := c.frame(); err != nil || len(body) != 0 {
			t.Errorf("the right token gave %x, %v", body, err)
		}
		c.ask(version(9, kmsg.NewPtrMetadataRequest()))
	}
}

func TestStrangersHaveLimitedTime(t *testing.T) {
	r := guarded(t, func(c *Config, _ *broker.Config) { c.AuthenticationTimeout = time.Second })
	c := r.dial()
	c.ended("silent")
	c = r.dial()
	c.ask(version(3, kmsg.NewPtrApiVersionsRequest()))
	c.ended("asked for the versions, and was silent then")
}

func TestGrantsAreAskedForEachTopic(t *testing.T) {
	r := guarded(t)
	root := kadm.NewClient(r.client(as("root", secret)))
	for _, topic := range []string{"acme.shop.orders", "other.shop.orders"} {
		if _, err := root.CreateTopic(r.ctx(), 1, 1, nil, topic); err != nil {
			t.Fatal(err)
		}
	}
	r.produce(r.client(as("root", secret)), &kgo.Record{Topic: "acme.shop.orders", Value: []byte("v")})
	if got := r.consume(1, from("acme.shop.orders", 0, kgo.NewOffset().AtStart()), as("reader", secret)); string(got[0].Value) != "v" {
		t.Errorf("a reader read %q", got[0].Value)
	}
	c := r.client(as("reader", secret), kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(0))
	admin := kadm.NewClient(c)
	listed, err := admin.ListTopics(r.ctx())
	if err != nil || len(listed) != 1 || !listed.Has("acme.shop.orders") {
		t.Errorf("a reader sees %v, %v", listed.Names(), err)
	}
	denied := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, kerr.TopicAuthorizationFailed) {
			t.Errorf("%s gave %v", what, err)
		}
	}
	denied("writing", c.ProduceSync(r.ctx(), &kgo.Record{Topic: "acme.shop.orders"}).FirstErr())
	denied("writing elsewhere", c.ProduceSync(r.ctx(), &kgo.Record{Topic: "other.shop.orders"}).FirstErr())
	denied("making a topic by use", c.ProduceSync(r.ctx(), &kgo.Record{Topic: "acme.shop.fresh"}).FirstErr())
	_, err = admin.CreateTopic(r.ctx(), 1, 1, nil, "acme.shop.fresh")
	denied("making a topic", err)
	deleted, err := admin.DeleteTopics(r.ctx(), "acme.shop.orders")
	if err != nil {
		t.Fatal(err)
	}
	denied("deleting", deleted.Error())
	for what, request := range map[string]kmsg.Request{
		"fetching elsewhere": fetchOf("other.shop.orders", 0, 0),
	} {
		answer, err := c.Request(r.ctx(), request)
		if err != nil {
			t.Fatal(err)
		}
		denied(what, kerr.ErrorForCode(int16(failureOf(answer))))
	}
}

func TestAWaitingFetchEndsWithItsGrant(t *testing.T) {
	known, path := credentials(t)
	r := start(t, func(c *Config, _ *broker.Config) { c.Credentials = known })
	root := r.client(as("root", secret))
	if _, err := kadm.NewClient(root).CreateTopic(r.ctx(), 1, 1, nil, "acme.shop.orders"); err != nil {
		t.Fatal(err)
	}
	c := r.dial()
	handshake := version(1, kmsg.NewPtrSASLHandshakeRequest())
	handshake.Mechanism = mechanism
	c.ask(handshake)
	token := version(2, kmsg.NewPtrSASLAuthenticateRequest())
	token.SASLAuthBytes = []byte("\x00reader\x00" + secret)
	c.ask(token)
	fetch := fetchOf("acme.shop.orders", 0, 0)
	fetch.MinBytes, fetch.MaxWaitMillis = 1, 60_000
	c.send(fetch)
	r.until("the fetch was read", func() bool { return r.server.Stats().Requests["Fetch"] == 1 })
	if err := errors.Join(auth.Remove(path, "reader"), known.Reload()); err != nil {
		t.Fatal(err)
	}
	r.produce(root, &kgo.Record{Topic: "acme.shop.orders", Value: []byte("not for everybody")})
	if got := failureOf(c.receive(fetch, c.correlation)); got != codeTopicAuthorizationFailed {
		t.Errorf("the fetch ended with %d", got)
	}
}

// certificate is one that a client can be told to trust.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestTLSCarriesEverything(t *testing.T) {
	pair, pool := certificate(t)
	plainRig := start(t) // for its broker
	r := serve(t, Config{Broker: plainRig.broker, AutoCreate: true, AuthenticationTimeout: time.Second}, func(l net.Listener) net.Listener {
		return tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair}})
	})
	dial := kgo.DialTLSConfig(&tls.Config{RootCAs: pool})
	r.produce(r.client(dial, kgo.AllowAutoTopicCreation(), kgo.ProducerBatchMaxBytes(4<<20)), varied("tls", 2000)...)
	if got := r.consume(2000, from("tls", 0, kgo.NewOffset().AtStart()), dial); got[1999].Offset != 1999 {
		t.Errorf("the last is %d", got[1999].Offset)
	}
	r.dial().ended("a client that never says hello")
	c := r.dial()
	c.write([]byte("this is no TLS hello"))
	if b, err := c.frame(); err == nil {
		t.Errorf("a client without TLS got %x", b)
	}
}
