package engine

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"felix.local/felix/device"
)

// spaceFS says that so much is free.
type spaceFS struct {
	device.FS
	space device.Space
}

func (f *spaceFS) Space(string) (device.Space, error) { return f.space, nil }

// The guard opens an eighth above its floor, says why it refuses, and tells the log of
// each change once.
func TestTheLogSaysWhenTheDiskIsNearlyFullAndWhenItIsNot(t *testing.T) {
	var out bytes.Buffer
	fs := &spaceFS{}
	g := newSpaceGuard(fs, "root", 800, 80, slog.New(slog.NewTextHandler(&out, nil)))
	for _, step := range []struct {
		bytes, inodes int64
		reason, said  string
	}{
		{800, 80, "", ""},
		{799, 80, "799 bytes free, 800 required", "level=WARN"},
		{899, 80, "899 bytes free, 900 required: the floor of 800 and an eighth", ""},
		{900, 90, "", "level=INFO"},
		{900, 79, "79 inodes free, 80 required", "level=WARN"},
		{900, 89, "89 inodes free, 90 required: the floor of 80 and an eighth", ""},
		{900, -1, "", "level=INFO"}, // a filesystem that does not count them
	} {
		out.Reset()
		fs.space = device.Space{FreeBytes: step.bytes, FreeInodes: step.inodes}
		g.look()
		reason, ok := g.admit(1)
		if reason != step.reason || ok != (step.reason == "") {
			t.Errorf("%d bytes and %d inodes free: %q, %v, want %q", step.bytes, step.inodes, reason, ok, step.reason)
		}
		said := out.String()
		if (said == "") != (step.said == "") || !strings.Contains(said, step.said) || strings.Count(said, "\n") > 1 {
			t.Errorf("%d bytes and %d inodes free: the log says %q", step.bytes, step.inodes, said)
		}
	}
}
