package uring

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"felix.local/felix/device"
)

func readLink(fd int) string {
	target, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return ""
	}
	return target
}

// newFile makes an empty file on the test's filesystem.
func newFile(t testing.TB) device.File {
	t.Helper()
	f, err := device.OS().OpenFile(filepath.Join(t.TempDir(), "f"), device.CreateNew, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// closeRing closes r and fails the test when that fails.
func closeRing(t testing.TB, r *Ring) {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// pattern is n bytes that differ from place to place and from seed to seed.
func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7) ^ byte(i>>8) ^ seed
	}
	return b
}
