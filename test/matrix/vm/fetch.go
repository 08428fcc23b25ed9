package vm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Kernel is a kernel in the cache.
type Kernel struct {
	// Row and Suite are what was wanted, Package what was taken.
	Row, Suite, Package string
	// Release is what uname -r says.
	Release string
	// Image is the path of the vmlinuz, Modules the root of a tree with
	// lib/modules/RELEASE, empty when the package has none.
	Image, Modules string
	// Parts are those of the module tree that were unpacked.
	Parts []string
	// Note says why this is not what the archive has now; empty when it is.
	Note string `json:"-"`
}

// whole says that everything was unpacked that is wanted today. An earlier version of
// this package may have filled the cache.
func (k Kernel) whole() bool {
	missing := func(part string) bool { return !slices.Contains(k.Parts, part) }
	return k.Modules == "" || !slices.ContainsFunc(moduleParts, missing)
}

// GoneError says that the archive does not serve a suite, or nothing in it that is wanted.
type GoneError struct {
	Want  Want
	Cause error
}

// Error names the suite and the cause.
func (e *GoneError) Error() string {
	return fmt.Sprintf("kernel %s: suite %s has gone: %v", e.Want.Row, e.Want.Suite, e.Cause)
}

// Unwrap gives the cause.
func (e *GoneError) Unwrap() error { return e.Cause }

// listsFor is how long the lists of a suite's packages are good for.
const listsFor = 24 * time.Hour

// Fetch brings the newest kernel that want names into the cache, if it is not there yet
// with all that is wanted of it. Where the archive does not give it, as without a network,
// it is the newest one in the cache, which Note says. The host's own package sources and
// installed packages are neither used nor changed. The error is a *GoneError when neither
// the archive nor the cache has such a kernel, a *MissingError when this host lacks a
// program.
func Fetch(ctx context.Context, cache string, want Want) (Kernel, error) {
	if err := Need("apt-get", "apt-cache", "dpkg-deb", "depmod"); err != nil {
		return Kernel{}, err
	}
	cache, err := filepath.Abs(cache)
	if err != nil {
		return Kernel{}, err
	}
	a := archive{want: want, dir: filepath.Join(cache, "apt", want.Suite)}
	k, err := a.fetch(ctx, filepath.Join(cache, "kernels"))
	if gone := (*GoneError)(nil); errors.As(err, &gone) && ctx.Err() == nil {
		k, err = fetchedBefore(cache, gone)
	}
	k.Row, k.Suite = want.Row, want.Suite
	return k, err
}

// fetchedBefore is the newest kernel of the cache in place of one that is gone.
func fetchedBefore(cache string, gone *GoneError) (Kernel, error) {
	kernels, err := Cached(cache)
	if err != nil {
		return Kernel{}, errors.Join(gone, err)
	}
	for _, k := range slices.Backward(kernels) {
		wanted, err := gone.Want.names(k.Package)
		if err != nil {
			return Kernel{}, err
		}
		if wanted {
			k.Note = fmt.Sprintf("%s is from the cache and may not be the newest: %v", k.Package, gone)
			return k, nil
		}
	}
	return Kernel{}, gone
}

// Cached lists the kernels that were fetched before, oldest first.
func Cached(cache string) ([]Kernel, error) {
	cache, err := filepath.Abs(cache)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(filepath.Join(cache, "kernels"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var found []Kernel
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), unfinished) {
			continue
		}
		k, err := cached(filepath.Join(cache, "kernels", e.Name()))
		if errors.Is(err, os.ErrNotExist) {
			continue // a download that did not finish
		}
		if err != nil {
			return nil, err
		}
		found = append(found, k)
	}
	slices.SortFunc(found, func(a, b Kernel) int { return compareVersions(a.Release, b.Release) })
	return found, nil
}

// noteName is the file in a kernel's directory that is written last. The paths in it are
// relative, so that a cache may be moved.
const noteName = "kernel.json"

func cached(dir string) (Kernel, error) {
	b, err := os.ReadFile(filepath.Join(dir, noteName))
	if err != nil {
		return Kernel{}, err
	}
	var k Kernel
	if err := json.Unmarshal(b, &k); err != nil {
		return Kernel{}, fmt.Errorf("%s: %w; remove the directory", filepath.Join(dir, noteName), err)
	}
	k.Image = filepath.Join(dir, k.Image)
	if k.Modules != "" {
		k.Modules = filepath.Join(dir, k.Modules)
	}
	return k, nil
}

// archive is a suite of the package archive, seen through lists of our own.
type archive struct {
	want Want
	dir  string
}

// options keep apt away from everything of the host but its keys and its proxy.
func (a archive) options() []string {
	var o []string
	for _, setting := range []string{
		"Dir::Etc::sourcelist=" + filepath.Join(a.dir, "sources.list"),
		"Dir::Etc::sourceparts=/dev/null",
		"Dir::Etc::preferences=/dev/null",
		"Dir::Etc::preferencesparts=/dev/null",
		"Dir::State::lists=" + filepath.Join(a.dir, "lists"),
		"Dir::State::status=/dev/null",
		"Dir::Cache=" + a.dir,
		"APT::Architectures=amd64",
		"APT::Architecture=amd64",
		"APT::Sandbox::User=",
		"APT::Update::Error-Mode=any",
		"Acquire::Languages=none",
		"Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
		"Acquire::IndexTargets::deb::DEP-11-icons-small::DefaultEnabled=false",
	} {
		o = append(o, "-o", setting)
	}
	return o
}

// fetch is the newest kernel of the archive, from the directory of kernels or else anew.
func (a archive) fetch(ctx context.Context, kernels string) (Kernel, error) {
	if err := a.update(ctx); err != nil {
		return Kernel{}, err
	}
	name, err := a.newest(ctx)
	if err != nil {
		return Kernel{}, err
	}
	dir := filepath.Join(kernels, name)
	k, err := cached(dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && !k.whole() {
		return a.download(ctx, name, dir)
	}
	return k, err
}

// update fetches the suite's lists, unless they are young.
func (a archive) update(ctx context.Context) error {
	stamp := filepath.Join(a.dir, "updated")
	if info, err := os.Stat(stamp); err == nil && time.Since(info.ModTime()) < listsFor {
		return nil
	}
	for _, d := range []string{"lists/partial", "archives/partial"} {
		if err := os.MkdirAll(filepath.Join(a.dir, d), 0o755); err != nil {
			return err
		}
	}
	source := fmt.Sprintf("deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n",
		mirror(ctx, a.want.Suite), a.want.Suite)
	if err := os.WriteFile(filepath.Join(a.dir, "sources.list"), []byte(source), 0o644); err != nil {
		return err
	}
	if _, err := output(ctx, a.dir, "apt-get", append(a.options(), "-qq", "update")...); err != nil {
		return &GoneError{Want: a.want, Cause: err}
	}
	return os.WriteFile(stamp, nil, 0o644)
}

// newest is the name of the newest package that is wanted.
func (a archive) newest(ctx context.Context) (string, error) {
	names, err := output(ctx, a.dir, "apt-cache", append(a.options(), "pkgnames", "linux-")...)
	if err != nil {
		return "", err
	}
	var found []string
	for _, name := range strings.Fields(names) {
		wanted, err := a.want.names(name)
		if err != nil {
			return "", err
		}
		if wanted {
			found = append(found, name)
		}
	}
	if len(found) == 0 {
		return "", &GoneError{Want: a.want, Cause: fmt.Errorf("no package matches %s", a.want.Pattern)}
	}
	return slices.MaxFunc(found, compareVersions), nil
}

// unfinished is how the name of a directory ends in which a kernel is being unpacked.
const unfinished = ".unfinished"

// download unpacks a package beside dir, writes the note once all is there, and puts it in
// place of what dir held, which stays when that fails.
func (a archive) download(ctx context.Context, name, dir string) (Kernel, error) {
	beside := dir + unfinished
	if err := os.RemoveAll(beside); err != nil {
		return Kernel{}, err
	}
	if err := a.unpackInto(ctx, name, beside); err != nil {
		return Kernel{}, errors.Join(err, os.RemoveAll(beside))
	}
	if err := os.RemoveAll(dir); err != nil {
		return Kernel{}, err
	}
	if err := os.Rename(beside, dir); err != nil {
		return Kernel{}, err
	}
	return cached(dir)
}

func (a archive) unpackInto(ctx context.Context, name, dir string) error {
	work := filepath.Join(dir, "download")
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	if _, err := output(ctx, work, "apt-get", append(a.options(), "-qq", "download", name)...); err != nil {
		return &GoneError{Want: a.want, Cause: err}
	}
	packages, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil {
		return err
	}
	if len(packages) != 1 {
		return fmt.Errorf("%s: %d packages were downloaded, want 1", name, len(packages))
	}
	k, err := unpack(ctx, packages[0], dir)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := os.RemoveAll(work); err != nil {
		return err
	}
	k.Package, k.Row, k.Suite, k.Parts = name, a.want.Row, a.want.Suite, moduleParts
	b, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, noteName), b, 0o644)
}

// mirror is where the host gets Debian's packages, or else the project's own place.
func mirror(ctx context.Context, suite string) string {
	security := strings.HasSuffix(suite, "-security")
	targets, err := output(ctx, "", "apt-get", "indextargets", "--format", "$(ORIGIN) $(RELEASE) $(REPO_URI)", "Created-By: Packages")
	if err == nil {
		for line := range strings.Lines(targets) {
			f := strings.Fields(line)
			if len(f) == 3 && f[0] == "Debian" && strings.HasSuffix(f[1], "-security") == security {
				return f[2]
			}
		}
	}
	if security {
		return "http://deb.debian.org/debian-security/"
	}
	return "http://deb.debian.org/debian/"
}

// output runs a program and returns its standard output; an error has its standard error.
func output(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(complaints.String()))
	}
	return out.String(), nil
}
