package vm

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestVersionsAreComparedAsNumbers(t *testing.T) {
	want := []string{
		"linux-image-6.1.0-9-cloud-amd64",
		"linux-image-6.1.0-10-cloud-amd64",
		"linux-image-6.12.9+deb12-cloud-amd64",
		"linux-image-6.12.100+deb12-cloud-amd64",
		"linux-image-7.0.13+deb13-cloud-amd64",
		"linux-image-7.3.4+deb13-cloud-amd64",
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, compareVersions)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if compareVersions("6.1", "6.1") != 0 || compareVersions("6.1", "6.1.1") >= 0 {
		t.Error("a longer version is not the newer one")
	}
}

func TestEveryRowHasANameOfItsOwn(t *testing.T) {
	seen := make(map[string]bool)
	for _, w := range Rows() {
		if seen[w.Row] || w.Suite == "" || w.Pattern == "" {
			t.Errorf("%+v", w)
		}
		seen[w.Row] = true
	}
}

func TestAMissingProgramIsNamedWithItsPackage(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := Need("qemu-system-x86_64", "depmod", "modprobe")
	var missing *MissingError
	if !errors.As(err, &missing) || !strings.HasSuffix(err.Error(), "apt-get install -y --no-install-recommends kmod qemu-system-x86") {
		t.Errorf("got %v", err)
	}
}

func TestAKernelIsKnownByItsPlaceInThePackage(t *testing.T) {
	for name, want := range map[string]string{
		"/boot/vmlinuz-6.1.0-57-cloud-amd64":                 "6.1.0-57-cloud-amd64",
		"/lib/modules/7.3.4+deb13-cloud-amd64/vmlinuz":       "7.3.4+deb13-cloud-amd64",
		"/boot/config-6.1.0-57-cloud-amd64":                  "",
		"/lib/modules/7.3.4+deb13-cloud-amd64/kernel/a/b.ko": "",
	} {
		if got, ok := imageRelease(name); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v", name, got, ok)
		}
	}
	for name, want := range map[string]bool{
		"/lib/modules/6.1/kernel/fs/xfs/xfs.ko.xz":            true,
		"/lib/modules/6.1/kernel/drivers/block/virtio_blk.ko": true,
		"/lib/modules/6.1/modules.builtin":                    true,
		"/lib/modules/6.1/kernel/drivers/net/dummy.ko":        false,
		"/usr/share/doc/modules.order":                        false,
	} {
		if got := isWantedModule(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestAKernelAloneHasNoModules(t *testing.T) {
	_, err := Kernel{Package: "linux-binary-7.3.4"}.LoadOrder(t.Context(), "xfs", t.TempDir())
	var none *NoModuleError
	if !errors.As(err, &none) || !strings.Contains(err.Error(), "without the module xfs") {
		t.Errorf("got %v", err)
	}
}

// archiveOf writes an initramfs of two files, one whose length is no multiple of four.
func archiveOf(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"a": "first", "b": "12345678"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "initramfs")
	files := map[string]string{"/init": filepath.Join(dir, "a"), "/bin/deep/b": filepath.Join(dir, "b")}
	if err := Initramfs(path, files); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAnInitramfsHasTheLayoutTheKernelReads(t *testing.T) {
	got, err := os.ReadFile(archiveOf(t))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for rest := got; len(rest) > 0; {
		const head = 110
		if !bytes.HasPrefix(rest, []byte(cpioMagic)) {
			t.Fatalf("no entry begins with %q", rest[:min(len(rest), 16)])
		}
		var name, size int
		parse := func(field int) (n int) {
			for _, digit := range rest[6+8*field : 14+8*field] {
				n = n<<4 + strings.IndexByte("0123456789abcdef", digit)
			}
			return n
		}
		size, name = parse(6), parse(11)
		names = append(names, string(rest[head:head+name-1]))
		up := func(n int) int { return (n + 3) &^ 3 }
		rest = rest[up(head+name)+up(size):]
	}
	want := []string{"bin", "bin/deep", "dev", "proc", "sys", "tmp", "bin/deep/b", "init", cpioTrailer}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}

func TestCpioReadsAnInitramfs(t *testing.T) {
	if _, err := exec.LookPath("cpio"); err != nil {
		t.Skip("cpio is not installed:", err)
	}
	f, err := os.Open(archiveOf(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd := exec.Command("cpio", "-t", "--quiet")
	cmd.Stdin = f
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := "bin\nbin/deep\ndev\nproc\nsys\ntmp\nbin/deep/b\ninit\n"
	if diff := cmp.Diff(want, string(out)); diff != "" {
		t.Error(diff)
	}
}

func TestAFileThatIsGoneMakesNoInitramfs(t *testing.T) {
	err := Initramfs(filepath.Join(t.TempDir(), "x"), map[string]string{"/init": "/nothing/here"})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
