package main

import (
	"fmt"

	"felix.local/felix/bench"
	"felix.local/felix/engine"
)

// logLabel names the log in errors: the tool works on a shard directory alone,
// without the root that would say whose it is.
const logLabel = "log-tool"

// logFlags are shared by the commands that open a log.
type logFlags struct {
	Dir string `name:"dir" required:"" type:"path" placeholder:"DIR" help:"the shard directory itself"`
	storageFlags
	outputFlags
}

// logDefaults are the tool's own defaults: it is for trying and measuring, so an
// acknowledgement means durable, and segments are small enough to see rolls.
func logDefaults() map[string]string {
	return map[string]string{
		"FELIX_DURABLE_FSYNC_MODE":    "on_commit",
		"FELIX_DURABLE_SEGMENT_BYTES": "67108864",
	}
}

func (*logFlags) defaults() map[string]string { return logDefaults() }

// open opens the log of a shard directory, unless fits has something against that
// directory.
func (a *app) open(flags *logFlags, fits func(dir string) error) (*engine.Store, *engine.Log, engine.Config, error) {
	config, err := flags.config(flags.defaults())
	if err != nil {
		return nil, nil, config, err
	}
	if err := fits(flags.Dir); err != nil {
		return nil, nil, config, err
	}
	config.Logger, config.Journal = a.logger, engine.JournalOff // which is the root's
	store, log, err := engine.OpenSingle(a.ctx, flags.Dir, logLabel, config)
	return store, log, config, replayFirst(err)
}

// payloadFlags say how long a record is.
type payloadFlags struct {
	PayloadBytes int `name:"payload-bytes" default:"128" placeholder:"BYTES" help:"payload of each record, at least 34"`
}

func (f *payloadFlags) limit() limit {
	return limit{"payload-bytes", int64(f.PayloadBytes), int64(bench.PayloadBytesMin), bench.PayloadBytesMax}
}

// openedEvent says where appending starts.
type openedEvent struct {
	Dir         string `json:"dir"`
	StartOffset uint64 `json:"start_offset"`
	Fsync       string `json:"fsync"`
	Backend     string `json:"backend"`
}

func (openedEvent) kind() string { return "opened" }

func (e openedEvent) text() string {
	return fmt.Sprintf("opened %s at offset %d, fsync %s, backend %s", e.Dir, e.StartOffset, e.Fsync, e.Backend)
}

// backendName renders the backend with its driver, as "ring/native".
func backendName(b engine.Backend) string { return bench.BackendName(b) }
