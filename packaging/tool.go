package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// notToBeHadError says that the sources of a tool cannot be fetched, so that nothing
// is known from it; a tool that does not build is another error.
type notToBeHadError struct {
	tool string
	err  error
}

func (e *notToBeHadError) Error() string {
	return fmt.Sprintf("the sources of %s cannot be had: %v", e.tool, e.err)
}

func (e *notToBeHadError) Unwrap() error { return e.err }

// tool builds a program of another module, at exactly this version, and gives its path.
func tool(ctx context.Context, dir, program, version string) (string, error) {
	bin := filepath.Join(dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", err
	}
	install := func(settings ...string) error {
		command := goCommand(ctx, dir, "", "install", program+"@"+version)
		command.Env = append(append(command.Env, "GOBIN="+bin), settings...)
		_, err := output(command)
		return err
	}
	err := install()
	if err == nil {
		return filepath.Join(bin, path.Base(program)), nil
	}
	// What is at hand now is what could be fetched. If something is missing without
	// asking the network again, that is why the tool is not there.
	if again := install("GOPROXY=off"); again != nil && strings.Contains(again.Error(), "GOPROXY=off") {
		return "", &notToBeHadError{program + "@" + version, err}
	}
	return "", err
}
