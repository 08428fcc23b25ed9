package auth

import (
	"errors"
	"os"
	"sync"
	"testing"
)

func TestAReloadReachesPrincipalsThatAreConnected(t *testing.T) {
	path := fileOf(t, lineOf(t, "a", "read:*"), lineOf(t, "b", "read:*"), lineOf(t, "c", "read:*"))
	c, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	connected := make(map[string]*Principal)
	for _, name := range []string{"a", "b", "c"} {
		if connected[name], err = c.Verify(t.Context(), name, secretOf(name)); err != nil {
			t.Fatal(err)
		}
	}
	// a gets other grants, b another secret, c is gone.
	rewrite(t, path, lineOf(t, "a", "write:*"), lineWith(t, "b", "another-secret-now", IterationsMin, "read:*"))
	if !connected["c"].Allows(Read, "x") {
		t.Error("c is gone before the reload")
	}
	if err := c.Reload(); err != nil {
		t.Fatal(err)
	}
	if a := connected["a"]; a.Allows(Read, "x") || !a.Allows(Write, "x") {
		t.Error("a has not the new grants")
	}
	if connected["b"].Allows(Read, "x") || connected["c"].Allows(Read, "x") {
		t.Error("b or c may still read")
	}
	var denied *DeniedError
	for _, name := range []string{"b", "c"} {
		if _, err := c.Verify(t.Context(), name, secretOf(name)); !errors.As(err, &denied) {
			t.Errorf("%s is let in again: %v", name, err)
		}
	}
	b, err := c.Verify(t.Context(), "b", "another-secret-now")
	if err != nil || !b.Allows(Read, "x") {
		t.Errorf("the new secret: %v", err)
	}
}

func TestAReloadThatFailsKeepsWhatWas(t *testing.T) {
	path := fileOf(t, lineOf(t, "a", "read:*"))
	c, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.Verify(t.Context(), "a", secretOf("a"))
	if err != nil {
		t.Fatal(err)
	}
	for what, spoil := range map[string]func() error{
		"nonsense": func() error { return os.WriteFile(path, []byte("nonsense\n"), 0o600) },
		"mode":     func() error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o666)) },
		"gone":     func() error { return os.Remove(path) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		var problem *FileError
		if err := c.Reload(); !errors.As(err, &problem) {
			t.Errorf("%s: %v", what, err)
		}
		before := c.Stats().Derived
		if _, err := c.Verify(t.Context(), "a", secretOf("a")); err != nil || !a.Allows(Read, "x") || c.Stats().Derived != before {
			t.Errorf("%s: a lost what it had: %v", what, err)
		}
	}
}

func TestReloadsAndVerificationsGoTogether(t *testing.T) {
	path := fileOf(t, lineOf(t, "a", "read:*"))
	c, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				p, err := c.Verify(t.Context(), "a", secretOf("a"))
				if err != nil || !p.Allows(Read, "x") || p.Allows(Write, "x") {
					t.Errorf("%v", err)
				}
			}
		})
		all.Go(func() {
			for range 50 {
				if err := c.Reload(); err != nil {
					t.Error(err)
				}
				if c.Stats().Principals != 1 || len(c.List()) != 1 {
					t.Error("half a table")
				}
			}
		})
	}
	all.Wait()
}
