package vm

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// offered is the kernel of the archive below, and of the row that wants it.
const offered = "linux-image-6.12.117+deb12-cloud-amd64"

func wanted() Want {
	return Want{Row: "6.12", Suite: "bookworm-security", Pattern: `linux-image-6\.12\.[0-9]+\+deb12-cloud-amd64`}
}

// archiveWith has apt find an archive that offers one kernel, or reach none; downloads is a
// file with a line per download.
func archiveWith(t *testing.T, answers bool) (downloads string) {
	t.Helper()
	dir := t.TempDir()
	downloads = filepath.Join(dir, "downloads")
	content := filepath.Join(dir, "content.tar")
	writeTar(t, content, "./boot/vmlinuz-6.12.117", "./usr/lib/modules/6.12.117/kernel/drivers/virtio/virtio.ko")
	apt := "echo unreachable >&2; exit 1"
	if answers {
		apt = `case "$*" in *" download "*) echo once >> ` + downloads + `; : > kernel.deb ;; esac`
	}
	for name, script := range map[string]string{
		"apt-get": apt, "apt-cache": "echo " + offered, "dpkg-deb": "exec /bin/cat " + content, "depmod": "exit 0",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	return downloads
}

func writeTar(t *testing.T, path string, names ...string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(f)
	for _, name := range names {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// fetchedEarlier puts a kernel into a cache, of whose modules some parts were unpacked.
func fetchedEarlier(t *testing.T, cache string, parts ...string) (dir string) {
	t.Helper()
	dir = filepath.Join(cache, "kernels", offered)
	if err := os.MkdirAll(filepath.Join(dir, modulesName), 0o755); err != nil {
		t.Fatal(err)
	}
	k := Kernel{Package: offered, Release: "6.12.117", Image: imageName, Modules: modulesName, Parts: parts}
	b, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, noteName), b, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func linesOf(t *testing.T, path string) int {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Count(string(b), "\n")
}

func TestWithoutAnArchiveTheKernelOfTheCacheIsTaken(t *testing.T) {
	archiveWith(t, false)
	cache := t.TempDir()
	dir := fetchedEarlier(t, cache, "fs")
	k, err := Fetch(t.Context(), cache, wanted())
	if err != nil {
		t.Fatal(err)
	}
	if k.Row != "6.12" || k.Package != offered || k.Image != filepath.Join(dir, imageName) {
		t.Errorf("got %+v", k)
	}
	if !strings.Contains(k.Note, "from the cache") || !strings.Contains(k.Note, "unreachable") {
		t.Errorf("the note is %q", k.Note)
	}
	other := wanted()
	other.Pattern = `linux-image-6\.1\..*`
	if _, err := Fetch(t.Context(), cache, other); !errors.As(err, new(*GoneError)) {
		t.Errorf("another kernel is taken for it: %v", err)
	}
}

func TestAKernelWithoutAllModulesIsUnpackedAnew(t *testing.T) {
	downloads := archiveWith(t, true)
	cache := t.TempDir()
	dir := fetchedEarlier(t, cache, "fs", "lib")
	old := filepath.Join(dir, "old")
	if err := os.WriteFile(old, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time all is there
		k, err := Fetch(t.Context(), cache, wanted())
		if err != nil {
			t.Fatal(err)
		}
		if !k.whole() || k.Note != "" {
			t.Errorf("got %+v", k)
		}
		if n := linesOf(t, downloads); n != 1 {
			t.Errorf("%d downloads, want 1", n)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, modulesName, "lib/modules/6.12.117/kernel/drivers/virtio/virtio.ko")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was there before is left: %v", err)
	}
}

func TestAWholeKernelIsNotFetchedAgain(t *testing.T) {
	downloads := archiveWith(t, true)
	cache := t.TempDir()
	fetchedEarlier(t, cache, moduleParts...)
	if k, err := Fetch(t.Context(), cache, wanted()); err != nil || k.Note != "" {
		t.Errorf("got %+v, %v", k, err)
	}
	if n := linesOf(t, downloads); n != 0 {
		t.Errorf("%d downloads", n)
	}
}

func TestAPathMayHaveACommaInTheEmulatorsOptions(t *testing.T) {
	if got := Escape("/a,b/c,"); got != "/a,,b/c,," {
		t.Error(got)
	}
	m := Machine{Log: "/a,b/log"}
	args := strings.Join(append(m.arguments(), Disk(0, "/a,b/disk")...), " ")
	for _, want := range []string{"file:/a,,b/log.console", "file=/a,,b/disk,"} {
		if !strings.Contains(args, want) {
			t.Errorf("%q is not in %s", want, args)
		}
	}
}
