package engine_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/uring"
)

const shards = 64

// crowd is a store with many logs on one ring that a test can hold.
type crowd struct {
	*rig
	logs []*engine.Log
	// queued counts the operations handed to the ring, by kind.
	queued *queuedOps
	ring   *uring.Ring
	gate   *gate
}

// queuedOps passes operations on and tells when enough of a kind were seen.
type queuedOps struct {
	device.Queue
	mu struct {
		sync.Mutex
		seen    [device.KindCount]int
		kind    device.Kind
		want    int
		reached chan struct{}
	}
}

// Submit counts after handing over, so that what is counted is in line.
func (q *queuedOps) Submit(ops ...*device.Op) {
	var kinds [device.KindCount]int
	for _, op := range ops {
		kinds[op.Kind]++
	}
	q.Queue.Submit(ops...)
	q.mu.Lock()
	defer q.mu.Unlock()
	for kind, n := range kinds {
		q.mu.seen[kind] += n
	}
	if q.mu.reached != nil && q.mu.seen[q.mu.kind] >= q.mu.want {
		close(q.mu.reached)
		q.mu.reached = nil
	}
}

// await gives a channel that is closed once n more operations of a kind are in line.
func (q *queuedOps) await(kind device.Kind, n int) <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	reached := make(chan struct{})
	q.mu.kind, q.mu.want, q.mu.reached = kind, q.mu.seen[kind]+n, reached
	return reached
}

// gate holds the ring's loop where it looks for work, and keeps the counters of
// each of its turns.
type gate struct {
	mu struct {
		sync.Mutex
		ring  *uring.Ring
		turns []device.QueueStats
		// shut is non-nil while the loop is to be held, and at is closed once it is.
		shut, at chan struct{}
	}
}

func (g *gate) pass() {
	g.mu.Lock()
	if g.mu.ring != nil {
		g.mu.turns = append(g.mu.turns, g.mu.ring.Stats())
	}
	shut := g.mu.shut
	if g.mu.at != nil {
		close(g.mu.at)
		g.mu.at = nil
	}
	g.mu.Unlock()
	if shut != nil {
		<-shut
	}
}

// hold returns when the loop stands at the gate. A waiting loop is brought there by an
// empty write, which needs no entry; one that was already past the gate may carry that
// out on its way to waiting, and is sent another. What is submitted once hold is back
// is counted from the turn the loop stands in.
func (g *gate) hold() {
	at := make(chan struct{})
	g.mu.Lock()
	g.mu.shut, g.mu.at = make(chan struct{}), at
	g.mu.turns = nil
	ring := g.mu.ring
	g.mu.Unlock()
	for {
		nudge := &device.Op{}
		ring.Submit(nudge)
		select {
		case <-at:
			return
		case <-nudge.Done():
		}
	}
}

func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.shut != nil {
		close(g.mu.shut)
		g.mu.shut = nil
	}
}

// calls is in how many io_uring_enter calls the first n entries since hold went
// out.
func (g *gate) calls(t *testing.T, n uint64) uint64 {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	turns := append(g.mu.turns, g.mu.ring.Stats())
	first := turns[0]
	for _, turn := range turns {
		if turn.EnterOps-first.EnterOps >= n {
			return turn.Enters - first.Enters
		}
	}
	t.Fatalf("of %d entries %d went out", n, turns[len(turns)-1].EnterOps-first.EnterOps)
	return 0
}

func newCrowd(t *testing.T, change ...func(*engine.Config)) *crowd {
	t.Helper()
	needRing(t)
	c := &crowd{gate: &gate{}}
	var err error
	if c.ring, err = uring.Open(uring.Options{Entries: 256, Hooks: uring.Hooks{Gather: c.gate.pass}}); err != nil {
		t.Fatal(err)
	}
	c.gate.mu.Lock()
	c.gate.mu.ring = c.ring
	c.gate.mu.Unlock()
	t.Cleanup(func() {
		if err := c.ring.Close(); err != nil {
			t.Error(err)
		}
	})
	c.queued = &queuedOps{Queue: c.ring}
	change = append([]func(*engine.Config){func(cfg *engine.Config) {
		cfg.Queue = c.queued
		cfg.SegmentBytes = 1 << 20
		cfg.MarkSyncInterval = 0
	}}, change...)
	c.rig = newRigIn(t, t.TempDir(), change...)
	t.Cleanup(c.gate.release)
	c.logs = []*engine.Log{c.log}
	for i := 1; i < shards; i++ {
		l, err := c.store.OpenLog(c.ctx, testKey(i))
		if err != nil {
			t.Fatal(err)
		}
		c.logs = append(c.logs, l)
	}
	return c
}

// heldUntil lets every log do something while the ring is held, until all of
// their operations of a kind are in line, and gives the number of calls they
// went out in.
func (c *crowd) heldUntil(t *testing.T, kind device.Kind, do func(*engine.Log) error) uint64 {
	t.Helper()
	inLine := c.queued.await(kind, len(c.logs))
	c.gate.hold()
	var all sync.WaitGroup
	for _, l := range c.logs {
		all.Go(func() {
			if err := do(l); err != nil {
				t.Error(err)
			}
		})
	}
	select {
	case <-inLine:
	case <-c.ctx.Done():
		t.Fatal("the operations did not come together")
	}
	c.gate.release()
	all.Wait()
	return c.gate.calls(t, uint64(len(c.logs)))
}

func TestAllShardsShareOneRing(t *testing.T) {
	before := rings(t)
	c := newCrowd(t)
	if n := rings(t) - before; n != 1 {
		t.Errorf("%d logs are open on %d rings", len(c.logs), n)
	}
	for _, l := range c.logs {
		if _, err := l.Append(c.ctx, engine.Record{Payload: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	if n := rings(t) - before; n != 1 {
		t.Errorf("after appending there are %d rings", n)
	}
	stats := c.store.Stats().Queue
	if stats.Backend != "ring" || stats.Ops[device.WriteDsync] < shards {
		t.Errorf("%+v", stats)
	}
}

// rings counts the io_uring descriptors of this process.
func rings(t testing.TB) int {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == "anon_inode:[io_uring]" {
			n++
		}
	}
	return n
}

func TestWhatAllShardsWantGoesOutInAtMostTwoCalls(t *testing.T) {
	c := newCrowd(t)
	append1 := func(l *engine.Log) error {
		_, err := l.Append(c.ctx, engine.Record{Payload: make([]byte, 100)})
		return err
	}
	// The first append of a segment waits for its reservation and then writes.
	if n := c.heldUntil(t, device.Allocate, append1); n > 2 {
		t.Errorf("%d reservations went out in %d calls", shards, n)
	}
	if n := c.heldUntil(t, device.WriteDsync, append1); n > 2 {
		t.Errorf("%d durable writes went out in %d calls", shards, n)
	}
	if inline := c.store.Stats().Inline; inline != [device.KindCount]uint64{} {
		t.Errorf("with %d busy logs under on_commit, operations went inline: %v", shards, inline)
	}
}

func TestTheFlushesOfAllShardsGoOutInAtMostTwoCalls(t *testing.T) {
	c := newCrowd(t, func(cfg *engine.Config) { cfg.FsyncMode = engine.FsyncNone })
	for _, l := range c.logs {
		if _, err := l.Append(c.ctx, engine.Record{Payload: make([]byte, 100)}); err != nil {
			t.Fatal(err)
		}
	}
	if n := c.heldUntil(t, device.Flush, func(l *engine.Log) error { return l.Sync(c.ctx) }); n > 2 {
		t.Errorf("%d flushes went out in %d calls", shards, n)
	}
}

func TestBusyLogsUnderOnCommitWriteNothingInline(t *testing.T) {
	needRing(t)
	r := newRigIn(t, t.TempDir(), func(c *engine.Config) { c.IOURing = engine.IOURingRequire })
	second, err := r.store.OpenLog(r.ctx, testKey(1))
	if err != nil {
		t.Fatal(err)
	}
	// In rounds, so that neither makes as many commits in a row as a log alone needs
	// before its writes leave the ring, however the two are scheduled.
	const rounds, each = 100, 16
	for range rounds {
		var both sync.WaitGroup
		for _, l := range []*engine.Log{r.log, second} {
			both.Go(func() {
				for range each {
					if _, err := l.Append(r.ctx, engine.Record{Payload: make([]byte, 100)}); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		both.Wait()
	}
	stats := r.store.Stats()
	if stats.Inline != [device.KindCount]uint64{} {
		t.Errorf("inline operations by kind: %v", stats.Inline)
	}
	if stats.Queue.Ops[device.WriteDsync] == 0 {
		t.Error("the ring carried no durable write")
	}
}

// busyLogs is the child that is traced.
func busyLogs() error {
	ctx := context.Background()
	root := os.Getenv("ENGINE_TEST_ROOT")
	cfg := testConfig()
	cfg.IOURing = engine.IOURingRequire
	store, err := engine.OpenStore(ctx, root, cfg)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	failures := make(chan error, 8)
	for shard := range 4 {
		l, err := store.OpenLog(ctx, testKey(shard))
		if err != nil {
			return err
		}
		for range 2 {
			all.Go(func() {
				for range 40 {
					if _, err := l.Append(ctx, engine.Record{Payload: make([]byte, 200)}); err != nil {
						failures <- err
						return
					}
				}
			})
		}
	}
	all.Wait()
	close(failures)
	for err := range failures {
		return err
	}
	return store.Close(ctx)
}

func TestNoBlockingCallTouchesASegmentUnderTheRing(t *testing.T) {
	needRing(t)
	strace := straceOrSkip(t)
	root := t.TempDir()
	trace := filepath.Join(t.TempDir(), "trace")
	cmd := child(t, "busy logs", "ENGINE_TEST_ROOT="+root)
	const calls = "pwrite64,pwritev,pwritev2,write,writev,fdatasync,fsync,sync_file_range,fallocate,io_uring_enter"
	cmd.Args = append([]string{strace, "-f", "-y", "-qq", "-o", trace, "-e", "trace=" + calls}, cmd.Path)
	cmd.Path = strace
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	enters := 0
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, "io_uring_enter(") {
			enters++
		}
		// One that writes nothing waits for no device.
		if strings.Contains(line, ".log>") && !strings.Contains(line, `>, "", 0, 0`) {
			t.Errorf("a blocking call on a segment: %s", line)
		}
	}
	if enters == 0 {
		t.Fatalf("the trace shows no io_uring_enter:\n%.2000s", b)
	}
	logs, err := filepath.Glob(filepath.Join(root, "*", "*.log"))
	if err != nil || len(logs) < 8 {
		t.Fatalf("%d segments were written, %v", len(logs), err)
	}
	t.Logf("%d io_uring_enter calls for %d segments", enters, len(logs))
}

// straceOrSkip finds strace and makes sure that it may trace.
func straceOrSkip(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("no strace here:", err)
	}
	if out, err := exec.Command(path, "-f", "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		t.Skipf("strace may not trace here: %v: %s", err, out)
	}
	return path
}
