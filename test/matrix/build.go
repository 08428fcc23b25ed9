package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// programs are what a machine needs, all linked statically, in a directory.
type programs struct{ dir string }

// build builds them. The tests' programs are those of the two backends.
func build(ctx context.Context, dir string) (programs, error) {
	p := programs{dir: dir}
	for _, args := range [][]string{
		{"build", "-o", p.path("felixd"), "felix.local/felix/cmd/felixd"},
		{"build", "-o", p.path("guest"), "felix.local/felix/test/matrix/guest"},
		{"test", "-c", "-o", p.path("uring.test"), "felix.local/felix/uring"},
		{"test", "-c", "-o", p.path("fallback.test"), "felix.local/felix/fallback"},
	} {
		// Without symbols an image for a guest is a third smaller.
		last := len(args) - 1
		args = append(args[:last:last], "-ldflags=-s -w", args[last])
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return p, fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	return p, nil
}

func (p programs) path(name string) string { return filepath.Join(p.dir, name) }
