package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/fallback"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
	"felix.local/felix/sidecar"
)

// backupRig is a store that is written to while it is copied.
type backupRig struct {
	testing.TB
	ctx    context.Context
	root   string
	cfg    engine.Config
	store  *engine.Store
	copies int
}

func newBackupRig(t testing.TB, change ...func(*engine.Config)) *backupRig {
	t.Helper()
	cfg := engine.DefaultConfig()
	cfg.FsyncMode = engine.FsyncOnCommit
	cfg.SegmentBytes, cfg.IndexSpacingBytes = 600, 100
	cfg.MinFreeBytes, cfg.MinFreeInodes = 0, 0
	cfg.IOURing, cfg.Logger = engine.IOURingOff, slog.New(slog.DiscardHandler)
	for _, f := range change {
		f(&cfg)
	}
	base, err := os.MkdirTemp("/dev/shm", "felix-backup-")
	if err != nil {
		base = t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	ctx := context.Background() // also for what is cleaned up after the test
	r := &backupRig{TB: t, ctx: ctx, root: filepath.Join(base, "root"), cfg: cfg}
	if r.store, err = engine.OpenStore(ctx, r.root, cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.store.Close(ctx) })
	return r
}

func backupKey(shard int) engine.ShardKey {
	return engine.ShardKey{Tenant: "t", Namespace: "n", Stream: "s", Shard: uint32(shard)}
}

func (r *backupRig) open(shard int) *engine.Log {
	r.Helper()
	l, err := r.store.OpenLog(r.ctx, backupKey(shard))
	if err != nil {
		r.Fatal(err)
	}
	return l
}

// backupPayload tells its offset.
func backupPayload(offset uint64) []byte {
	return fmt.Appendf(nil, "%d %s", offset, strings.Repeat("x", int(offset%60)))
}

func (r *backupRig) append(l *engine.Log, n int) {
	r.Helper()
	for range n {
		if _, err := l.Append(r.ctx, engine.Record{Payload: backupPayload(l.TailOffset())}); err != nil {
			r.Fatal(err)
		}
	}
}

func (r *backupRig) appendBatch(l *engine.Log, n int) {
	r.Helper()
	records := make([]engine.Record, n)
	for i := range records {
		records[i].Payload = backupPayload(l.TailOffset() + uint64(i))
	}
	if _, err := l.Append(r.ctx, records...); err != nil {
		r.Fatal(err)
	}
}

// copier is one for a new copy.
func (r *backupRig) copier() *copier {
	r.Helper()
	r.copies++
	c := &copier{
		app: &app{ctx: r.ctx, stdout: io.Discard, stderr: io.Discard}, out: &output{w: io.Discard, json: true},
		policy: recovery.Policy{IndexSpacingBytes: r.cfg.IndexSpacingBytes}, from: r.root, to: filepath.Join(filepath.Dir(r.root), fmt.Sprint("copy-", r.copies)),
	}
	if err := os.Mkdir(c.to, 0o750); err != nil {
		r.Fatal(err)
	}
	return c
}

// atFile has something done once, after the n-th file was copied.
func atFile(n int, do func()) func(string) {
	return func(string) {
		if n--; n == -1 {
			do()
		}
	}
}

// check opens a copy and looks at one shard of it: what it holds of [base, …) was
// appended, without a gap, and it holds everything up to at least tail.
func (r *backupRig) check(dir string, shard int, baseMax, tail uint64) {
	r.Helper()
	c := &copier{to: dir, policy: recovery.Policy{IndexSpacingBytes: r.cfg.IndexSpacingBytes, VerifyAllOnOpen: true}}
	plan, err := c.inspect(backupKey(shard).DirName())
	if err != nil || c.refuses(backupKey(shard).DirName(), plan) {
		r.Fatalf("the copy would be refused: %v\n%v", err, plan)
	}
	for _, step := range plan.Steps {
		if step.BelowMark || step.Action == recovery.SetAside || step.Action == recovery.MakeSegment {
			r.Errorf("the copy's mark vouches for more than the copy holds, or it holds what does not fit: %v", step)
		}
	}
	for _, e := range shardSidecars(c.fs(), filepath.Join(dir, backupKey(shard).DirName()), plan) {
		ahead := e.File == sidecar.BallotName && e.Used // of replica, as a power loss may leave it
		if !e.Used || e.Reason != "" && !ahead {
			r.Errorf("a small file claims more than the copy's segments hold: %s", e.text())
		}
	}
	r.checkMark(filepath.Join(dir, backupKey(shard).DirName()))
	r.checkRecords(dir, shard, baseMax, tail)
}

// checkRecords opens a copy and reads one shard of it.
func (r *backupRig) checkRecords(dir string, shard int, baseMax, tail uint64) {
	r.Helper()
	store, err := engine.OpenStore(r.ctx, dir, r.cfg)
	if err != nil {
		r.Fatal(err)
	}
	defer store.Close(r.ctx)
	l, err := store.OpenLogWith(r.ctx, backupKey(shard), engine.LogOptions{RetentionBytes: new(int64)})
	if err != nil {
		r.Fatal(err)
	}
	if l.BaseOffset() > baseMax || l.TailOffset() < tail {
		r.Errorf("the copy holds [%d, %d), want from at most %d to at least %d", l.BaseOffset(), l.TailOffset(), baseMax, tail)
	}
	for next := l.BaseOffset(); next < l.TailOffset(); {
		records, err := l.ReadRange(r.ctx, next, 1<<20)
		if err != nil || len(records) == 0 {
			r.Fatalf("reading at %d of %d: %v", next, l.TailOffset(), err)
		}
		for _, record := range records {
			if record.Offset != next || !bytes.Equal(record.Payload, backupPayload(next)) {
				r.Fatalf("record %d reads back as %d, %q", next, record.Offset, record.Payload)
			}
			next++
		}
	}
}

// checkMark: what the mark of a copy vouches for is there.
func (r *backupRig) checkMark(dir string) {
	r.Helper()
	segments, err := measure(dir)
	if err != nil {
		r.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, recovery.MarkName))
	mark, ok := recovery.DecodeMark(b)
	if err != nil || !ok {
		r.Fatal("the copy has no mark:", err)
	}
	for _, s := range segments {
		if id, _ := segment.ParseLogName(s.name); id == mark.Segment && s.bytes >= mark.Synced || id > mark.Segment {
			return
		}
	}
	r.Errorf("the copy's mark vouches for more than the copy holds: %+v of %v", mark, segments)
}

// beginsLike says that the segments of a copy are beginnings of those in another
// directory.
func (r *backupRig) beginsLike(copied, dir string) bool {
	r.Helper()
	segments, err := measure(copied)
	if err != nil {
		r.Fatal(err)
	}
	for _, s := range segments {
		have, err := os.ReadFile(filepath.Join(copied, s.name))
		if err != nil {
			r.Fatal(err)
		}
		if whole, err := os.ReadFile(filepath.Join(dir, s.name)); err != nil || !bytes.HasPrefix(whole, have) {
			return false
		}
	}
	return true
}

// Between any two files of a copy the log grows, rolls, and writes its small files
// anew; the copy is the log as it once was.
func TestACopyOfALogThatGrowsMeanwhileIsABeginningOfIt(t *testing.T) {
	for _, background := range []int{100, 50} {
		t.Run(fmt.Sprint("threshold ", background), func(t *testing.T) {
			for begin := range 30 {
				r := newBackupRig(t, func(c *engine.Config) { c.RolloverThresholdPercent, c.MarkSyncInterval = background, time.Millisecond })
				l := r.open(0)
				r.append(l, begin)
				if err := l.RecordGeneration(r.ctx, 1, l.TailOffset()); err != nil {
					t.Fatal(err)
				}
				tail, generation := l.TailOffset(), uint64(1)
				c := r.copier()
				c.copied = func(string) {
					r.append(l, 7)
					generation++
					if err := l.RecordGeneration(r.ctx, generation, l.TailOffset()); err != nil {
						t.Error(err)
					}
					r.append(l, 1)
				}
				if err := c.copyRoot(); err != nil {
					t.Fatal(err)
				}
				r.check(c.to, 0, 0, tail)
			}
		})
	}
}

// While a roll is prepared there are two segments of which the older still grows.
func TestACopyBesideARollInTheBackgroundIsABeginningOfTheLog(t *testing.T) {
	disk := faultdisk.New(device.OS(), fallback.Open(fallback.Options{}), faultdisk.Options{})
	t.Cleanup(func() { _ = disk.Queue().Close() })
	r := newBackupRig(t, func(c *engine.Config) {
		c.RolloverThresholdPercent = 30
		c.FS, c.Queue = disk.FS(), disk.Queue()
	})
	l := r.open(0)
	r.append(l, 1)
	preparing := disk.Inject(faultdisk.Fault{Kinds: faultdisk.FlushDir, Stall: true, Path: func(path string) bool { return path == l.Dir() }})
	for l.Segments()[0].Size*100 < r.cfg.SegmentBytes*int64(r.cfg.RolloverThresholdPercent) {
		r.append(l, 1)
	}
	<-preparing.Reached() // the next segment's file is there, and not used yet
	tail := l.TailOffset()
	c := r.copier()
	c.copied = func(name string) {
		if filepath.Base(name) != segment.LogName(0) {
			return
		}
		r.append(l, 2) // to the older one, which was copied
		preparing.Release()
		for len(l.Segments()) < 2 {
			r.append(l, 1)
		}
	}
	if err := c.copyRoot(); err != nil {
		t.Fatal(err)
	}
	r.check(c.to, 0, 0, tail)
}

// Retention may take segments that the copy has, or is about to copy.
func TestACopyOfALogThatForgetsMeanwhileHasNoGap(t *testing.T) {
	for at := range 12 {
		r := newBackupRig(t)
		l := r.open(0)
		r.append(l, 60)
		c := r.copier()
		c.copied = atFile(at, func() {
			segments := l.Segments()
			if _, err := l.TrimBefore(r.ctx, segments[len(segments)/2].BaseOffset); err != nil {
				t.Error(err)
			}
		})
		if err := c.copyRoot(); err != nil {
			t.Fatal(err)
		}
		r.check(c.to, 0, l.BaseOffset(), 60)
	}
}

// A log that is cut back and written anew while it is copied, to the same segments or
// to others, is copied again, until the copy is one of the two.
func TestACopyOfALogThatIsCutBackMeanwhileIsMadeAgain(t *testing.T) {
	attempts := 0
	for at := range 24 {
		r := newBackupRig(t)
		l := r.open(0)
		r.append(l, 60)
		former := copyOf(t, l.Dir())
		var out bytes.Buffer
		c := r.copier()
		c.out.w = &out
		c.copied = atFile(at/2, func() {
			if err := l.Truncate(r.ctx, 20); err != nil {
				t.Error(err)
			}
			batch := 1 + 2*(at%2)
			for range 45 / batch {
				r.appendBatch(l, batch)
			}
		})
		if err := c.copyRoot(); err != nil {
			t.Fatal(err)
		}
		if copied := filepath.Join(c.to, filepath.Base(l.Dir())); !r.beginsLike(copied, l.Dir()) && !r.beginsLike(copied, former) {
			t.Errorf("%d: the copy is of two histories", at)
		}
		r.check(c.to, 0, 0, 20)
		if !strings.Contains(out.String(), `"attempts":1`) {
			attempts++
		}
	}
	if attempts == 0 {
		t.Error("no copy had to be made again")
	}
}

// A shard that is deleted while it is copied is not in the copy, or is whole there.
func TestACopyOfAShardThatIsDeletedMeanwhileIsWholeOrNone(t *testing.T) {
	for at := range 10 {
		r := newBackupRig(t)
		r.append(r.open(0), 30)
		r.append(r.open(1), 30)
		c := r.copier()
		c.copied = atFile(at, func() {
			if err := r.store.DeleteLog(r.ctx, backupKey(0)); err != nil {
				t.Error(err)
			}
			r.append(r.open(0), 10) // and made again
		})
		if err := c.copyRoot(); err != nil {
			t.Fatal(err)
		}
		r.check(c.to, 1, 0, 30)
		r.check(c.to, 0, 0, 10)
	}
}

// A store that is written to by others all the time: every copy opens, and holds
// everything that was acknowledged before it began.
func TestCopiesOfALiveStoreAreBeginningsOfIt(t *testing.T) {
	rounds, shards := 25, 4
	if testing.Short() {
		rounds = 8
	}
	r := newBackupRig(t, func(c *engine.Config) { c.SegmentBytes = 4000; c.RolloverThresholdPercent = 70 })
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	logs := make([]*engine.Log, shards)
	ended := make(chan error, shards)
	var stop atomic.Bool
	for i := range logs {
		logs[i] = r.open(i)
		go func() {
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			for !stop.Load() {
				records := make([]engine.Record, 1+random.IntN(5))
				tail := logs[i].TailOffset()
				for k := range records {
					records[k].Payload = backupPayload(tail + uint64(k))
				}
				_, err := logs[i].Append(r.ctx, records...)
				if err == nil && tail > 300 {
					_, err = logs[i].TrimBefore(r.ctx, tail-300)
				}
				if err != nil {
					ended <- err
					return
				}
			}
			ended <- nil
		}()
	}
	for range rounds {
		tails := make([]uint64, shards)
		for i, l := range logs {
			tails[i] = l.TailOffset()
		}
		c := r.copier()
		if err := c.copyRoot(); err != nil {
			t.Fatal(err)
		}
		for i := range logs {
			r.check(c.to, i, logs[i].BaseOffset(), tails[i])
		}
		if err := os.RemoveAll(c.to); err != nil {
			t.Fatal(err)
		}
	}
	stop.Store(true)
	for range logs {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// What is damaged is copied as it is, and said to be.
func TestACopyOfADamagedShardSaysSo(t *testing.T) {
	r := newBackupRig(t)
	r.append(r.open(0), 30)
	l := r.open(1)
	r.append(l, 30)
	dir := l.Dir()
	if err := r.store.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, segment.LogName(2))
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[50] ^= 1
	if err := os.WriteFile(path, b, 0o640); err != nil {
		t.Fatal(err)
	}
	c := r.copier()
	c.policy.VerifyAllOnOpen = true
	if err := c.copyRoot(); err != nil || c.refused != 1 || c.shards != 2 {
		t.Errorf("%d of %d refused, %v", c.refused, c.shards, err)
	}
	copied, err := os.ReadFile(filepath.Join(c.to, backupKey(1).DirName(), segment.LogName(2)))
	if err != nil || !bytes.Equal(copied, b) {
		t.Error("the damaged segment was not copied as it is:", err)
	}
	r.check(c.to, 0, 0, 30)
}

// A command that is asked to end ends within a file.
func TestACopyEndsWhenItIsAskedTo(t *testing.T) {
	r := newBackupRig(t)
	r.append(r.open(0), 30)
	c := r.copier()
	ctx, cancel := context.WithCancel(r.ctx)
	c.app = &app{ctx: ctx, stdout: io.Discard, stderr: io.Discard}
	c.copied = func(string) { cancel() }
	if err := c.copyRoot(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
