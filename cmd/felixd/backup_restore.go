package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/sidecar"
)

type restoreCommand struct {
	From string `name:"from" required:"" type:"path" placeholder:"DIR" help:"a copy that backup made"`
	Dir  string `name:"dir" required:"" type:"path" placeholder:"ROOT" help:"the data directory to fill; empty, or not there"`
	recoveryFlags
	outputFlags
}

// restoredEvent sums up.
type restoredEvent struct {
	From      string `json:"from"`
	Dir       string `json:"dir"`
	Shards    int    `json:"shards"`
	Files     int    `json:"files"`
	Bytes     int64  `json:"bytes"`
	StorageID string `json:"storage_id"`
	Refused   int    `json:"refused"`
}

func (restoredEvent) kind() string { return "restored" }

func (e restoredEvent) text() string {
	s := fmt.Sprintf("restored %s to %s: %d shards, %d files, %d bytes, storage id %s", e.From, e.Dir, e.Shards, e.Files, e.Bytes, e.StorageID)
	if e.Refused > 0 {
		s += fmt.Sprintf("; %d shards are damaged and would be refused, as in the copy", e.Refused)
	}
	return s
}

// Run fills an empty root. Until all of it is durable and verified, a file in it has
// OpenStore refuse the directory. The root gets a storage id of its own: records
// that were acknowledged under the copy's after it was made are not in it.
func (c *restoreCommand) Run(a *app) (err error) {
	policy, err := c.policy()
	if err != nil {
		return err
	}
	config, err := c.config()
	if err != nil {
		return err
	}
	c.From, c.Dir = resolved(c.From), resolved(c.Dir) // a walk does not enter a link
	if err := c.check(); err != nil {
		return err
	}
	unlock, err := c.begin()
	if err != nil {
		return err
	}
	defer joined(&err, func() error { return unlock() })
	copier := &copier{app: a, out: a.output(c.outputFlags), policy: policy, from: c.From, to: c.Dir}
	if err := copier.copyRoot(); err != nil {
		return fmt.Errorf("%w; %s is not whole: empty it before the next attempt", err, c.Dir)
	}
	// The lock is given back for the moment that the new id takes; the file in the
	// root keeps everybody out.
	if err := unlock(); err != nil {
		return err
	}
	unlock = func() error { return nil }
	id, err := engine.RenewStorageID(a.ctx, c.Dir, config)
	if err != nil {
		return err
	}
	if err := c.ownStorageID(); err != nil {
		return err
	}
	if err := errors.Join(os.Remove(filepath.Join(c.Dir, engine.RestoringName)), flushDir(c.Dir), flushDir(filepath.Dir(c.Dir))); err != nil {
		return err
	}
	sum := restoredEvent{
		From: c.From, Dir: c.Dir, Shards: copier.shards, Files: copier.files, Bytes: copier.bytes,
		StorageID: id.String(), Refused: copier.refused,
	}
	if err := copier.out.emit(sum); err != nil {
		return err
	}
	if sum.Refused > 0 {
		return &exitError{code: exitRefused}
	}
	return nil
}

func (c *restoreCommand) check() error {
	if err := needDir("copy", c.From); err != nil {
		return err
	}
	switch {
	case inside(c.From, c.Dir) || inside(c.Dir, c.From):
		return usage("%s and %s lie in each other", c.From, c.Dir)
	case filepath.Ext(c.From) == ".partial":
		return fmt.Errorf("%s is a copy that was not finished", c.From)
	}
	if _, err := os.Lstat(filepath.Join(c.From, engine.RestoringName)); err == nil {
		return fmt.Errorf("%s: a restore into this directory did not finish, it is no whole copy", c.From)
	}
	entries, err := os.ReadDir(c.From)
	switch {
	case err != nil:
		return err
	case holdsLog(entries):
		return usage("%s is no copy of a data directory", c.From)
	default:
		return needData("copy", c.From)
	}
}

// begin takes the root for the restore and marks it as not whole. A root that was
// there already becomes like the copy's as well, if root restores it: the server
// that is to use it may run as somebody else.
func (c *restoreCommand) begin() (unlock func() error, err error) {
	err = os.Mkdir(c.Dir, 0o750)
	made := err == nil
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	lock, err := device.OS().Lock(c.Dir, false)
	if err != nil {
		return nil, err
	}
	err = c.mark()
	if err == nil && (made || os.Geteuid() == 0) {
		var like fs.FileInfo
		if like, err = os.Stat(c.From); err == nil {
			err = resemble(c.Dir, like)
		}
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock.Close, nil
}

// ownStorageID gives the new storage id to who owns the copy's, durably.
func (c *restoreCommand) ownStorageID() error {
	like, err := os.Stat(filepath.Join(c.From, sidecar.StorageIDName))
	if errors.Is(err, fs.ErrNotExist) {
		like, err = os.Stat(c.From)
	}
	if err != nil {
		return err
	}
	path := filepath.Join(c.Dir, sidecar.StorageIDName)
	return read(path, func(f *os.File, _ fs.FileInfo) error { return errors.Join(own(path, like), f.Sync()) })
}

func (c *restoreCommand) mark() error {
	entries, err := os.ReadDir(c.Dir)
	for _, e := range entries {
		if e.Name() != "lost+found" {
			return fmt.Errorf("%s is not empty: it holds %s; restore into an empty directory, or move what is there away", c.Dir, e.Name())
		}
	}
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(c.Dir, engine.RestoringName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close(), flushDir(c.Dir))
}
