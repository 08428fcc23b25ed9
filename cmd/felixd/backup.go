package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/recovery"
)

type backupCommand struct {
	Dir string `name:"dir" required:"" type:"path" placeholder:"ROOT" help:"the data directory; a server may be running on it"`
	To  string `name:"to" required:"" type:"path" placeholder:"DIR" help:"where the copy goes; it must not exist yet"`
	recoveryFlags
	outputFlags
}

// copiedEvent is one shard of a copy.
type copiedEvent struct {
	Shard string `json:"shard"`
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"`
	// BaseOffset and TailOffset are what the copy holds once it is opened.
	BaseOffset uint64 `json:"base_offset"`
	TailOffset uint64 `json:"tail_offset"`
	// Verdict is what opening the copy would do: clean, repair or refuse.
	Verdict string `json:"verdict"`
	// Attempts is more than 1 when the log was cut back or deleted meanwhile.
	Attempts int `json:"attempts"`
}

func (copiedEvent) kind() string { return "copied" }

func (e copiedEvent) text() string {
	s := fmt.Sprintf("%s: %d files, %d bytes, offsets %d to %d, %s", e.Shard, e.Files, e.Bytes, e.BaseOffset, e.TailOffset, e.Verdict)
	if e.Attempts > 1 {
		s += fmt.Sprintf(" (attempt %d)", e.Attempts)
	}
	return s
}

// backedUpEvent sums up.
type backedUpEvent struct {
	From    string `json:"from"`
	To      string `json:"to"`
	Shards  int    `json:"shards"`
	Files   int    `json:"files"`
	Bytes   int64  `json:"bytes"`
	Refused int    `json:"refused"`
}

func (backedUpEvent) kind() string { return "backed_up" }

func (e backedUpEvent) text() string {
	s := fmt.Sprintf("copied %s to %s: %d shards, %d files, %d bytes", e.From, e.To, e.Shards, e.Files, e.Bytes)
	if e.Refused > 0 {
		s += fmt.Sprintf("; %d shards are damaged and would be refused, here and there", e.Refused)
	}
	return s
}

// Run copies to a name of its own and renames that in the end: what has the name
// that was asked for is whole, verified and durable.
func (c *backupCommand) Run(a *app) error {
	policy, err := c.policy()
	if err != nil {
		return err
	}
	// A walk does not enter a link: of one, only the shards would be copied.
	c.Dir = resolved(c.Dir)
	partial := c.To + ".partial"
	if err := c.check(); err != nil {
		return err
	}
	if err := c.claim(partial); err != nil {
		return err
	}
	copier := &copier{app: a, out: a.output(c.outputFlags), policy: policy, from: c.Dir, to: partial}
	if err := copier.copyRoot(); err != nil {
		return fmt.Errorf("%w; what was copied is in %s, remove it", err, partial)
	}
	if err := errors.Join(os.Rename(partial, c.To), flushDir(filepath.Dir(c.To))); err != nil {
		return err
	}
	sum := backedUpEvent{
		From: c.Dir, To: c.To, Shards: copier.shards, Files: copier.files, Bytes: copier.bytes, Refused: copier.refused,
	}
	if err := copier.out.emit(sum); err != nil {
		return err
	}
	if sum.Refused > 0 {
		return &exitError{code: exitRefused}
	}
	return nil
}

func (c *backupCommand) check() error {
	if err := needDir("data", c.Dir); err != nil {
		return err
	}
	if inside(c.Dir, c.To) || inside(c.To, c.Dir) {
		return usage("%s and %s lie in each other", c.Dir, c.To)
	}
	entries, err := os.ReadDir(c.Dir)
	if err != nil {
		return err
	}
	if holdsLog(entries) {
		return usage("%s is a shard; back its root up, %s", c.Dir, filepath.Dir(c.Dir))
	}
	if _, err := os.Lstat(filepath.Join(c.Dir, engine.RestoringName)); err == nil {
		return fmt.Errorf("%s: a restore into this directory did not finish, there is nothing to copy", c.Dir)
	}
	if err := needData("data", c.Dir); err != nil {
		return err
	}
	return absent(c.To)
}

// claim makes the directory that is copied to. Of two backups to one name the second
// finds it there, or what it was renamed to.
func (c *backupCommand) claim(partial string) error {
	err := os.Mkdir(partial, 0o700)
	switch {
	case errors.Is(err, fs.ErrExist):
		return &takenError{Path: partial, Reason: "another backup to this name is under way, or one did not finish; name another, or wait for it, or remove the directory"}
	case err != nil:
		return err
	}
	like, err := os.Stat(c.Dir)
	if err = errors.Join(err, absent(c.To)); err != nil {
		return errors.Join(err, os.Remove(partial))
	}
	return resemble(partial, like)
}

// takenError says that a copy cannot have a name.
type takenError struct {
	Path, Reason string
}

func (e *takenError) Error() string { return e.Path + " is there already; " + e.Reason }

// absent refuses a name that something has.
func absent(path string) error {
	_, err := os.Lstat(path)
	switch {
	case err == nil:
		return &takenError{Path: path, Reason: "name another directory, or remove it"}
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return err
	}
}

// inside says that path is dir, or lies in it.
func inside(dir, path string) bool {
	below, err := filepath.Rel(resolved(dir), resolved(path))
	return err == nil && below != ".." && !strings.HasPrefix(below, ".."+string(filepath.Separator))
}

// resolved follows the links of what there is of a path.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if parent := filepath.Dir(path); parent != path {
		return filepath.Join(resolved(parent), filepath.Base(path))
	}
	return path
}

// policy is what opening a log would go by.
func (f *recoveryFlags) policy() (recovery.Policy, error) {
	config, err := f.config()
	return recovery.Policy{
		RepairChecksumTail: config.RepairChecksumTail, VerifyAllOnOpen: config.VerifyAllOnOpen,
		IndexSpacingBytes: config.IndexSpacingBytes, SideCopiesKept: config.SideCopiesKept,
	}, err
}

// flushDir makes the names in a directory durable.
func flushDir(dir string) error {
	f, err := device.OS().OpenDir(dir)
	if err != nil {
		return err
	}
	_, err = f.Perform(&device.Op{Kind: device.FlushAll, File: f})
	return errors.Join(err, f.Close())
}
