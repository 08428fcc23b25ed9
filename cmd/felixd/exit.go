package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"felix.local/felix/cmd/felixd/manual"
	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

// The exit codes; exitMeanings says when.
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

// exitMeanings are the words of the manual page; the package comment has the same.
func exitMeanings() []manual.Entry {
	meanings := []string{
		exitOK: "success",
		exitFailure: "failure at run time: no log where one was named, an interruption, a claim of the demo that did not hold, " +
			"an answer of the server that is an error, a server's end that left something acknowledged unsynced or a shard poisoned",
		exitUsage: "usage: unknown flag, invalid value or configuration",
		exitVerify: "verification failed: a record differs, is damaged or is missing; doctor --check: a store would not work here; " +
			"credentials check: a server would refuse the file",
		exitGaps:    "dump --skip-damaged: exported all that is readable, with gaps",
		exitLocked:  "the directory is in use by another process",
		exitRepairs: "inspect: opening would repair something, or acknowledged records are in the commit journal alone",
		exitRefused: "opening refuses, or would refuse, the directory; a shard whose root's commit journal holds records that its " +
			"segments lack is not opened by itself, and dump ends with this after what it can print",
	}
	entries := make([]manual.Entry, len(meanings))
	for code, text := range meanings {
		entries[code] = manual.Entry{Term: strconv.Itoa(code), Text: text}
	}
	return entries
}

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
