package rig

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"felix.local/felix/engine"
)

// The exit codes of a command.
const (
	ExitOK = iota
	// ExitFailed says that something is not as it is to be, or could not be measured.
	ExitFailed
	ExitUsage
)

// Main runs a command until it is done or interrupted, and ends the process.
func Main(run func(ctx context.Context, args []string, stdout, stderr io.Writer) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Words are what the flags of a command speak of.
type Words struct {
	// Command is its name, and that of its directory in bench.
	Command string
	// Rounds is the help for -rounds, One what -only chooses.
	Rounds, One string
}

// Flags are those that every command has.
type Flags struct {
	// Dir is where to measure, and JSON the file for every value, empty for none.
	Dir, JSON string
	// Slice is how long each load is measured, at least a millisecond; Rounds how often,
	// at least once.
	Slice  time.Duration
	Rounds int

	words Words
	only  string
	args  []string
	began time.Time
}

// Parse reads the command line; own, when set, adds the flags that only this command
// has. What is wrong was said to stderr.
func Parse(words Words, args []string, stderr io.Writer, own func(*flag.FlagSet)) (f Flags, ok bool) {
	f = Flags{words: words, args: args, began: time.Now()}
	set := flag.NewFlagSet(words.Command, flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&f.Dir, "dir", ".", "a directory on the device to measure; what is made in it is removed")
	set.DurationVar(&f.Slice, "slice", 400*time.Millisecond, "how long each load is measured")
	set.IntVar(&f.Rounds, "rounds", 3, words.Rounds)
	set.StringVar(&f.only, "only", "", fmt.Sprintf("measure only the %ss whose name contains this", words.One))
	set.StringVar(&f.JSON, "json", "", "write every value that was measured to this file")
	if own != nil {
		own(set)
	}
	if set.Parse(args) != nil {
		return f, false
	}
	if set.NArg() > 0 || f.Slice < time.Millisecond || f.Rounds < 1 {
		fmt.Fprintf(stderr, "%s: there are no arguments besides flags, a slice has at least a millisecond, and there is at least one round\n", words.Command)
		return f, false
	}
	return f, true
}

// Choose keeps what -only asks for; an error says that there is nothing of that name.
func Choose[T any](f Flags, list []T, name func(T) string) ([]T, error) {
	list = slices.DeleteFunc(list, func(one T) bool { return !strings.Contains(name(one), f.only) })
	if len(list) == 0 {
		return nil, fmt.Errorf("no %s's name contains %q", f.words.One, f.only)
	}
	return list, nil
}

// Record begins what is written to a file: when a command ran, and how to run it again.
type Record struct {
	When    time.Time `json:"when"`
	Command string    `json:"command"`
}

// Record is that of this run.
func (f Flags) Record() Record {
	return Record{When: f.began, Command: "go run ./bench/" + f.words.Command + " " + strings.Join(f.args, " ")}
}

// Write puts a record into the file of -json.
func (f Flags) Write(record any) error {
	text, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(f.JSON, append(text, '\n'), 0o644)
}

// Within makes a directory in another for the time of do.
func Within(dir, prefix string, do func(dir string) error) error {
	dir, err := os.MkdirTemp(dir, prefix)
	if err != nil {
		return err
	}
	err = do(dir)
	return errors.Join(err, os.RemoveAll(dir))
}

// Config is the default but for the mode, and without a line for every store that is
// opened.
func Config(mode engine.FsyncMode) engine.Config {
	config := engine.DefaultConfig()
	config.FsyncMode = mode
	config.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return config
}
