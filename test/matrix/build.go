package main

import (
	"context"
	"path/filepath"

	"felix.local/felix/test/matrix/vm"
)

// programs are what a machine needs, all linked statically, in a directory.
type programs struct{ dir string }

// build builds them. The tests' programs are those of the two backends.
func build(ctx context.Context, dir string) (programs, error) {
	p := programs{dir: dir}
	for _, one := range []struct {
		build     func(ctx context.Context, path, pkg string) error
		name, pkg string
	}{
		{vm.Build, "felixd", "felix.local/felix/cmd/felixd"},
		{vm.Build, "guest", guestPackage},
		{vm.BuildTest, "uring.test", "felix.local/felix/uring"},
		{vm.BuildTest, "fallback.test", "felix.local/felix/fallback"},
	} {
		if err := one.build(ctx, p.path(one.name), one.pkg); err != nil {
			return p, err
		}
	}
	return p, nil
}

// guestPackage is the guest program's.
const guestPackage = "felix.local/felix/test/matrix/guest"

func (p programs) path(name string) string { return filepath.Join(p.dir, name) }
