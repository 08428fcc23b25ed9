package filesystems

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestALoadersListGivesThePathsOfLibraries(t *testing.T) {
	got, err := listedLibraries("\tlinux-vdso.so.1 (0x00007f4c5acf0000)\n" +
		"\tlibuuid.so.1 => /lib/x86_64-linux-gnu/libuuid.so.1 (0x00007f4c5ab89000)\n" +
		"\t/lib64/ld-linux-x86-64.so.2 (0x00007f4c5ac93000)\n")
	if diff := cmp.Diff([]string{"/lib/x86_64-linux-gnu/libuuid.so.1"}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if _, err := listedLibraries("\tliburcu.so.8 => not found\n"); err == nil || !strings.Contains(err.Error(), "liburcu.so.8") {
		t.Errorf("a library that is missing: %v", err)
	}
}

// A program started by the loader that is among its files, with libraries from nowhere
// but a directory they were put in, has all it needs.
func TestAProgramRunsWithTheFilesThatGoWithIt(t *testing.T) {
	if _, err := exec.LookPath("cat"); err != nil {
		t.Skip(err)
	}
	files := make(map[string]string)
	if err := addProgram(t.Context(), files, "cat"); err != nil {
		t.Fatal(err)
	}
	program := files[binDir+"/cat"]
	loader, err := loaderOf(program)
	if err != nil {
		t.Fatal(err)
	}
	if loader == "" {
		t.Skip("this host's cat is linked statically")
	}
	if files[loader] != loader {
		t.Fatalf("the loader %s is not among %v", loader, files)
	}
	dir := t.TempDir()
	for path, from := range files {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(filepath.Join(dir, filepath.Base(loader)), "--inhibit-cache", "--library-path", dir, filepath.Join(dir, "cat"))
	cmd.Stdin = strings.NewReader("through")
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "through" {
		t.Errorf("%v: %s", err, out)
	}
}

func TestAStaticProgramNeedsNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "static")
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "felix.local/felix/test/matrix/guest")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got, err := librariesOf(t.Context(), path); err != nil || got != nil {
		t.Errorf("got %v, %v", got, err)
	}
}
