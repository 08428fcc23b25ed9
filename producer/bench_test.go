package producer

import (
	"fmt"
	"testing"

	"felix.local/felix/segment"
)

// BenchmarkObserve is what one record costs, of batches of several sizes, from
// producers at the bound, with and without checkpoints under way and digests.
func BenchmarkObserve(b *testing.B) {
	for _, n := range []uint32{1, 16} {
		for _, undoable := range []bool{false, true} {
			b.Run(fmt.Sprintf("batch=%d/undoable=%v", n, undoable), func(b *testing.B) {
				p := newPlayer(Options{}, n, ProducersMax)
				p.undoable = undoable
				for b.Loop() {
					p.record(nil)
				}
			})
		}
	}
	b.Run("digests/payload=1024", func(b *testing.B) {
		p := newPlayer(Options{Digests: true}, 16, ProducersMax)
		payload := make([]byte, 1024)
		b.SetBytes(1024)
		for b.Loop() {
			p.record(payload)
		}
	})
	b.Run("unmarked", func(b *testing.B) {
		p := newPlayer(Options{}, 1, ProducersMax)
		for b.Loop() {
			p.s.Observe(p.offset, segment.Mark{}, nil)
			p.offset++
		}
	})
	b.Run("every producer evicts one", func(b *testing.B) {
		p := newPlayer(Options{}, 1, ProducersMax)
		b.ReportAllocs()
		for b.Loop() {
			p.s.Observe(p.offset, Marks(p.offset+1e9, 0, 1)(0), nil)
			p.offset++
		}
	})
}

func TestObserveAllocatesNothingOnceProducersAreKnown(t *testing.T) {
	for _, undoable := range []bool{false, true} {
		p := newPlayer(Options{Digests: true}, 3, 50)
		p.undoable = undoable
		payload := []byte("payload")
		for range 3 * 50 * BatchesMax {
			p.record(payload)
		}
		if n := testing.AllocsPerRun(10000, func() { p.record(payload) }); n != 0 {
			t.Errorf("undoable %v: %v allocations for a record", undoable, n)
		}
		if n := testing.AllocsPerRun(1000, func() { p.s.Classify(7, 1) }); n != 0 {
			t.Errorf("%v allocations for an answer", n)
		}
	}
}

func BenchmarkClassify(b *testing.B) {
	s, _ := full()
	for i := uint64(0); b.Loop(); i++ {
		s.Classify(i%ProducersMax, i%BatchesMax)
	}
}

// BenchmarkSnapshot is a state at all bounds, written and read.
func BenchmarkSnapshot(b *testing.B) {
	s, tail := full()
	for _, version := range []uint16{SnapshotV1, SnapshotV2} {
		bytes := s.AppendTo(nil, tail, version)
		b.Run(fmt.Sprintf("append/v%d", version), func(b *testing.B) {
			b.SetBytes(int64(len(bytes)))
			for b.Loop() {
				s.AppendTo(bytes[:0], tail, version)
			}
		})
		b.Run(fmt.Sprintf("decode/v%d", version), func(b *testing.B) {
			b.SetBytes(int64(len(bytes)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := Decode(bytes, Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// player sends batch after batch, of one producer after the other.
type player struct {
	s        *State
	n        uint32
	ids      uint64
	undoable bool

	offset, batches uint64
	i               uint32
	before, last    Checkpoint
}

func newPlayer(o Options, n uint32, ids uint64) *player {
	p := &player{s: New(o), n: n, ids: ids}
	for range ids * BatchesMax * uint64(n) {
		p.record(nil)
	}
	return p
}

// record observes one record. If it is to be undoable, two batches are always
// under way.
func (p *player) record(payload []byte) {
	if p.i == 0 && p.undoable {
		p.s.Forget(p.before)
		p.before, p.last = p.last, p.s.Checkpoint()
	}
	mark := Marks(p.batches%p.ids, p.batches/p.ids, p.n)
	p.s.Observe(p.offset, mark(p.i), payload)
	p.offset++
	if p.i++; p.i == p.n {
		p.i = 0
		p.batches++
	}
}
