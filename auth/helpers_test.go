package auth

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// secretOf is the secret of a principal in the tests.
func secretOf(name string) string { return name + "-has-a-secret-of-its-own" }

// lineOf is the line of a principal, with few iterations, so that tests are quick.
func lineOf(t testing.TB, name string, grants ...string) string {
	t.Helper()
	return lineWith(t, name, secretOf(name), IterationsMin, grants...)
}

func lineWith(t testing.TB, name, secret string, iterations int, grants ...string) string {
	t.Helper()
	salt := bytes.Repeat([]byte{7}, saltMin)
	sum, err := derive(secret, salt, iterations)
	if err != nil {
		t.Fatal(err)
	}
	hash := fmt.Sprintf("pbkdf2-sha256$%d$%s$%s", iterations, hash64().EncodeToString(salt), hash64().EncodeToString(sum))
	return name + " " + hash + " " + strings.Join(grants, " ") + "\n"
}

// fastLineOf is the line of a principal whose secret was made.
func fastLineOf(t testing.TB, name, secret string, grants ...string) string {
	t.Helper()
	hash, err := HashGenerated(secret)
	if err != nil {
		t.Fatal(err)
	}
	return name + " " + hash + " " + strings.Join(grants, " ") + "\n"
}

// fileOf makes a credentials file.
func fileOf(t testing.TB, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "credentials")
	rewrite(t, path, lines...)
	return path
}

func rewrite(t testing.TB, path string, lines ...string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
}

// loaded loads a credentials file of these lines.
func loaded(t testing.TB, lines ...string) *Credentials {
	t.Helper()
	c, err := Load(fileOf(t, lines...))
	if err != nil {
		t.Fatal(err)
	}
	return c
}
