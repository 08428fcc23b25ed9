package filesystems

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
)

// binDir is where a guest has its programs.
const binDir = "/bin"

// addProgram adds a program of the host to a guest's files: in binDir by its name, with
// its loader and its libraries where the host has them.
func addProgram(ctx context.Context, files map[string]string, name string) error {
	path, err := exec.LookPath(name)
	if err != nil {
		return err
	}
	libraries, err := librariesOf(ctx, path)
	if err != nil {
		return fmt.Errorf("the libraries of %s: %w", path, err)
	}
	files[binDir+"/"+name] = path
	for _, library := range libraries {
		files[library] = library
	}
	return nil
}

// librariesOf are the paths of a program's loader and of what the loader says it would
// load; none of a program that is linked statically.
func librariesOf(ctx context.Context, path string) ([]string, error) {
	loader, err := loaderOf(path)
	if loader == "" || err != nil {
		return nil, err
	}
	var complaints bytes.Buffer
	cmd := exec.CommandContext(ctx, loader, "--list", path)
	cmd.Stderr = &complaints
	listed, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s --list: %w: %s", loader, err, complaints.String())
	}
	found, err := listedLibraries(string(listed))
	return append(found, loader), err
}

// listedLibraries reads what a loader lists, such as
// "libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f6d1c000000)".
func listedLibraries(text string) (paths []string, err error) {
	for line := range strings.Lines(text) {
		name, found, ok := strings.Cut(strings.TrimSpace(line), " => ")
		if !ok {
			continue // the loader itself, and what the kernel brings
		}
		path, _, _ := strings.Cut(found, " (")
		if !filepath.IsAbs(path) {
			return nil, fmt.Errorf("%s is not on this host: %q", name, found)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// loaderOf is the path of the loader that a program names; empty when it names none.
func loaderOf(path string) (string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		name, err := io.ReadAll(p.Open())
		if len(name) < 2 {
			return "", errors.Join(err, errors.New("the name of its loader is empty"))
		}
		return string(bytes.TrimRight(name, "\x00")), err
	}
	return "", nil
}
