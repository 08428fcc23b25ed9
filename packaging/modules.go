package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// module is one whose code is linked into felixd; the standard library, with the
// toolchain's version, is one of them.
type module struct {
	path, version string
	texts         []legal
}

// legal is a file that says on which terms the code, or a part of it, may be used.
type legal struct {
	name    string // below the module's directory
	content []byte
}

// standard is the name of the standard library as a module.
const standard = "std"

// listed is what the toolchain says of a package.
type listed struct {
	Dir      string
	Standard bool
	Module   *struct {
		Path, Version, Dir string
		Main               bool
		Replace            *struct{ Path string }
	}
}

// linkedModules are the modules that the packages of felixd come from, by path, with
// the legal files in the directories of those packages and above them. What a module
// has elsewhere is not linked in.
func linkedModules(ctx context.Context, source, arch string) ([]module, error) {
	library, err := standardLibrary(ctx, source)
	if err != nil {
		return nil, err
	}
	out, err := output(goCommand(ctx, source, arch, "list", "-deps", "-json=Dir,Standard,Module", "./cmd/felixd"))
	if err != nil {
		return nil, err
	}
	byPath := map[string]*module{standard: &library}
	seen := make(map[string]bool)
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if p.Standard || p.Module == nil || p.Module.Main {
			continue
		}
		m := byPath[p.Module.Path]
		if m == nil {
			m = &module{path: p.Module.Path, version: p.Module.Version}
			byPath[p.Module.Path] = m
		}
		for dir := p.Dir; len(dir) >= len(p.Module.Dir) && !seen[dir]; dir = filepath.Dir(dir) {
			seen[dir] = true
			if err := m.read(p.Module.Dir, dir); err != nil {
				return nil, err
			}
		}
	}
	var all []module
	for _, m := range byPath {
		slices.SortFunc(m.texts, func(a, b legal) int { return strings.Compare(a.name, b.name) })
		all = append(all, *m)
	}
	slices.SortFunc(all, func(a, b module) int { return strings.Compare(a.path, b.path) })
	return all, nil
}

func standardLibrary(ctx context.Context, source string) (module, error) {
	out, err := output(goCommand(ctx, source, "", "env", "GOROOT", "GOVERSION"))
	if err != nil {
		return module{}, err
	}
	root, version, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	m := module{path: standard, version: strings.TrimPrefix(version, "go")}
	return m, m.read(root, root)
}

// legalName is what files are called that hold terms, and isNotice those that hold
// only what has to be passed on with them.
var (
	legalName  = regexp.MustCompile(`(?i)^(un)?(licen[cs]es?|copying|copyright|notice|patents)([-._].*)?$`)
	noticeName = regexp.MustCompile(`(?i)^(copyright|notice|patents)([-._].*)?$`)
)

func (l legal) isNotice() bool { return noticeName.MatchString(filepath.Base(l.name)) }

// read takes the legal files of one directory, and those in directories with such a
// name.
func (m *module) read(root, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		paths := []string{path}
		if !legalName.MatchString(entry.Name()) || strings.HasSuffix(path, ".go") {
			continue
		}
		if entry.IsDir() {
			if paths, err = filepath.Glob(path + "/*"); err != nil {
				return err
			}
		}
		for _, path := range paths {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			m.texts = append(m.texts, legal{filepath.ToSlash(name), content})
		}
	}
	return nil
}
