package main

import (
	"github.com/alecthomas/kong"
)

// helpCommand is felixd help, for those who ask for it in a word.
type helpCommand struct {
	Command []string `arg:"" optional:"" help:"the command; without one, all of them"`
}

// Run prints what the command's --help prints.
func (c *helpCommand) Run(a *app) error {
	helped := false
	parser := newParser(new(commands), kong.Writers(a.stdout, a.stderr), kong.Exit(func(int) { helped = true }))
	if _, err := parser.Parse(append(c.Command, "--help")); err != nil && !helped {
		return &exitError{code: exitUsage, err: err}
	}
	return nil
}
