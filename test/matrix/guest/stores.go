package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"felix.local/felix/engine"
	"felix.local/felix/test/matrix/plan"
)

// journalName is the directory of the commit journal in a root.
const journalName = ".journal"

// storeRun is a data directory that the engine writes.
type storeRun struct {
	name    string
	fsync   engine.FsyncMode
	journal engine.JournalMode
}

func storeRuns() []storeRun {
	return []storeRun{
		{"periodic", engine.FsyncPeriodic, engine.JournalOff},
		{"on_commit", engine.FsyncOnCommit, engine.JournalOff},
		{"on_commit, journal", engine.FsyncOnCommit, engine.JournalRequire},
	}
}

// journalItself is the digest of the journal's own directory.
const journalItself = "journal itself"

// digests are the names of what a run's digests are over, the store first.
func (s storeRun) digests() []string {
	names := []string{"store, " + s.name}
	if s.journal == engine.JournalRequire {
		names = append(names, journalItself)
	}
	return names
}

// writeStores writes whole data directories, with a fixed clock and fixed random bytes, so
// that not even a time or an id differs. Settings of the environment apply, such as
// FELIX_STORAGE_IO_URING.
func writeStores(ctx context.Context, dir string, out *plan.Written) error {
	for _, s := range storeRuns() {
		root := filepath.Join(dir, "store "+s.name)
		err := s.write(ctx, root, out)
		if no := (*engine.JournalUnavailableError)(nil); errors.As(err, &no) {
			for _, what := range s.digests() {
				out.Missing[what] = no.Reason
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("store, %s: %w", s.name, err)
		}
		t := newTree()
		if err := t.add(root, func(name string) bool { return name == journalName }, unchanged); err != nil {
			return err
		}
		out.Digests[s.digests()[0]] = t.digest()
		out.Files, out.Bytes = out.Files+t.files, out.Bytes+t.bytes
		if s.journal != engine.JournalRequire {
			continue
		}
		t = newTree()
		if err := t.add(filepath.Join(root, journalName), nothing, withoutFrames); err != nil {
			return err
		}
		out.Digests[journalItself] = t.digest()
		out.Files, out.Bytes = out.Files+t.files, out.Bytes+t.bytes
	}
	return nil
}

// withoutFrames blanks the journal's data files. A store that is closed leaves nothing in
// them that counts: their bytes are frames of the past, and which of them were written over
// by newer ones depends on when the segments had caught up, which is a matter of time. What
// stays is how many there are, how long they are, and the file that names the epoch.
func withoutFrames(name string, b []byte) error {
	if strings.HasSuffix(name, ".journal") {
		clear(b)
	}
	return nil
}

// config is fixed but for what the environment chooses.
func (s storeRun) config() (engine.Config, error) {
	settings := make(map[string]string)
	for _, v := range engine.Variables() {
		if text, set := os.LookupEnv(v.Name); set && v.Name != engine.RootVariable {
			settings[v.Name] = text
		}
	}
	c, err := engine.ParseConfig(settings)
	if err != nil {
		return c, err
	}
	c.FsyncMode, c.Journal, c.JournalBytes = s.fsync, s.journal, engine.JournalBytesMin
	c.SegmentBytes, c.IndexSpacingBytes = 8192, 1024
	c.NowMicros = func() uint64 { return 1_700_000_000_000_000 }
	c.Random = &fixedRandom{rand.NewChaCha8([32]byte{'f', 'e', 'l', 'i', 'x'})}
	c.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return c, nil
}

// fixedRandom is one sequence of bytes for every store.
type fixedRandom struct{ *rand.ChaCha8 }

var _ io.Reader = (*fixedRandom)(nil)

// sittings is how often a store is opened.
const sittings = 2

func (s storeRun) write(ctx context.Context, root string, out *plan.Written) error {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	config, err := s.config()
	if err != nil {
		return err
	}
	for sitting := range sittings {
		store, err := engine.OpenStore(ctx, root, config)
		if err != nil {
			return err
		}
		out.Backends = append(out.Backends, store.Backend().Name)
		err = s.sit(ctx, store, sitting)
		if err = errors.Join(err, store.Close(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// logsPerStore share one journal.
const logsPerStore = 3

// sit appends to several logs in turn, one append after the other, so that what is
// gathered into a write does not depend on time. It drops records, seals, and reads all
// of them back.
func (s storeRun) sit(ctx context.Context, store *engine.Store, sitting int) error {
	sizes := rand.New(rand.NewPCG(uint64(sitting), 7))
	var logs []*engine.Log
	for shard := range uint32(logsPerStore) {
		l, err := store.OpenLog(ctx, engine.ShardKey{Tenant: "t1", Namespace: "default", Stream: "orders", Shard: shard})
		if err != nil {
			return err
		}
		logs = append(logs, l)
	}
	for range 30 {
		for _, l := range logs {
			if err := appendSome(ctx, l, sizes); err != nil {
				return err
			}
		}
	}
	if err := logs[1].Truncate(ctx, logs[1].TailOffset()-5); err != nil {
		return err
	}
	if _, err := logs[2].Seal(ctx); err != nil {
		return err
	}
	for _, l := range logs {
		if err := readAll(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

func appendSome(ctx context.Context, l *engine.Log, sizes *rand.Rand) error {
	records := make([]engine.Record, 1+sizes.IntN(3))
	for i := range records {
		records[i].Payload = payloadAt(l.TailOffset()+uint64(i), sizes.IntN(600))
	}
	_, err := l.Append(ctx, records...)
	return err
}

// payloadAt begins with the offset, so that a record in the wrong place is noticed.
func payloadAt(offset uint64, more int) []byte {
	return fmt.Appendf(nil, "%020d%s", offset, strings.Repeat("x", more))
}

func readAll(ctx context.Context, l *engine.Log) error {
	for next := l.BaseOffset(); next < l.TailOffset(); {
		records, err := l.ReadRange(ctx, next, 1<<20)
		if err != nil {
			return err
		}
		if len(records) == 0 {
			return fmt.Errorf("%s: nothing is read at offset %d of %d", l.Label(), next, l.TailOffset())
		}
		for _, r := range records {
			if want := fmt.Sprintf("%020d", next); r.Offset != next || !strings.HasPrefix(string(r.Payload), want) {
				return fmt.Errorf("%s: at offset %d there is record %d", l.Label(), next, r.Offset)
			}
			next++
		}
	}
	return nil
}
