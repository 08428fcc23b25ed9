package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"felix.local/felix/engine"
)

// Spec says what the program does in one start.
type Spec struct {
	// Root is the directory that holds the stores, one directory each.
	Root   string  `json:"root"`
	Stores []Store `json:"stores,omitempty"`
	// Images are the stores on each disk image, where several are looked at.
	Images [][]Store `json:"images,omitempty"`
	// Forever appends until the power is cut. Otherwise each publisher appends
	// Appends times, which may be never, and the stores are closed.
	Forever bool `json:"forever,omitempty"`
	Appends int  `json:"appends,omitempty"`
	// Marks is a block device, or a file, whose block at MarksPosition, in bytes,
	// takes the acknowledgements, instead of a line each; "" for lines.
	Marks         string `json:"marks,omitempty"`
	MarksPosition int64  `json:"marks_position,omitempty"`
}

// Store is one store and how it is configured.
type Store struct {
	// Name is its directory; it has no blanks.
	Name string `json:"name"`
	// Mode, Backend and Journal are none, periodic or on_commit; ring or pool; off or
	// require.
	Mode    string `json:"mode"`
	Backend string `json:"backend"`
	Journal string `json:"journal"`
	// Lie acknowledges in the name of Mode what was written under none, which has no
	// journal, whatever Journal says.
	Lie bool `json:"lie,omitempty"`
}

// The sizes are small so that a short run has many rolls, and a journal that is
// written over many times.
const (
	segmentBytes  = 256 << 10
	journalBytes  = 1 << 20
	fsyncInterval = 50 * time.Millisecond
	markInterval  = 100 * time.Millisecond
	minFreeBytes  = 1 << 20
)

// Config is the engine's for this store.
func (s Store) Config() (engine.Config, error) {
	c := engine.DefaultConfig()
	var problems [3]error
	mode, journal := s.Mode, s.Journal
	if s.Lie {
		mode, journal = "none", "off"
	}
	c.FsyncMode, problems[0] = engine.ParseFsyncMode(mode)
	c.Journal, problems[1] = engine.ParseJournalMode(journal)
	switch s.Backend {
	case "ring":
		c.IOURing = engine.IOURingRequire
	case "pool":
		c.IOURing = engine.IOURingOff
	default:
		problems[2] = fmt.Errorf("%q is not one of ring, pool", s.Backend)
	}
	c.FsyncInterval, c.MarkSyncInterval = fsyncInterval, markInterval
	c.SegmentBytes, c.JournalBytes = segmentBytes, journalBytes
	c.MinFreeBytes, c.MinFreeInodes = minFreeBytes, 0
	c.VerifyAllOnOpen = true
	c.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	if err := errors.Join(problems[:]...); err != nil {
		return engine.Config{}, fmt.Errorf("store %q: %w", s.Name, err)
	}
	return c, c.Validate()
}

// ReadSpec reads a Spec from a file.
func ReadSpec(path string) (Spec, error) {
	var s Spec
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		return Spec{}, fmt.Errorf("what to do: %w", err)
	}
	return s, nil
}
