package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// program is a felixd that was built, and what it says of itself.
type program struct {
	path, arch        string
	version, revision string // the version without its "v"
	toolchain         string
	time              time.Time // of the commit
	modified          bool
}

// goCommand is a call of the toolchain in which the caller's environment chooses
// neither target nor flags. The lowest level of each architecture runs everywhere.
func goCommand(ctx context.Context, dir, arch string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = dir
	command.Env = slices.DeleteFunc(os.Environ(), func(line string) bool {
		name, _, _ := strings.Cut(line, "=")
		return slices.Contains([]string{"GOFLAGS", "GOOS", "GOARCH", "GOBIN", "GOAMD64", "GOARM64", "GOEXPERIMENT", "GOWORK", "CGO_ENABLED", "PWD"}, name)
	})
	command.Env = append(command.Env, "GOWORK=off", "PWD="+dir)
	if arch != "" {
		command.Env = append(command.Env, "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0")
	}
	return command
}

// output runs a command and gives its standard output; its error has what the command
// said.
func output(command *exec.Cmd) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return stdout.Bytes(), fmt.Errorf("%s: %w\n%s", strings.Join(command.Args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.Bytes(), nil
}

// compile builds felixd without anything in it that says where it was built.
func compile(ctx context.Context, o options, arch, dir string) (program, error) {
	path := filepath.Join(dir, "felixd")
	history, linker := "true", "-s -w"
	if o.version != "" {
		history = "auto"
		linker += " -X main.release=" + o.version
	}
	_, err := output(goCommand(ctx, o.source, arch, "build", "-trimpath", "-buildvcs="+history, "-ldflags="+linker, "-o", path, "./cmd/felixd"))
	if err != nil {
		return program{}, err
	}
	return describe(path, arch, o.version)
}

// describe reads what the toolchain wrote into the program. A source without history
// needs its version from the caller, and its time from SOURCE_DATE_EPOCH, seconds since
// 1970, which wins over the commit's as everywhere.
func describe(path, arch, version string) (program, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return program{}, err
	}
	p := program{path: path, arch: arch, version: version, revision: "unknown", toolchain: info.GoVersion}
	if version == "" {
		p.version = strings.TrimPrefix(info.Main.Version, "v")
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			p.revision = setting.Value
		case "vcs.modified":
			p.modified = setting.Value == "true"
		case "vcs.time":
			if p.time, err = time.Parse(time.RFC3339, setting.Value); err != nil {
				return program{}, err
			}
		}
	}
	if text := os.Getenv("SOURCE_DATE_EPOCH"); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return program{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
		}
		p.time = time.Unix(seconds, 0)
	}
	p.time = p.time.UTC()
	if p.version == "" || p.version == "(devel)" || p.time.IsZero() {
		return program{}, errors.New("the source has no history that says version and time: give --version, and SOURCE_DATE_EPOCH in the environment")
	}
	return p, nil
}

// documents are what felixd writes about itself, by name.
type documents map[string][]byte

// generate has the program write its manual and completions.
func (p program) generate(ctx context.Context) (documents, error) {
	made := make(documents)
	for name, args := range map[string][]string{
		"felixd.1": {"man"}, "bash": {"completion", "bash"}, "zsh": {"completion", "zsh"}, "fish": {"completion", "fish"},
	} {
		command := exec.CommandContext(ctx, p.path, args...)
		command.Env = []string{}
		text, err := output(command)
		if err != nil {
			return nil, err
		}
		made[name] = text
	}
	return made, nil
}
