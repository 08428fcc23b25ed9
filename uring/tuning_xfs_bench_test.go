package uring

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// xfsBytes is the size of the file that XFS is made in.
const xfsBytes = 4 << 30

// BenchmarkTuningXFS is what depends on the filesystem, on XFS: in a file of the
// directory to measure, which root mounts as a loop device. The loop is in what is
// measured.
func BenchmarkTuningXFS(b *testing.B) {
	b.Setenv("FELIX_BENCH_DIR", mountXFS(b))
	b.Run("link", BenchmarkTuningLink)
	b.Run("inline", BenchmarkTuningInline)
	b.Run("backend", BenchmarkTuningBackend)
}

// mountXFS gives the directory where a new XFS is mounted until the benchmark ends.
func mountXFS(b *testing.B) string {
	b.Helper()
	if os.Geteuid() != 0 {
		b.Skip("only root mounts a loop device")
	}
	mkfs, err := exec.LookPath("mkfs.xfs")
	if err != nil {
		b.Skip("there is no mkfs.xfs (Debian: xfsprogs)")
	}
	dir := tuningDir(b)
	image, at := filepath.Join(dir, "image"), filepath.Join(dir, "mounted")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		b.Fatal(err)
	}
	if err := os.Truncate(image, xfsBytes); err != nil {
		b.Fatal(err)
	}
	if out, err := exec.Command(mkfs, "-q", image).CombinedOutput(); err != nil {
		b.Fatalf("mkfs.xfs: %v: %s", err, out)
	}
	if err := os.Mkdir(at, 0o700); err != nil {
		b.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "xfs", "-o", "loop", image, at).CombinedOutput(); err != nil {
		b.Skipf("XFS cannot be mounted here: %v: %s", err, out)
	}
	b.Cleanup(func() {
		if out, err := exec.Command("umount", at).CombinedOutput(); err != nil {
			b.Errorf("umount: %v: %s", err, out)
		}
	})
	return at
}
