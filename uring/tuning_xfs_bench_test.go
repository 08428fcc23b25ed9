package uring

import (
	"testing"

	"felix.local/felix/internal/loopfs"
)

// xfsBytes is the size of the file that XFS is made in.
const xfsBytes = 4 << 30

// BenchmarkTuningXFS is what depends on the filesystem, on XFS: in a file of the
// directory to measure, which root mounts as a loop device. The loop is in what is
// measured.
func BenchmarkTuningXFS(b *testing.B) {
	disk := loopfs.Make(b, tuningDir(b), "xfs", xfsBytes)
	disk.MustMount(b, "")
	b.Setenv("FELIX_BENCH_DIR", disk.At)
	b.Run("link", BenchmarkTuningLink)
	b.Run("inline", BenchmarkTuningInline)
	b.Run("backend", BenchmarkTuningBackend)
}
