package main

import (
	"fmt"
	"time"

	"felix.local/felix/cmd/felixd/completion"
	"felix.local/felix/cmd/felixd/manual"
)

type manCommand struct{}

// Run prints the page of a grammar that no argument or variable has touched.
func (*manCommand) Run(a *app) error {
	_, err := fmt.Fprint(a.stdout, manual.Page(newParser(new(commands)).Model, aboutFelix(thisBuild())))
	return err
}

// aboutFelix is what the grammar does not hold.
func aboutFelix(build versionEvent) manual.About {
	about := manual.About{
		Version: build.Version,
		Description: []string{
			"Felix is a durable log. A producer appends records; the acknowledgement means what the fsync mode says; a reader gets every " +
				"acknowledged record back after a crash, or a loud error, never a silent hole. One io_uring per process carries the disk's work; " +
				"where the kernel or a container forbids it, a pool of blocking workers leaves the same bytes.",
			"felixd is the server, its clients, and tools that try, fill, check, measure, copy and cut logs, and say what a machine offers.",
			"Results go to standard output: text on a terminal, otherwise, or with --json, one JSON object per line. Logs, warnings, progress " +
				"and the one line of an error go to standard error.",
		},
		ExitStatus: exitMeanings(),
		Signals: []manual.Entry{
			{Term: "SIGINT, SIGTERM", Text: "The first one asks a command to end in order; the second one ends it where it stands."},
			{Term: "SIGHUP", Text: "The server reads its credentials again."},
		},
		Files: []manual.Entry{
			{Term: "./" + defaultDir, Text: "where felixd serve stores when told nothing"},
			{Term: "/var/lib/felix", Text: "where the systemd unit and the Debian package have it store"},
			{Term: "/etc/felix/felix.env", Text: "variables that the systemd unit reads"},
		},
		SeeAlso: "felixd COMMAND --help. The documents that come with Felix: operations, durability, recovery, backup, security.",
	}
	if date, err := time.Parse(time.RFC3339, build.Date); err == nil {
		about.Date = date.UTC().Format(time.DateOnly)
	}
	return about
}

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"the shell: bash, zsh or fish"`
}

// Run prints the shell's own code; it calls no felixd when it completes.
func (c *completionCommand) Run(a *app) error {
	script, err := completion.Script(newParser(new(commands)).Model, c.Shell)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(a.stdout, script)
	return err
}
