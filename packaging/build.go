package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
)

// options are what is asked for.
type options struct {
	source, out string
	arches      []string
	version     string // "" for what the commit says
}

// product is what was made.
type product struct {
	sums     []string // "checksum  name" of every file but the list itself, by name
	version  string
	modified bool // the source was not what the commit has
}

// sumsName is the list of checksums.
const sumsName = "SHA256SUMS"

// build makes everything for every architecture. Files of other versions in the same
// directory stay.
func build(ctx context.Context, o options) (product, error) {
	work, err := os.MkdirTemp("", "felix-packaging-")
	if err != nil {
		return product{}, err
	}
	defer os.RemoveAll(work)
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return product{}, err
	}
	host, err := compile(ctx, o, runtime.GOARCH, filepath.Join(work, "host"))
	if err != nil {
		return product{}, err
	}
	generated, err := host.generate(ctx)
	if err != nil {
		return product{}, err
	}
	var names []string
	for _, arch := range o.arches {
		p := host
		if arch != host.arch {
			if p, err = compile(ctx, o, arch, filepath.Join(work, arch)); err != nil {
				return product{}, err
			}
		}
		made, err := buildFor(ctx, o, p, filepath.Join(work, arch+"-packages"), generated)
		if err != nil {
			return product{}, fmt.Errorf("%s: %w", arch, err)
		}
		names = append(names, made...)
	}
	sums, err := writeSums(o.out, names)
	return product{sums: sums, version: host.version, modified: host.modified}, err
}

// buildFor makes the files that hold a program and gives their names.
func buildFor(ctx context.Context, o options, p program, work string, generated documents) ([]string, error) {
	linked, err := linkedModules(ctx, o.source, p.arch)
	if err != nil {
		return nil, err
	}
	contents, err := layout(o.source, p, linked, generated)
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	base := fmt.Sprintf("felixd_%s_linux_%s", p.version, p.arch)
	if err := tarball(&archive, base, contents, p.time); err != nil {
		return nil, err
	}
	list, err := components(p, linked)
	if err != nil {
		return nil, err
	}
	names := []string{base + ".tar.gz", base + ".cdx.json", fmt.Sprintf("felixd_%s_%s.deb", debianVersion(p.version), p.arch)}
	for i, content := range [][]byte{archive.Bytes(), list} {
		if err := os.WriteFile(filepath.Join(o.out, names[i]), content, 0o644); err != nil {
			return nil, err
		}
	}
	return names, debianPackage(ctx, filepath.Join(o.out, names[2]), work, o.source, p, contents)
}

// writeSums writes and gives the list that sha256sum -c reads.
func writeSums(dir string, names []string) (sums []string, err error) {
	slices.Sort(names)
	var list bytes.Buffer
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		sum := fmt.Sprintf("%x  %s", sha256.Sum256(content), name)
		sums = append(sums, sum)
		fmt.Fprintln(&list, sum)
	}
	return sums, os.WriteFile(filepath.Join(dir, sumsName), list.Bytes(), 0o644)
}
