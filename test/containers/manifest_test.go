package containers

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// value gives what the only line with a key says.
func value(t *testing.T, text, key string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^[ -]*`+regexp.QuoteMeta(key)+`: *([^#\n]*?) *(?:#.*)?$`).FindAllStringSubmatch(text, -1)
	if len(found) != 1 {
		t.Fatalf("there are %d lines with the key %s", len(found), key)
	}
	return found[0][1]
}

// shutdownSeconds is how long a server may take to end by default.
func shutdownSeconds(t *testing.T) int {
	t.Helper()
	m := regexp.MustCompile("(?m)^\\| `FELIX_SHUTDOWN_TIMEOUT_SECONDS` \\| `(\\d+)` \\|").FindStringSubmatch(read(t, "docs/operations.md"))
	if m == nil {
		t.Fatal("docs/operations.md has no default of FELIX_SHUTDOWN_TIMEOUT_SECONDS")
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestTheManifestAgreesWithTheImage(t *testing.T) {
	_, rest, _ := strings.Cut(read(t, "docs/containers.md"), "```yaml\n")
	manifest, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("docs/containers.md shows no manifest")
	}
	d := readDockerfile(t)
	user, group, _ := strings.Cut(d.image().one(t, "USER"), ":")
	for key, want := range map[string]string{
		"runAsUser": user, "runAsGroup": group, "fsGroup": group, "runAsNonRoot": "true", "type": "Localhost",
		"readOnlyRootFilesystem": "true", "allowPrivilegeEscalation": "false", "capabilities": "{drop: [ALL]}",
		"exec": `{command: ["` + strings.Join(d.health(t).command, `", "`) + `"]}`,
	} {
		if got := value(t, manifest, key); got != want {
			t.Errorf("%s is %s, not %s", key, got, want)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "deploy", value(t, manifest, "localhostProfile"))); err != nil {
		t.Error(err)
	}
	if grace, err := strconv.Atoi(value(t, manifest, "terminationGracePeriodSeconds")); err != nil || grace <= shutdownSeconds(t) {
		t.Errorf("the pod is killed after %d s, %v", grace, err)
	}
	if !strings.Contains(manifest, "mountPath: "+d.image().one(t, "VOLUME")+"}") {
		t.Error("the volume is mounted elsewhere")
	}
}

func TestTheComposeFileConfinesTheServer(t *testing.T) {
	compose := read(t, "deploy/compose.yaml")
	_, server, _ := strings.Cut(compose, "\n  felixd:\n")
	server, _, _ = strings.Cut(server, "\n\n  ")
	for key, want := range map[string]string{"read_only": "true", "cap_drop": "[ALL]", "dockerfile": "Dockerfile.linux"} {
		if got := value(t, server, key); got != want {
			t.Errorf("%s is %s, not %s", key, got, want)
		}
	}
	if !strings.Contains(server, "\n      - no-new-privileges:true\n") {
		t.Error("the server may gain privileges")
	}
	m := regexp.MustCompile(`(?m)^      - seccomp=(\S+)$`).FindStringSubmatch(server)
	if m == nil {
		t.Fatal("the server has no profile")
	}
	if _, err := os.Stat(filepath.Join(root, "deploy", m[1])); err != nil {
		t.Error(err)
	}
	if grace, err := strconv.Atoi(strings.TrimSuffix(value(t, server, "stop_grace_period"), "s")); err != nil || grace <= shutdownSeconds(t) {
		t.Errorf("the server is killed after %d s, %v", grace, err)
	}
}
