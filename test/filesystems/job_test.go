package filesystems

import (
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"time"

	"felix.local/felix/device"
	"felix.local/felix/engine"
)

// job is what a child process is to do: open a store, and obey the commands on its
// standard input, one a line. What happens goes to standard output as events.
type job struct {
	Root string
	// Shards are opened at once, numbered from 0.
	Shards int
	// Session tells apart the tags of the processes that use one directory.
	Session uint32
	// Fixed stops the clock and takes the dice away, for bytes that are compared.
	Fixed bool

	Fsync, IOURing, Journal    string
	SegmentBytes, JournalBytes int64
	MinFreeBytes               int64
	RollThreshold              int
	// PayloadMin and PayloadMax bound a record, in bytes.
	PayloadMin, PayloadMax int
}

// fixedMicros is the clock of a job that is Fixed.
const fixedMicros = 1_700_000_000_000_000

func (j job) config() (engine.Config, error) {
	c := engine.DefaultConfig()
	var errs [3]error
	c.FsyncMode, errs[0] = engine.ParseFsyncMode(j.Fsync)
	c.IOURing, errs[1] = engine.ParseIOURingMode(j.IOURing)
	c.Journal, errs[2] = engine.ParseJournalMode(j.Journal)
	c.FsyncInterval = 20 * time.Millisecond
	c.SegmentBytes, c.JournalBytes = j.SegmentBytes, j.JournalBytes
	c.MinFreeBytes, c.MinFreeInodes = j.MinFreeBytes, 0
	c.RolloverThresholdPercent = j.RollThreshold
	c.IndexSpacingBytes = 1024
	c.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	if j.Fixed {
		c.NowMicros = func() uint64 { return fixedMicros }
		c.Random = rand.NewChaCha8([32]byte{1})
	}
	return c, errors.Join(errs[:]...)
}

// The kinds of events.
const (
	opened  = "opened"  // the store and its logs are open
	refused = "refused" // they could not be opened; the process ends
	acked   = "acked"   // an append was acknowledged
	durable = "durable" // what a log says is durable
	did     = "did"     // a command is done; Problem says what stopped it
	records = "records" // what a log holds
)

// event is one line from a child.
type event struct {
	Kind string
	// Backend and Journal are what an opened store says of itself.
	Backend *backend             `json:",omitempty"`
	Journal *engine.JournalState `json:",omitempty"`
	// Shard, First, Last and Tag name an append; of a log, First is its base and Last
	// its tail or durable bound.
	Shard       int    `json:",omitempty"`
	First, Last uint64 `json:",omitempty"`
	Tag         uint32 `json:",omitempty"`
	// Tags are the appends of a log's records from its base on.
	Tags    []uint32 `json:",omitempty"`
	Problem *problem `json:",omitempty"`
	// Poisoned is what a log that is done says about itself.
	Poisoned bool `json:",omitempty"`
}

// backend is what the tables say of engine.Backend.
type backend struct {
	Name, Reason, Filesystem, DirectReason string
	Dsync, Direct                          bool
}

// problem is an error, as far as a test can ask about it.
type problem struct {
	Text string
	// Type is the error's type in the engine, "" for one without.
	Type  string
	Class string
	Errno syscall.Errno
	// Full, Poisoned and ReadOnly are what errors.Is says.
	Full, Poisoned, ReadOnly bool
	// Guard says that the free-space guard refused, not the disk.
	Guard bool
}

func problemOf(err error) *problem {
	if err == nil {
		return nil
	}
	p := &problem{
		Text: err.Error(), Class: device.ClassOf(err).String(),
		Full: errors.Is(err, engine.ErrFull), Poisoned: errors.Is(err, engine.ErrPoisoned), ReadOnly: errors.Is(err, device.ErrReadOnly),
	}
	errors.As(err, &p.Errno)
	var (
		full     *engine.FullError
		poisoned *engine.PoisonedError
		failed   *engine.LogError
		identity *engine.IdentityError
		journal  *engine.JournalUnavailableError
		onDevice *device.Error
	)
	switch {
	case errors.As(err, &poisoned):
		p.Type = "PoisonedError"
	case errors.As(err, &full):
		p.Type, p.Guard = "FullError", full.Cause == nil
	case errors.As(err, &identity):
		p.Type = "IdentityError"
	case errors.As(err, &journal):
		p.Type = "JournalUnavailableError"
	case errors.As(err, &failed):
		p.Type = "LogError"
	case errors.As(err, &onDevice):
		p.Type = "device.Error"
	}
	return p
}

// said writes events, a line each.
type said struct {
	sync.Mutex
	out *json.Encoder
}

func (s *said) say(e event) {
	s.Lock()
	defer s.Unlock()
	if err := s.out.Encode(e); err != nil {
		os.Exit(3) // nobody listens any more
	}
}
