package producer

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"felix.local/felix/segment"
)

// held is a checkpoint with the tail it was taken at.
type held struct {
	cp   Checkpoint
	tail uint64
}

// machine draws what happens to a log.
type machine struct {
	*rig
	held []held
	// saved is a snapshot taken earlier.
	saved     []byte
	savedAsOf uint64
}

func (m *machine) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":               m.verify,
		"batch":          m.whole,
		"next":           m.next,
		"again":          m.next, // most producers behave
		"part":           m.part,
		"missing":        m.missing,
		"lone continue":  func(*rapid.T) { m.observe(segment.Mark{Kind: segment.BatchContinue}, []byte("lone")) },
		"plain":          func(*rapid.T) { m.plain() },
		"generation":     func(*rapid.T) { m.observe(segment.Mark{Kind: segment.GenerationStart}, make([]byte, 8)) },
		"empty batch":    m.empty,
		"left out":       func(t *rapid.T) { m.leaveOut(rapid.Uint64Range(0, 2).Draw(t, "records")) },
		"torn":           m.torn,
		"prune":          m.pruneSome,
		"checkpoint":     m.checkpoint,
		"rollback":       m.rollback,
		"forget":         m.forget,
		"save":           m.save,
		"restart":        m.restart,
		"settle nothing": func(*rapid.T) { m.state.Settle(m.model.tail) },
	}
}

func drawProducer(t *rapid.T) uint64 { return rapid.Uint64Range(0, 6).Draw(t, "producer") }

func (m *machine) whole(t *rapid.T) {
	n := rapid.Uint32Range(1, 4).Draw(t, "len")
	m.batch(drawProducer(t), rapid.Uint64Range(0, 9).Draw(t, "sequence"), n, 0, n)
}

func (m *machine) next(t *rapid.T) {
	id, n := drawProducer(t), rapid.Uint32Range(1, 3).Draw(t, "len")
	sequence, _ := m.state.NextSequence(id)
	m.batch(id, sequence, n, 0, n)
}

func (m *machine) part(t *rapid.T) {
	id, n := drawProducer(t), rapid.Uint32Range(2, 5).Draw(t, "len")
	sequence, _ := m.state.NextSequence(id)
	m.batch(id, sequence, n, 0, rapid.Uint32Range(1, n-1).Draw(t, "held"))
}

// missing stores some or all of what the open batch lacks.
func (m *machine) missing(t *rapid.T) {
	o := m.model.state().open
	if o == nil {
		t.Skip("no open batch")
	}
	m.batch(o.producer, o.sequence, o.len, o.held, rapid.Uint32Range(o.held+1, o.len).Draw(t, "held"))
}

// torn is a record that continues, behind one that was left out.
func (m *machine) torn(*rapid.T) {
	m.model.tail++
	m.observe(segment.Mark{Kind: segment.BatchContinue}, []byte("torn"))
}

func (m *machine) empty(t *rapid.T) {
	mark := segment.Mark{Kind: segment.BatchOpen, Producer: drawProducer(t), Sequence: rapid.Uint64Range(0, 9).Draw(t, "sequence")}
	m.observe(mark, nil)
}

// pruneSome stays below what can still be rolled back, as retention does.
func (m *machine) pruneSome(t *rapid.T) {
	limit := m.model.tail
	if len(m.held) > 0 {
		limit = m.held[0].tail
	}
	m.prune(rapid.Uint64Range(0, limit).Draw(t, "base"))
}

func (m *machine) checkpoint(*rapid.T) {
	m.held = append(m.held, held{m.state.Checkpoint(), m.model.tail})
}

func (m *machine) pick(t *rapid.T) int {
	if len(m.held) == 0 {
		t.Skip("no checkpoint")
	}
	return rapid.IntRange(0, len(m.held)-1).Draw(t, "checkpoint")
}

func (m *machine) rollback(t *rapid.T) {
	at := m.pick(t)
	m.state.Rollback(m.held[at].cp)
	m.model.cut(m.held[at].tail)
	m.held = m.held[:at]
	if m.savedAsOf > m.model.tail {
		m.saved = nil
	}
}

func (m *machine) forget(t *rapid.T) {
	at := m.pick(t)
	m.state.Forget(m.held[at].cp)
	m.held = slices.Delete(m.held, 0, at+1)
}

func (m *machine) save(*rapid.T) {
	m.saved, m.savedAsOf = m.state.AppendTo(nil, m.model.tail, SnapshotV2), m.model.tail
}

// restart goes on with a state from the snapshot and the records after it.
func (m *machine) restart(t *rapid.T) {
	if len(m.held) > 0 || m.saved == nil || !Usable(m.savedAsOf, m.model.base, m.model.tail) {
		t.Skip("nothing to start from")
	}
	m.state = m.fromSnapshot(t)
}

func (m *machine) fromSnapshot(t *rapid.T) *State {
	s, asOf, err := decodeInto(newBounded(m.state.options, m.state.producersMax, m.state.batchesMax), m.saved)
	if err != nil || asOf != m.savedAsOf {
		t.Fatalf("as of %d: %v", asOf, err)
	}
	s.Prune(m.model.base)
	for _, r := range m.model.records {
		if r.offset >= asOf {
			s.Observe(r.offset, r.mark, r.payload)
		}
	}
	s.Settle(m.model.tail)
	return s
}

// verify runs after every action.
func (m *machine) verify(t *rapid.T) {
	want := m.model.state()
	checkAgainst(t, m.state, want, m.model.tail)
	b := m.state.AppendTo(nil, m.model.tail, SnapshotV2)
	again, asOf, err := decodeInto(newBounded(m.state.options, m.state.producersMax, m.state.batchesMax), b)
	if err != nil || asOf != m.model.tail {
		t.Fatalf("round trip as of %d: %v", asOf, err)
	}
	checkAgainst(t, again, want, m.model.tail)
	if m.saved != nil && Usable(m.savedAsOf, m.model.base, m.model.tail) {
		checkAgainst(t, m.fromSnapshot(t), want, m.model.tail)
	}
}

func TestTheStateIsWhatTheRulesMakeOfAllRecords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{rig: newRig(
			rapid.Bool().Draw(t, "digests"),
			rapid.IntRange(1, 5).Draw(t, "producers"),
			rapid.IntRange(1, 4).Draw(t, "batches"),
		)}
		t.Repeat(m.actions())
	})
}

func TestHundredsOfProducersComeAndGo(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			r := newRig(seed%2 == 0, 150, 5)
			f := newTraffic(seed, 400)
			for step := range 3000 {
				f.step(r)
				if step%300 == 299 {
					r.check(t)
				}
				if step%700 == 699 {
					r.prune(r.model.base + (r.model.tail-r.model.base)/3)
					r.check(t)
				}
			}
		})
	}
}

func TestTheBoundsAreThoseOfTheFormat(t *testing.T) {
	s := New(Options{})
	offset := uint64(0)
	send := func(producer, sequence uint64) {
		s.Observe(offset, Marks(producer, sequence, 1)(0), nil)
		offset++
	}
	for id := range uint64(4096) {
		send(id, 0)
	}
	for sequence := range uint64(64) {
		send(0, 1+sequence)
	}
	if got := s.Classify(0, 0).Verdict; got != Expired {
		t.Errorf("the 65th batch from the end is %v", got)
	}
	if got := s.Classify(0, 1).Verdict; got != Held {
		t.Errorf("the 64th batch from the end is %v", got)
	}
	if got := s.Classify(1, 0).Verdict; s.Len() != 4096 || got != Held {
		t.Errorf("of 4096 producers %d are known, the oldest is %v", s.Len(), got)
	}
	send(4096, 0)
	if got := s.Classify(1, 0).Verdict; s.Len() != 4096 || got != Unknown {
		t.Errorf("after one more %d are known, the oldest is %v", s.Len(), got)
	}
	if got := s.Classify(0, 64).Verdict; got != Held {
		t.Errorf("a producer with a newer batch is %v", got)
	}
}

func TestABatchThatARecordIsLeftOutOfIsAbandoned(t *testing.T) {
	for name, end := range map[string]func(*State){
		"by settling":           func(s *State) { s.Settle(3) },
		"by the next record":    func(s *State) { s.Observe(2, segment.Mark{}, nil) },
		"by a later one of it":  func(s *State) { s.Observe(3, segment.Mark{Kind: segment.BatchContinue}, nil) },
		"by another batch":      func(s *State) { s.Observe(3, Marks(7, 0, 2)(0), nil) },
		"by a generation start": func(s *State) { s.Observe(2, segment.Mark{Kind: segment.GenerationStart}, nil) },
		"by pruning its start":  func(s *State) { s.Prune(1) },
	} {
		t.Run(name, func(t *testing.T) {
			var s State
			mark := Marks(1, 0, 4)
			s.Observe(0, mark(0), nil)
			s.Observe(1, mark(1), nil)
			want := Class{Verdict: Partial, First: 0, Last: 1, Held: 2, Len: 4}
			if got := s.Classify(1, 0); got != want {
				t.Fatalf("before: %+v, want %+v", got, want)
			}
			end(&s)
			if got := s.Classify(1, 0); got != (Class{Verdict: Unknown}) {
				t.Fatalf("after: %+v", got)
			}
		})
	}
}

func TestABatchSentAgainWholeReplacesNothingButItsAnswer(t *testing.T) {
	r := newRig(true, ProducersMax, BatchesMax)
	r.batch(1, 0, 2, 0, 2)
	r.batch(1, 1, 2, 0, 2)
	r.batch(1, 1, 2, 0, 2)
	r.check(t)
	if got := r.state.Classify(1, 1); got.Verdict != Held || got.First != 4 {
		t.Fatalf("sequence 1 is %+v", got)
	}
	if got := r.state.Classify(1, 0).Verdict; got != Expired {
		t.Fatalf("sequence 0 is %v", got)
	}
}

func TestTheLastSequenceOf64BitsHasNoNext(t *testing.T) {
	var s State
	s.Observe(0, Marks(1, math.MaxUint64-1, 1)(0), nil)
	s.Observe(1, Marks(1, math.MaxUint64, 1)(0), nil)
	if next, ok := s.NextSequence(1); ok {
		t.Fatalf("the next is %d", next)
	}
	if got := s.Classify(1, math.MaxUint64).Verdict; got != Held {
		t.Fatalf("the last is %v", got)
	}
	if got := s.Classify(1, 0).Verdict; got != Expired {
		t.Fatalf("sequence 0 is %v", got)
	}
	s.Observe(2, Marks(1, 0, 1)(0), nil)
	if got := s.Classify(1, math.MaxUint64-1).Verdict; got != Gap {
		t.Fatalf("after starting over, the one before the last is %v", got)
	}
	if _, _, err := Decode(s.AppendTo(nil, 3, SnapshotV1), Options{}); err != nil {
		t.Fatalf("after starting over: %v", err)
	}
}

func TestAZeroStateIsAnEmptyLog(t *testing.T) {
	var s State
	if got := s.Classify(1, 0); got != (Class{Verdict: Unknown}) || s.Len() != 0 {
		t.Fatalf("%+v, %d producers", got, s.Len())
	}
	s.Settle(5)
	s.Prune(5)
	s.Observe(5, Marks(1, 0, 1)(0), nil)
	if got := s.Classify(1, 0).Verdict; got != Held {
		t.Fatalf("after its batch: %v", got)
	}
}

func TestAnOffsetObservedTwiceIsABug(t *testing.T) {
	var s State
	s.Observe(3, segment.Mark{}, nil)
	mustPanic(t, func() { s.Observe(3, segment.Mark{}, nil) })
	mustPanic(t, func() { s.AppendTo(nil, 3, SnapshotV1) })
	mustPanic(t, func() { s.AppendTo(nil, 4, 3) })
	mustPanic(t, func() { s.Rollback(Checkpoint{}) })
}

func mustPanic(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("did not panic")
		}
	}()
	f()
}
