package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"felix.local/felix/engine"
)

type serveCommand struct {
	storageChoice
	serverFlags
	storageFlags
	outputFlags
}

// defaults are what help shows: which mode applies depends on another flag.
func (*serveCommand) defaults() map[string]string {
	return map[string]string{"FELIX_DURABLE_FSYNC_MODE": "periodic; on_commit without --dir"}
}

// config judges all flags at once.
func (c *serveCommand) config() (serverConfig, error) {
	var config serverConfig
	var err error
	config.broker.Engine, err = c.storageFlags.config(c.storageDefaults())
	problems := judgeServer(&config, given(&c.serverFlags))
	root, byDefault, more := c.root()
	config.broker.Root, config.defaultDir = root, byDefault
	config.fsyncUnchosen = root != "" && !c.choosesFsync() && config.broker.Engine.FsyncMode != engine.FsyncOnCommit
	return config, settingsError(err, append(problems, more...))
}

// judge lists what is wrong with the flags and with the files that they name.
func (c *serveCommand) judge() error {
	config, err := c.config()
	_, _, unsafe := config.secure(slog.New(slog.DiscardHandler))
	return errors.Join(err, unsafe)
}

// Run serves until a signal, or until a listener fails.
func (c *serveCommand) Run(a *app) (err error) {
	config, err := c.config()
	if err != nil {
		return c.judge()
	}
	if config.broker.Root != "" {
		if err := mayBeRoot(config.broker.Root); err != nil {
			return err
		}
	}
	config.broker.Logger, config.broker.Engine.Logger = a.logger, a.logger
	osRepeats().ignore(a.ctx)
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	// Whoever reads what is printed may leave; that must not end a server in the
	// middle of its work.
	signal.Ignore(syscall.SIGPIPE)
	defer signal.Reset(syscall.SIGPIPE)

	s := newServer(config, a.output(c.outputFlags), a.stderr, a.logger)
	if err := s.start(a.ctx); err != nil {
		return err
	}
	a.notify("READY=1")
	reason := "asked to by a signal"
	for a.ctx.Err() == nil {
		select {
		case <-hangup:
			s.reload()
			continue
		case failed := <-s.failed:
			err, reason = failed, "a listener failed"
		case <-a.ctx.Done():
		}
		break
	}
	a.notify("STOPPING=1")
	return errors.Join(err, s.stop(reason))
}

// notify tells the service manager, which may do without.
func (a *app) notify(state string) {
	if err := notify(state); err != nil {
		fmt.Fprintf(a.stderr, "felixd: warning: the service manager was not told %s: %v\n", state, err)
	}
}

// fsyncText is the mode that the server's streams have by default.
func fsyncText(config engine.Config, root string) string {
	if root == "" {
		return ""
	}
	return config.Fsync()
}
