package main

import (
	"context"
	"errors"

	"felix.local/felix/bench/internal/rig"
	"felix.local/felix/engine"
)

// mode is what an acknowledgement means and how that is reached.
type mode struct {
	name    string
	fsync   engine.FsyncMode
	journal engine.JournalMode
}

var (
	segmentsMode = mode{"on_commit, segments", engine.FsyncOnCommit, engine.JournalOff}
	journalMode  = mode{"on_commit, journal", engine.FsyncOnCommit, engine.JournalRequire}
	noneMode     = mode{"none", engine.FsyncNone, engine.JournalOff}
)

// config is the default but for the mode.
func (m mode) config() engine.Config {
	config := rig.Config(m.fsync)
	config.Journal = m.journal
	return config
}

// modesHere are the modes that can be had: a filesystem may have no commit journal.
func (m measurer) modesHere(ctx context.Context) (list []mode, err error) {
	err = m.within(func(dir string) error {
		store, err := engine.OpenStore(ctx, root(dir), journalMode.config())
		if err != nil {
			return err
		}
		return store.Close(context.WithoutCancel(ctx))
	})
	if errors.Is(err, engine.ErrNoJournal) {
		m.note("without the commit journal: %v", err)
		return []mode{segmentsMode, noneMode}, nil
	}
	return []mode{segmentsMode, journalMode, noneMode}, err
}
