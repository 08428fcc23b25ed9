package auth

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestTheRightSecretFindsItsPrincipal(t *testing.T) {
	c := loaded(t, lineOf(t, "a", "read:*"), lineOf(t, "b", "write:*"))
	for _, name := range []string{"a", "b"} {
		for _, verify := range []func() (*Principal, error){
			func() (*Principal, error) { return c.Verify(t.Context(), name, secretOf(name)) },
			func() (*Principal, error) { return c.VerifyToken(t.Context(), Token(name, secretOf(name))) },
		} {
			p, err := verify()
			if err != nil {
				t.Fatal(err)
			}
			if p.Name() != name || p.Allows(Read, "x") != (name == "a") || p.Allows(Write, "x") != (name == "b") {
				t.Errorf("%s became %s", name, p.Name())
			}
		}
	}
}

func TestWhatHashSecretMakesIsVerified(t *testing.T) {
	secret := NewSecret()
	hash, err := HashSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	again, err := HashSecret(secret)
	if err != nil || again == hash || !strings.HasPrefix(hash, "pbkdf2-sha256$600000$") {
		t.Errorf("hashed as %s and %s: %v", hash, again, err)
	}
	c := loaded(t, "a "+hash+" read:*\n")
	if _, err := c.VerifyToken(t.Context(), Token("a", secret)); err != nil {
		t.Error(err)
	}
	if NewSecret() == secret || len(secret) != 43 || strings.Contains(secret, ".") {
		t.Errorf("the secret %s", secret)
	}
}

func TestASecretThatIsWeakOrCannotBeSentIsNotHashed(t *testing.T) {
	for _, secret := range []string{
		"", "fifteen-bytes--", strings.Repeat("x", SecretMax+1), "has a blank in it", "has\ttab-has-tab-has", "has\nline-has-line-", "has\x00nul-has-nul-has",
		"größer-als-nötig-ist", "has-a-delete-\x7f-here",
	} {
		_, err := HashSecret(secret)
		var refused *SecretError
		if !errors.As(err, &refused) {
			t.Errorf("%q: %v", secret, err)
		}
		if secret != "" && strings.Contains(fmt.Sprint(err), secret) {
			t.Errorf("the error holds the secret: %v", err)
		}
	}
}

func TestWrongCredentialsAreDeniedAlike(t *testing.T) {
	c := loaded(t, lineOf(t, "a", "read:*"), lineOf(t, "b", "read:*"))
	for _, pair := range [][2]string{
		{"a", secretOf("b")},
		{"a", ""},
		{"a", secretOf("a") + "x"},
		{"a", secretOf("a")[1:]},
		{"A", secretOf("a")},
		{"", secretOf("a")},
		{"", ""},
		{"nobody", secretOf("a")},
		{"nobody", secretOf("b")},
		{"a\x00", secretOf("a")},
		{"../a", secretOf("a")},
		{"a", strings.Repeat("x", 1<<20)},
		{strings.Repeat("x", 1<<20), secretOf("a")},
	} {
		p, err := c.Verify(t.Context(), pair[0], pair[1])
		var denied *DeniedError
		if p != nil || !errors.As(err, &denied) {
			t.Errorf("%.20q %.20q: %v, %v", pair[0], pair[1], p, err)
			continue
		}
		if denied.Name != pair[0] || len(err.Error()) > 300 {
			t.Errorf("the error %.400v", err)
		}
	}
	for _, token := range []string{"", ".", "a", "a.", "." + secretOf("a"), "a " + secretOf("a"), "a:" + secretOf("a"), secretOf("a"), "a.." + secretOf("a"), "x.a." + secretOf("a")} {
		p, err := c.VerifyToken(t.Context(), token)
		var denied *DeniedError
		if p != nil || !errors.As(err, &denied) || strings.Contains(err.Error(), "secret-of") {
			t.Errorf("%q: %v, %v", token, p, err)
		}
	}
	if got := c.Stats(); got.Denied != 23 || got.Cached != 0 || got.Principals != 2 {
		t.Errorf("counts: %+v", got)
	}
	var none *Credentials
	if p, err := none.Verify(t.Context(), "a", secretOf("a")); p != nil || err == nil {
		t.Errorf("without credentials: %v, %v", p, err)
	}
	if p, err := none.VerifyToken(t.Context(), "a."+secretOf("a")); p != nil || err == nil {
		t.Errorf("without credentials: %v, %v", p, err)
	}
}

func TestAVerificationIsRepeatedWithoutDerivation(t *testing.T) {
	path := fileOf(t, lineOf(t, "a", "read:*"), lineOf(t, "b", "read:*"))
	c, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	verify := func(name, secret string, derived, cached uint64) {
		t.Helper()
		before := c.Stats()
		_, _ = c.Verify(t.Context(), name, secret)
		after := c.Stats()
		if after.Derived-before.Derived != derived || after.Cached-before.Cached != cached {
			t.Errorf("%s %s: %d derived, %d cached", name, secret, after.Derived-before.Derived, after.Cached-before.Cached)
		}
	}
	verify("a", secretOf("a"), 1, 0)
	verify("a", secretOf("a"), 0, 1)
	verify("b", secretOf("b"), 1, 0)
	verify("a", secretOf("a"), 0, 1)
	// What is wrong is never remembered, and neither does it push out what is right.
	verify("a", "wrong", 1, 0)
	verify("a", "wrong", 1, 0)
	verify("nobody", "wrong", 1, 0)
	verify("a", secretOf("a"), 0, 1)
	if table := c.table.Load(); table.digest("ab", "c") == table.digest("a", "bc") {
		t.Error("pairs are not told apart")
	}
	// A reload forgets what no longer applies, and nothing else.
	rewrite(t, path, lineOf(t, "a", "write:*"), lineWith(t, "b", "another-secret-now", IterationsMin, "read:*"))
	if err := c.Reload(); err != nil {
		t.Fatal(err)
	}
	verify("a", secretOf("a"), 0, 1)
	verify("b", secretOf("b"), 1, 0)
	verify("b", "another-secret-now", 1, 0)
	verify("b", "another-secret-now", 0, 1)
}

func TestAnUnknownNameCostsWhatAKnownOneCosts(t *testing.T) {
	lines := make([]string, 0, 8)
	for i := range 8 {
		name := fmt.Sprint("p", i)
		lines = append(lines, lineWith(t, name, secretOf(name), IterationsMin+i, "read:*"))
	}
	c := loaded(t, lines...)
	var asked []int
	c.deriveHash = func(secret string, salt []byte, iterations int) ([]byte, error) {
		asked = append(asked, iterations)
		return derive(secret, salt, iterations)
	}
	seen := make(map[int]bool)
	for i := range 200 {
		name := fmt.Sprint("nobody", i)
		asked = nil
		for range 2 {
			if _, err := c.Verify(t.Context(), name, secretOf("p1")); err == nil {
				t.Fatalf("%s is let in", name)
			}
		}
		if len(asked) != 2 || asked[0] != asked[1] {
			t.Fatalf("%s cost %v iterations", name, asked)
		}
		seen[asked[0]] = true
	}
	if len(seen) != 8 || !seen[IterationsMin] || !seen[IterationsMin+7] {
		t.Errorf("unknown names cost %v, unlike known ones", seen)
	}
}

// held makes derivations wait until they are let go, and tells when one began.
func held(c *Credentials) (began chan struct{}, letGo chan struct{}) {
	began, letGo = make(chan struct{}), make(chan struct{})
	c.deriveHash = func(secret string, salt []byte, iterations int) ([]byte, error) {
		began <- struct{}{}
		<-letGo
		return derive(secret, salt, iterations)
	}
	return began, letGo
}

func TestDerivationsAndThoseThatWaitForThemAreBounded(t *testing.T) {
	c, err := LoadWith(fileOf(t, lineOf(t, "a", "read:*")), Options{DerivationsMax: 2, WaitingMax: 3})
	if err != nil {
		t.Fatal(err)
	}
	began, letGo := held(c)
	ended := make(chan error)
	verify := func(ctx context.Context) {
		_, err := c.Verify(ctx, "a", "wrong")
		ended <- err
	}
	for range 2 {
		go verify(t.Context())
		<-began
	}
	ctx, cancel := context.WithCancel(t.Context())
	for range 3 {
		go verify(ctx)
	}
	// Whether the three wait yet is seen from the fourth being turned away.
	var busy *BusyError
	for {
		probe, stop := context.WithCancel(t.Context())
		go verify(probe)
		for c.waiting.Load() < 3 {
			runtime.Gosched()
		}
		stop()
		err := <-ended
		if !errors.As(err, &busy) {
			t.Fatal(err)
		}
		if busy.Err == nil {
			break
		}
	}
	if busy.Waiting != 3 || !strings.Contains(busy.Error(), "try again later") {
		t.Errorf("%+v: %v", busy, busy)
	}
	cancel()
	for range 3 {
		if err := <-ended; !errors.As(err, &busy) || !errors.Is(err, context.Canceled) {
			t.Errorf("a waiter ended with %v", err)
		}
	}
	close(letGo)
	for range 2 {
		var denied *DeniedError
		if err := <-ended; !errors.As(err, &denied) {
			t.Error(err)
		}
	}
	if got := c.Stats(); got.Derived != 2 || got.Denied != 2 || got.Busy < 4 || c.waiting.Load() != 0 || len(c.slots) != 0 {
		t.Errorf("%+v, %d waiting, %d slots taken", got, c.waiting.Load(), len(c.slots))
	}
}

func TestAWaitEndsByItself(t *testing.T) {
	c, err := LoadWith(fileOf(t, lineOf(t, "a", "read:*")), Options{DerivationsMax: 1, WaitMax: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	c.slots <- struct{}{}
	_, err = c.Verify(context.WithoutCancel(t.Context()), "a", secretOf("a"))
	var busy *BusyError
	if !errors.As(err, &busy) || !errors.Is(err, context.DeadlineExceeded) || c.waiting.Load() != 0 {
		t.Error(err)
	}
}

func TestAnEndedContextDerivesNothing(t *testing.T) {
	c := loaded(t, lineOf(t, "a", "read:*"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Verify(ctx, "a", secretOf("a"))
	var busy *BusyError
	if !errors.As(err, &busy) || !errors.Is(err, context.Canceled) || c.Stats().Derived != 0 {
		t.Errorf("%v, %+v", err, c.Stats())
	}
}

func TestManyClientsWithOneSecretDeriveItOncePerSlot(t *testing.T) {
	c, err := LoadWith(fileOf(t, lineOf(t, "a", "read:*")), Options{DerivationsMax: 1})
	if err != nil {
		t.Fatal(err)
	}
	began, letGo := held(c)
	var clients sync.WaitGroup
	for range 50 {
		clients.Go(func() {
			if _, err := c.Verify(t.Context(), "a", secretOf("a")); err != nil {
				t.Error(err)
			}
		})
	}
	<-began
	close(letGo)
	clients.Wait()
	if got := c.Stats(); got.Derived != 1 || got.Cached != 49 {
		t.Errorf("%+v", got)
	}
}

func TestADerivationThatFailsLetsNobodyIn(t *testing.T) {
	c := loaded(t, lineOf(t, "a", "read:*"))
	broken := errors.New("no such hash here")
	c.deriveHash = func(string, []byte, int) ([]byte, error) { return nil, broken }
	if p, err := c.Verify(t.Context(), "a", secretOf("a")); p != nil || !errors.Is(err, broken) || len(c.slots) != 0 {
		t.Errorf("%v, %v", p, err)
	}
}
