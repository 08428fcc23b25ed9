package auth

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func TestASecretThatWasMadeIsVerifiedWithoutDerivationOrWait(t *testing.T) {
	path, secret := filepath.Join(t.TempDir(), "credentials"), NewSecret()
	if err := AddGenerated(path, "made", secret, []string{"read:*"}); err != nil {
		t.Fatal(err)
	}
	if err := Add(path, "chosen", secretOf("chosen"), []string{"read:*"}); err != nil {
		t.Fatal(err)
	}
	c, err := LoadWith(path, Options{DerivationsMax: 1, WaitingMax: 1})
	if err != nil {
		t.Fatal(err)
	}
	// Somebody guesses: the one place is taken, and so is the queue.
	began, letGo := held(c)
	guess, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := c.Verify(guess, "chosen", "wrong")
		ended <- err
	}()
	<-began
	c.waiting.Add(1)
	for range 2 {
		p, err := c.VerifyToken(t.Context(), Token("made", secret))
		if err != nil || p.Name() != "made" || !p.Allows(Read, "x") {
			t.Errorf("%v", err)
		}
	}
	var denied *DeniedError
	if _, err := c.Verify(t.Context(), "made", NewSecret()); !errors.As(err, &denied) {
		t.Errorf("a wrong secret: %v", err)
	}
	var busy *BusyError
	if _, err := c.Verify(t.Context(), "chosen", secretOf("chosen")); !errors.As(err, &busy) {
		t.Errorf("the queue has room: %v", err)
	}
	if got := c.Stats(); got.Fast != 3 || got.Derived != 1 || got.Denied != 1 {
		t.Errorf("%+v", got)
	}
	stop()
	close(letGo)
	if err := <-ended; !errors.As(err, &denied) {
		t.Error(err)
	}
	c.waiting.Add(-1)
}

func TestOnlyASecretThatWasMadeGetsTheFastHash(t *testing.T) {
	for _, secret := range []string{"", secretOf("a"), NewSecret() + "A", NewSecret()[1:], strings.Repeat("!", 43), NewSecret() + "="} {
		var refused *SecretError
		if _, err := HashGenerated(secret); !errors.As(err, &refused) {
			t.Errorf("%q: %v", secret, err)
		}
		if err := AddGenerated(filepath.Join(t.TempDir(), "f"), "a", secret, []string{"read:*"}); !errors.As(err, &refused) {
			t.Errorf("%q: %v", secret, err)
		}
	}
	secret := NewSecret()
	one, err := HashGenerated(secret)
	other, otherErr := HashGenerated(secret)
	if err != nil || otherErr != nil || one == other || !strings.HasPrefix(one, "sha256$") {
		t.Errorf("%s and %s: %v, %v", one, other, err, otherErr)
	}
}

func TestRecallNeitherDerivesNorWaits(t *testing.T) {
	secret := NewSecret()
	c := loaded(t, fastLineOf(t, "made", secret, "read:*"), lineOf(t, "chosen", "read:*"))
	chosen := Token("chosen", secretOf("chosen"))
	if p := c.Recall(chosen); p != nil {
		t.Error("a secret that was never verified is recalled")
	}
	if _, err := c.VerifyToken(t.Context(), chosen); err != nil {
		t.Fatal(err)
	}
	derived := c.Stats().Derived
	for token, want := range map[string]string{
		Token("made", secret): "made", chosen: "chosen", Token("made", NewSecret()): "", chosen + "x": "", "made": "", "": "", "nobody." + secret: "",
		Token("made", strings.Repeat("x", 1<<20)): "",
	} {
		p := c.Recall(token)
		if (p != nil) != (want != "") || p != nil && p.Name() != want {
			t.Errorf("%.40q is recalled as %v, want %q", token, p, want)
		}
	}
	if got := c.Stats().Derived; got != derived {
		t.Errorf("%d derivations", got-derived)
	}
	if p := (*Credentials)(nil).Recall(chosen); p != nil {
		t.Error("without credentials somebody is recalled")
	}
}
