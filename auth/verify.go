package auth

import (
	"context"
	"crypto/subtle"
	"strings"
)

// Verify finds the principal of a name and a secret, as SASL/PLAIN carries them.
//
// A pair that was found right before, and any of a principal whose secret was made
// here, costs microseconds, any other one about 0.1 s of one processor, and maybe a
// wait for others, until ctx or WaitMax ends it. The error is a *DeniedError when name or secret is wrong, and a *BusyError when
// they were not looked at.
func (c *Credentials) Verify(ctx context.Context, name, secret string) (*Principal, error) {
	if c == nil {
		return nil, &DeniedError{Name: name}
	}
	if nameProblem(name) != "" || len(secret) > SecretMax {
		return nil, c.denied(name)
	}
	t := c.table.Load()
	e, known := t.named[name]
	hash := t.decoy(name)
	if known {
		hash = e.hash
	}
	if hash.fast() {
		c.counters.fast.Add(1)
		return c.judge(e, name, hash, digestFast(secret, hash.salt))
	}
	digest := t.digest(name, secret)
	if known && e.provedBy(digest) {
		c.counters.cached.Add(1)
		return c.principal(e), nil
	}
	if err := c.acquire(ctx); err != nil {
		c.counters.busy.Add(1)
		return nil, err
	}
	defer c.release()
	if known && e.provedBy(digest) { // by the one that was waited for
		c.counters.cached.Add(1)
		return c.principal(e), nil
	}
	c.counters.derived.Add(1)
	sum, err := c.deriveHash(secret, hash.salt, hash.iterations)
	if err != nil {
		return nil, err
	}
	p, err := c.judge(e, name, hash, sum)
	if err == nil {
		e.proved.Store(&digest)
	}
	return p, err
}

// judge compares what became of a secret with the hash of an entry, nil for a name
// that is unknown.
func (c *Credentials) judge(e *entry, name string, hash secretHash, sum []byte) (*Principal, error) {
	if right := subtle.ConstantTimeCompare(sum, hash.sum) == 1; !right || e == nil {
		return nil, c.denied(name)
	}
	return c.principal(e), nil
}

// Recall finds the principal of a bearer token if that takes neither a derivation nor
// a wait: the secret is one that was made here, or was found right before. Else it
// gives nil, which says nothing about the token.
func (c *Credentials) Recall(token string) *Principal {
	name, secret, found := strings.Cut(token, ".")
	if c == nil || !found || len(secret) > SecretMax {
		return nil
	}
	t := c.table.Load()
	e := t.named[name]
	switch {
	case e == nil:
	case e.hash.fast() && subtle.ConstantTimeCompare(digestFast(secret, e.hash.salt), e.hash.sum) == 1:
		return c.principal(e)
	case !e.hash.fast() && e.provedBy(t.digest(name, secret)):
		return c.principal(e)
	}
	return nil
}

// VerifyToken finds the principal of a bearer token, "<name>.<secret>". Cost and
// errors are those of Verify.
func (c *Credentials) VerifyToken(ctx context.Context, token string) (*Principal, error) {
	name, secret, found := strings.Cut(token, ".")
	if c == nil || !found {
		// All of it may be a secret, so the error names nobody.
		return nil, c.denied("")
	}
	return c.Verify(ctx, name, secret)
}

func (c *Credentials) denied(name string) error {
	if c != nil {
		c.counters.denied.Add(1)
	}
	return &DeniedError{Name: name}
}

func (c *Credentials) principal(e *entry) *Principal {
	return &Principal{name: e.name, source: c, hash: e.hash.text}
}

// acquire waits until one more hash may be derived.
func (c *Credentials) acquire(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return &BusyError{Err: err}
	}
	select {
	case c.slots <- struct{}{}:
		return nil
	default:
	}
	defer c.waiting.Add(-1)
	if c.waiting.Add(1) > int64(c.options.WaitingMax) {
		return &BusyError{Waiting: c.options.WaitingMax}
	}
	ctx, cancel := context.WithTimeout(ctx, c.options.WaitMax)
	defer cancel()
	select {
	case c.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &BusyError{Err: ctx.Err()}
	}
}

func (c *Credentials) release() { <-c.slots }
