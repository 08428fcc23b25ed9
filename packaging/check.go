package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
)

type checkCommand struct{ sourceFlags }

// Run prints the checksums of both builds, which are one list when they agree.
func (c *checkCommand) Run(ctx context.Context) error {
	work, err := os.MkdirTemp("", "felix-reproduce-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	made, err := reproduce(ctx, c.Source, work, c.Arch)
	if err != nil {
		return err
	}
	for _, sum := range made.sums {
		fmt.Println(sum)
	}
	fmt.Printf("%d files, the same in two builds of the last commit\n", len(made.sums))
	return nil
}

// reproduce builds the last commit twice, below work, and gives what the first build
// made, which is in work/one/dist. The second one is in another directory, whose files
// are newer, in another time zone, language and user's home, and with another mask for
// the permissions of new files.
func reproduce(ctx context.Context, source, work string, arches []string) (product, error) {
	first, err := buildClone(ctx, source, filepath.Join(work, "one"), arches)
	if err != nil {
		return product{}, err
	}
	restore, err := elsewhere(ctx)
	if err != nil {
		return product{}, err
	}
	defer restore()
	second, err := buildClone(ctx, source, filepath.Join(work, "another", "longer path"), arches)
	if err != nil {
		return product{}, err
	}
	if first.modified || second.modified {
		return product{}, errors.New("a clone of the last commit counts as changed")
	}
	if !slices.Equal(first.sums, second.sums) {
		return product{}, &differError{first.sums, second.sums}
	}
	return first, nil
}

// differError is that two builds of the same commit are not the same.
type differError struct{ first, second []string }

func (e *differError) Error() string {
	text := "two builds of the same commit differ:"
	for _, sum := range e.first {
		if !slices.Contains(e.second, sum) {
			text += "\n  " + sum
		}
	}
	for _, sum := range e.second {
		if !slices.Contains(e.first, sum) {
			text += "\n  " + sum + " (second build)"
		}
	}
	return text
}

// buildClone builds a clone of the last commit.
func buildClone(ctx context.Context, source, dir string, arches []string) (product, error) {
	clone := filepath.Join(dir, "source")
	if _, err := output(exec.CommandContext(ctx, "git", "clone", "--quiet", "--no-hardlinks", source, clone)); err != nil {
		return product{}, err
	}
	return build(ctx, options{source: clone, out: filepath.Join(dir, "dist"), arches: arches})
}

// elsewhere changes what a build must not depend on, until restore is called. The
// toolchain's caches stay where they are.
func elsewhere(ctx context.Context) (restore func(), err error) {
	changes := map[string]string{"TZ": "Pacific/Kiritimati", "LC_ALL": "tr_TR.UTF-8", "HOME": os.TempDir(), "USER": "somebody"}
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOENV", "GOPATH"} {
		value, err := output(exec.CommandContext(ctx, "go", "env", name))
		if err != nil {
			return nil, err
		}
		changes[name] = string(value[:len(value)-1])
	}
	var undo []func()
	for name, value := range changes {
		old, was := os.LookupEnv(name)
		undo = append(undo, func() {
			if was {
				_ = os.Setenv(name, old) // fails for invalid names only
			} else {
				_ = os.Unsetenv(name)
			}
		})
		if err := os.Setenv(name, value); err != nil {
			return nil, err
		}
	}
	mask := syscall.Umask(0o077)
	return func() {
		syscall.Umask(mask)
		for _, one := range undo {
			one()
		}
	}, nil
}
