package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// skipError says why a step cannot be run on this machine, which is no failure.
type skipError struct{ reason string }

func (e *skipError) Error() string { return e.reason }

// setSysctls sets sysctls, which are files below dir, and returns what puts the former values back, which is to be
// called whatever the error. Where one does not exist, or may not be written, the error is
// a *skipError.
func setSysctls(dir string, values map[string]string) (restore func() error, err error) {
	former := make(map[string]string)
	restore = func() error {
		var errs []error
		for path, value := range former {
			if err := os.WriteFile(path, []byte(value), 0o644); err != nil {
				errs = append(errs, fmt.Errorf("the former value %q is not restored: %w", value, err))
			}
		}
		return errors.Join(errs...)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		path := filepath.Join(dir, strings.ReplaceAll(name, ".", "/"))
		before, err := os.ReadFile(path)
		switch {
		case errors.Is(err, os.ErrNotExist):
			return restore, &skipError{"no such sysctl: " + name}
		case err != nil:
			return restore, err
		}
		if err := os.WriteFile(path, []byte(values[name]), 0o644); err != nil {
			return restore, &skipError{fmt.Sprintf("%s cannot be set: %v", name, err)}
		}
		former[path] = strings.TrimSpace(string(before))
	}
	return restore, nil
}
