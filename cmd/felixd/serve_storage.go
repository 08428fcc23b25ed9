package main

import (
	"path/filepath"

	"felix.local/felix/engine"
)

// defaultDir is where streams are stored when nobody says where.
const defaultDir = "felix-data"

// storageChoice says whether and where the server stores.
type storageChoice struct {
	Dir      string `name:"dir" type:"path" env:"FELIX_DURABLE_STORAGE_DIR" placeholder:"DIR" help:"directory that holds the streams; without it ./felix-data is the default, with fsync on_commit"`
	InMemory bool   `name:"in-memory" help:"store nothing; durable streams are refused"`
}

// storageDefaults are the storage settings that apply when none is given: whoever
// runs the server without saying where it stores gets the mode that loses nothing.
// With a directory the mode's documented default stands.
func (c *storageChoice) storageDefaults() map[string]string {
	if c.InMemory || c.Dir != "" {
		return nil
	}
	return map[string]string{"FELIX_DURABLE_FSYNC_MODE": "on_commit"}
}

// root is the storage directory, "" for none.
func (c *storageChoice) root() (dir string, byDefault bool, problems []string) {
	switch {
	case c.InMemory && c.Dir != "":
		return "", false, []string{"--in-memory: " + c.Dir + " is named as the directory to store in, by " + engine.RootVariable + "; choose one of the two"}
	case c.InMemory:
		return "", false, nil
	case c.Dir != "":
		return c.Dir, false, nil
	}
	dir, err := filepath.Abs(defaultDir)
	if err != nil {
		return "", false, []string{"--dir: the working directory is unknown, so a directory has to be named: " + err.Error()}
	}
	return dir, true, nil
}
