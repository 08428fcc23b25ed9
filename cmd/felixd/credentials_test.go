package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"felix.local/felix/auth"
)

// tool runs a command that needs no server.
func tool(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = run(args, &out, &err)
	return code, out.String(), err.String()
}

func TestASecretThatIsMadeIsHashedQuicklyAndOneThatIsGivenSlowly(t *testing.T) {
	dir := t.TempDir()
	path, token := filepath.Join(dir, "credentials"), filepath.Join(dir, "token")
	if code, _, stderr := tool("credentials", "add", "--file", path, "--name", "made", "--grant", "read:*", "--token-file", token); code != exitOK {
		t.Fatal(stderr)
	}
	given := filepath.Join(dir, "secret")
	if err := os.WriteFile(given, []byte("a-secret-that-somebody-chose\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	stdin, err := os.Open(given)
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	old := os.Stdin
	os.Stdin = stdin
	defer func() { os.Stdin = old }()
	if code, _, stderr := tool("credentials", "add", "--file", path, "--name", "given", "--grant", "read:*", "--secret-stdin"); code != exitOK {
		t.Fatal(stderr)
	}
	code, listed, _ := tool("credentials", "check", "--file", path)
	if code != exitOK || !strings.Contains(listed, `"name":"made","grants":["read:*"],"scheme":"sha256","iterations":0`) ||
		!strings.Contains(listed, `"name":"given","grants":["read:*"],"scheme":"pbkdf2-sha256","iterations":600000`) {
		t.Errorf("exits %d: %s", code, listed)
	}
	credentials, err := auth.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(token)
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{strings.TrimSpace(string(text)), "given.a-secret-that-somebody-chose"} {
		if _, err := credentials.VerifyToken(t.Context(), token); err != nil {
			t.Error(err)
		}
	}
}

func TestAFileWithoutPrincipalsFailsTheCheckAndTheStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(path, []byte("# nobody yet\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, stdout, _ := tool("credentials", "check", "--file", path); code != exitVerify || !strings.Contains(stdout, "no principal") || !strings.Contains(stdout, `"problems":1`) {
		t.Errorf("the check exits %d: %s", code, stdout)
	}
	if code, _, stderr := tool(append([]string{"serve", "--credentials-file", path}, serveFlags(t)...)...); code != exitUsage || !strings.Contains(stderr, "no principal") {
		t.Errorf("the start exits %d: %s", code, stderr)
	}
}
