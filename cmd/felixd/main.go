package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"felix.local/felix/engine"
)

// commands is the grammar: every command, flag and variable.
type commands struct {
	Serve serveCommand `cmd:"" help:"Serve streams over HTTP and the Kafka protocol."`

	Publish     publishCommand      `cmd:"" help:"Publish records to a stream of a server."`
	Subscribe   subscribeCommand    `cmd:"" help:"Print a stream's records as they come, and go on after interruptions."`
	Streams     streamsCommands     `cmd:"" help:"List, create, describe, delete and trim streams of a server."`
	Credentials credentialsCommands `cmd:"" help:"Add, list and remove who may use a server."`
	Ready       readyCommand        `cmd:"" help:"Ask a server whether it is ready, or wait until it is."`

	Bench benchCommands `cmd:"" help:"Measure durable throughput and latency, or two settings against each other; with a report to look at."`

	Log     logCommands    `cmd:"" help:"Fill, check, measure, inspect, print and cut a log."`
	Backup  backupCommand  `cmd:"" help:"Copy a data directory, in use or not, and verify the copy."`
	Restore restoreCommand `cmd:"" help:"Fill an empty data directory from a copy, and verify it."`
	Doctor  doctorCommand  `cmd:"" help:"Say what this machine offers: kernel, io_uring, filesystem, limits, cost of a flush."`
	Demo    demoCommand    `cmd:"" help:"Publish, kill the server, restart, resume, verify; exits non-zero when a claim does not hold."`
	Version versionCommand `cmd:"" help:"Print what was built."`
	Help    helpCommand    `cmd:"" help:"Print the help of a command, as its --help does."`

	Man        manCommand        `cmd:"" help:"Print this tool's manual page, for man -l -."`
	Completion completionCommand `cmd:"" help:"Print what completes commands, flags and values in a shell."`

	ShowVersion versionFlag `name:"version" help:"print what was built, as text"`

	LogLevel string `name:"log-level" env:"FELIX_LOG_LEVEL" default:"warn" placeholder:"debug|info|warn|error" help:"logs go to standard error, from this level on [default warn]"`
}

type logCommands struct {
	Write   writeCommand    `cmd:"" help:"Append records whose payload follows from their offset."`
	Verify  verifyCommand   `cmd:"" help:"Open the log, read every record and check its payload."`
	Bench   logBenchCommand `cmd:"" help:"Measure appends, with the device's own cost beside them."`
	Inspect inspectCommand  `cmd:"" help:"Say what opening would repair or refuse, small files included; changes nothing. Exits 0, 6 (repairs) or 7 (refuses)."`
	Dump    dumpCommand     `cmd:"" help:"Print the records of a directory or one segment file; changes nothing."`
	Replay  replayCommand   `cmd:"" help:"Bring what only the commit journal of a data directory holds to the segments, as the next start would."`

	Truncate truncateCommand `cmd:"" help:"Drop the records from an offset on; no committed ones."`
	Reset    resetCommand    `cmd:"" help:"Empty a log and have it begin at an offset; drops no committed record that its leader may lack."`
	Restore  restoreLog      `cmd:"" help:"Bring a log back to an offset, committed records included: for restoring all replicas to one point."`
}

// app is what a command runs with.
type app struct {
	ctx            context.Context
	stdout, stderr io.Writer
	logger         *slog.Logger
	// known are the variables that some flag reads.
	known []string
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the program without the process around it.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks a command to end in order. From then on they are no
	// longer caught: the second one ends a command that is stuck, on a pipe that
	// nobody reads or on a device that does not answer.
	context.AfterFunc(ctx, stop)
	unsetBlank()
	var grammar commands
	helped := false
	parser := newParser(&grammar, kong.Writers(stdout, stderr), kong.Exit(func(int) { helped = true }))
	parsed, err := parser.Parse(args)
	if helped {
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(stderr, "felixd: %s; see felixd --help\n", mistakeText(oneLine(err)))
		return exitUsage
	}
	given := flagsGiven(parsed)
	level, err := logLevel(grammar.LogLevel)
	if err != nil {
		if command, ok := parsed.Selected().Target.Addr().Interface().(configured); ok {
			err = errors.Join(err, command.judge())
		}
		fmt.Fprintf(stderr, "felixd: %s\n", given.name(oneLine(err)))
		return exitUsage
	}
	a := &app{
		ctx: ctx, stdout: stdout, stderr: stderr, known: knownVariables(parser.Model),
		logger: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})),
	}
	for _, unknown := range engine.UnknownVariables(os.Environ(), a.known) {
		fmt.Fprintln(stderr, "felixd: warning:", unknownText(unknown))
	}
	err = parsed.Run(a)
	if err != nil && err.Error() != "" {
		fmt.Fprintf(stderr, "felixd: %s\n", given.name(oneLine(err)))
	}
	return exitCode(err)
}

// configured is a command whose settings are judged together, so that all that is wrong
// with them can be said at once, whatever else is wrong.
type configured interface{ judge() error }

// logLevel reads a level, as slog writes it.
func logLevel(text string) (level slog.Level, err error) {
	if level.UnmarshalText([]byte(strings.TrimSpace(text))) != nil {
		return level, fmt.Errorf("FELIX_LOG_LEVEL: %q is not one of debug, info, warn, error", text)
	}
	return level, nil
}

// unsetBlank makes a blank variable count as unset, for every flag alike.
func unsetBlank() {
	for _, line := range os.Environ() {
		name, value, _ := strings.Cut(line, "=")
		if strings.HasPrefix(name, engine.VariablePrefix) && strings.TrimSpace(value) == "" {
			_ = os.Unsetenv(name) // fails for invalid names only, and this one was there
		}
	}
}

func unknownText(unknown engine.UnknownVariable) string {
	if unknown.Closest == "" {
		return unknown.Name + " is set and nothing reads it"
	}
	return unknown.Name + " is set and nothing reads it; did you mean " + unknown.Closest + "?"
}

// usage is an error in what the user asked for.
func usage(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// joined closes what a command opened without losing either error.
func joined(err *error, closing func() error) { *err = errors.Join(*err, closing()) }
