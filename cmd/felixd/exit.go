package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

// The exit codes; the package comment says when.
const (
	exitOK = iota
	exitFailure
	exitUsage
	exitVerify
	exitGaps
	exitLocked
	exitRepairs
	exitRefused
)

// exitError carries an exit code. One without an error prints nothing: the
// command has said what there is to say.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exitCode chooses the code an error ends the process with.
func exitCode(err error) int {
	var coded *exitError
	var config *engine.ConfigError
	var locked *device.LockedError
	var refused *recovery.RefusedError
	var damaged *segment.Corruption
	var unreplayed *recovery.JournalRefusedError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &config):
		return exitUsage
	case errors.As(err, &locked):
		return exitLocked
	case errors.As(err, &refused), errors.As(err, &damaged), errors.As(err, &unreplayed),
		errors.Is(err, engine.ErrJournalPending), errors.Is(err, engine.ErrNoJournal):
		return exitRefused
	default:
		return exitFailure
	}
}

// oneLine renders an error for standard error.
func oneLine(err error) string {
	if errors.Is(err, context.Canceled) {
		// Nothing else ends the context a command runs with.
		err = fmt.Errorf("interrupted: %w", err)
	}
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' }), "; ")
}
