package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"

	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
	"felix.local/felix/segment"
)

// pair is two replicas of a shard that lead in turns. Their disks lose power, their
// processes die, and what both of them hold is committed.
type pair struct {
	testing.TB
	ctx        context.Context
	random     *rand.Rand
	nodes      [2]*replicaNode
	leader     int
	generation uint64
	// starts is where the leader's generation starts.
	starts uint64
	// committed are the records that must never go.
	committed map[uint64]segment.Record
	counts    map[string]int
	producers uint64
	// outvoted counts the publishers that went on at a leader until it followed another.
	outvoted atomic.Int64
}

type replicaNode struct {
	*simRig
	name string
}

func newPair(t testing.TB, seed uint64, mode engine.FsyncMode) *pair {
	t.Helper()
	p := &pair{
		TB: t, ctx: deadline(t), random: rand.New(rand.NewPCG(seed, 1)),
		committed: make(map[uint64]segment.Record), counts: make(map[string]int),
	}
	for i := range p.nodes {
		p.nodes[i] = &replicaNode{name: fmt.Sprintf("broker-%d", i), simRig: newSimRig(t, func(c *engine.Config) {
			c.FsyncMode = mode
			c.SegmentBytes = 700 + p.random.Int64N(2000) // of its own: the files differ, the records do not
			c.RolloverThresholdPercent = []int{50, 100}[p.random.IntN(2)]
			var micros atomic.Uint64
			c.NowMicros = func() uint64 { return fixedMicros + uint64(i)*1_000_000 + micros.Add(1) }
		})}
	}
	return p
}

func (p *pair) follower() *replicaNode { return p.nodes[1-p.leader] }

// crash ends a node's process, or its power, and starts it again on what is left.
func (p *pair) crash(n *replicaNode) {
	p.Helper()
	kind := p.crashKind(n.cfg.FsyncMode)
	image := n.disk.Crash(simdisk.CrashOptions{Kind: kind, Seed: p.random.Uint64()})
	_ = n.store.Close(p.ctx) // the former process, on its own disk
	cfg := n.cfg
	n.disk, n.rig = image, simRigOn(p.TB, image, func(c *engine.Config) { *c = cfg })
}

// crashKind draws what a node comes to. The power goes where an acknowledgement
// outlasts that.
func (p *pair) crashKind(mode engine.FsyncMode) simdisk.CrashKind {
	kind := simdisk.ProcessDeath
	if mode == engine.FsyncOnCommit && p.random.IntN(2) == 0 {
		kind = simdisk.PowerLoss
	}
	p.counts[fmt.Sprintf("crash %d", kind)]++
	return kind
}

// elect makes a node the leader of a new generation.
func (p *pair) elect(i int) {
	p.Helper()
	p.leader = i
	p.generation++
	l := p.nodes[i]
	l.accept(p.generation, l.name)
	if p.random.IntN(8) == 0 {
		// It crashes after its first act, and the next generation is another's turn.
		l.must(l.log.RecordGeneration(p.ctx, p.generation, l.log.TailOffset()))
		p.crash(l)
		p.elect(p.random.IntN(2))
		return
	}
	p.starts, _ = l.start(p.generation)
}

// publish appends from several goroutines until quit is closed, the log is, or it
// follows another leader.
func (p *pair) publish(log *engine.Log, quit <-chan struct{}) (wait func()) {
	var publishers sync.WaitGroup
	for range 3 {
		p.producers++
		id, random := p.producers, rand.New(rand.NewPCG(p.random.Uint64(), 2))
		publishers.Go(func() {
			for sequence := uint64(0); ; sequence++ {
				select {
				case <-quit:
					return
				default:
				}
				records := make([]engine.Record, 1+random.IntN(4))
				for i := range records {
					records[i].Payload = payload(random.Uint64N(1000), random.IntN(200))
				}
				var err error
				if id%2 == 0 {
					_, err = log.AppendProduced(p.ctx, engine.ProducerBatch{Producer: id, Sequence: sequence}, records...)
				} else {
					_, err = log.Append(p.ctx, records...)
				}
				var follows *engine.PromisedError
				var cut *engine.SequenceError
				var closed *engine.ClosedError
				switch {
				case err == nil:
				case errors.As(err, &follows):
					p.outvoted.Add(1)
					return
				case errors.As(err, &closed), errors.As(err, &cut): // what it published before went
					return
				default:
					p.Errorf("a publisher's append: %v", err)
					return
				}
			}
		})
	}
	return publishers.Wait
}

// ship sends the follower up to n pieces and repairs it on the way. It ends early
// when the follower holds what the leader holds, unless n is below 0: then it ends
// only there.
func (p *pair) ship(n int) {
	p.Helper()
	l, f := p.nodes[p.leader], p.follower()
	for from := f.log.TailOffset(); n != 0; n-- {
		s, err := l.log.ReadShipment(p.ctx, p.generation, l.name, from, 1+p.random.Int64N(800))
		var ahead *engine.DivergedError
		if errors.As(err, &ahead) {
			f.accept(p.generation, l.name)
			from = p.repair(ahead.Offset)
			continue
		}
		l.must(err)
		if p.random.IntN(4) == 0 && len(s.Records) > 0 && from > 3 {
			// A piece that was sent before comes once more.
			from -= 1 + p.random.Uint64N(3)
			continue
		}
		switch err := f.log.ApplyShipment(p.ctx, s); {
		case err == nil:
		case errors.As(err, &ahead):
			from = p.repair(ahead.Offset)
			continue
		default:
			p.Fatal(err)
		}
		// A majority holds this, and with it, once it reaches a record of the
		// leader's own generation, all before it.
		if from = s.Next(); from > p.starts {
			for _, r := range s.Records {
				p.committed[r.Offset] = r
			}
			l.advance(from)
		} else if len(s.Records) > 0 {
			p.counts["inherited"]++
		}
		if len(s.Records) == 0 && (n < 0 || p.random.IntN(3) == 0) && from == l.log.TailOffset() {
			return
		}
	}
}

// repair cuts what the follower holds and its leader does not. Where the two have no
// generation in common it begins anew, which is refused if anything was committed.
func (p *pair) repair(diverged uint64) (from uint64) {
	p.Helper()
	l, f := p.nodes[p.leader], p.follower()
	cut, err := f.log.TruncationPoint(diverged, func(generation uint64) (uint64, bool) {
		return l.log.GenerationEnd(generation, l.log.TailOffset())
	})
	var unknown *engine.HistoryError
	if errors.As(err, &unknown) { // the leader holds nothing that the follower knows of
		f.must(f.log.ResetTo(p.ctx, l.log.BaseOffset()))
		p.counts["reset"]++
		return f.log.TailOffset()
	}
	f.must(err)
	if cut >= f.log.TailOffset() {
		p.Fatalf("a follower that differs is to be cut at its end %d: %v and %v", cut, f.log.Generations(), l.log.Generations())
	}
	f.must(f.log.Truncate(p.ctx, cut))
	p.counts["cut"]++
	return cut
}

// level checks that the two hold the same, byte for byte, and all that was ever
// committed.
func (p *pair) level() {
	p.Helper()
	a, b := p.nodes[0], p.nodes[1]
	held, other := a.readAll(), b.readAll()
	if len(held) != len(other) {
		p.Fatalf("%d and %d records", len(held), len(other))
	}
	for i := range held {
		if !sameStored(held[i], other[i]) {
			p.Fatalf("record %d: %+v and %+v", i, held[i], other[i])
		}
	}
	if x, y := a.log.Generations(), b.log.Generations(); !reflect.DeepEqual(x, y) {
		p.Errorf("generations %v and %v", x, y)
	}
	for offset, want := range p.committed {
		if offset >= uint64(len(held)) || !sameStored(held[offset], want) {
			p.Errorf("record %d was committed and is gone", offset)
		}
	}
	for _, r := range held {
		if generation, starts := r.Generation(); starts {
			p.counts["generation-start"]++
			if got, _ := a.log.GenerationAt(r.Offset); got != generation {
				p.Errorf("record %d starts generation %d and is labelled %d", r.Offset, generation, got)
			}
		}
	}
}

func sameStored(a, b segment.Record) bool {
	return a.Offset == b.Offset && a.TimestampMicros == b.TimestampMicros && a.Mark == b.Mark &&
		a.Checksum == b.Checksum && bytes.Equal(a.Payload, b.Payload)
}

// Two replicas that lead in turns, crash at any moment and are shipped to each other
// while appends go on, at a leader that was replaced too, end up the same, and lose
// nothing that was committed.
func TestShippedLogsEndUpTheSameWhateverCrashes(t *testing.T) {
	total := make(map[string]int)
	for _, mode := range []engine.FsyncMode{engine.FsyncOnCommit, engine.FsyncPeriodic, engine.FsyncNone} {
		for seed := range shipSeeds() {
			t.Run(fmt.Sprintf("%v, seed %d", mode, seed), func(t *testing.T) {
				p := newPair(t, seed, mode)
				stop := func() {}
				defer func() { stop() }() // also when the test fails in between
				for range 8 {
					// Those of the former leader go on, or not.
					if p.random.IntN(2) == 0 {
						stop()
					}
					p.elect(p.random.IntN(2))
					former, quit := stop, make(chan struct{})
					wait := p.publish(p.nodes[p.leader].log, quit)
					stop = sync.OnceFunc(func() {
						close(quit)
						wait()
						former()
					})
					for range p.random.IntN(20) {
						p.nodes[p.leader].append(engine.Record{Payload: []byte("beside the publishers")})
					}
					p.ship(1 + p.random.IntN(30))
					if p.random.IntN(3) == 0 {
						p.crash(p.follower())
						p.ship(1 + p.random.IntN(10))
					}
					var image *simdisk.Disk
					if p.random.IntN(2) == 0 { // in the middle of appends
						image = p.nodes[p.leader].disk.Crash(simdisk.CrashOptions{Kind: p.crashKind(mode), Seed: p.random.Uint64()})
					}
					if image != nil {
						stop()
						n := p.nodes[p.leader]
						_ = n.store.Close(p.ctx)
						cfg := n.cfg
						n.disk, n.rig = image, simRigOn(t, image, func(c *engine.Config) { *c = cfg })
					}
					if t.Failed() {
						return
					}
				}
				stop()
				p.elect(p.random.IntN(2))
				// A generation is shipped with its first record.
				p.nodes[p.leader].append(engine.Record{Payload: []byte("the last")})
				p.ship(-1)
				p.level()
				p.crash(p.nodes[0])
				p.nodes[1].reopen()
				p.level()
				for what, n := range p.counts {
					total[what] += n
				}
				total["committed"] += len(p.committed)
				total["outvoted"] += int(p.outvoted.Load())
			})
		}
	}
	t.Logf("%v", total)
	for _, what := range []string{"cut", "inherited", "generation-start", "committed", "outvoted", "crash 0", "crash 1"} {
		if total[what] == 0 {
			t.Errorf("nothing of %q happened", what)
		}
	}
}
