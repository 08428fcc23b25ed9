package bench

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// shelf is a target in memory, and what is read back of it.
type shelf struct {
	mu   sync.Mutex
	logs [][]Stored
}

func newShelf(logs int) *shelf { return &shelf{logs: make([][]Stored, logs)} }

func (s *shelf) target(worker int) Publisher {
	log := worker % len(s.logs)
	return func(_ context.Context, payloads [][]byte) (uint64, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		first := uint64(len(s.logs[log]))
		for i, payload := range payloads {
			s.logs[log] = append(s.logs[log], Stored{first + uint64(i), slices.Clone(payload)})
		}
		return first, nil
	}
}

// read gives small pages, so that a log has several.
func (s *shelf) read(_ context.Context, log int, from uint64) ([]Stored, uint64, error) {
	start, _ := slices.BinarySearchFunc(s.logs[log], from, func(r Stored, o uint64) int { return int(r.Offset) - int(o) })
	page := s.logs[log][start:min(start+7, len(s.logs[log]))]
	if len(page) == 0 {
		return nil, from, nil
	}
	return page, page[len(page)-1].Offset + 1, nil
}

// filledShelf has 113 records of 5 publishers, who took turns, in 2 logs; the last
// append is cut short.
func filledShelf(t *testing.T) (*shelf, *Ledger) {
	t.Helper()
	s := newShelf(2)
	load := Load{PayloadBytes: 1100, Batch: 4, Concurrency: 5}
	ledger := newLedger(load)
	var publishers []*publisher
	for i := range load.Concurrency {
		p := load.publisher(i, s.target(i), nil)
		p.acked = ledger.publishers[i]
		publishers = append(publishers, p)
	}
	for i, left := 0, int64(113); left > 0; i, left = i+1, left-4 {
		if err := publishers[i%len(publishers)].append(t.Context(), min(4, left)); err != nil {
			t.Fatal(err)
		}
	}
	return s, ledger
}

func TestWhatIsThereIsVerified(t *testing.T) {
	s, ledger := filledShelf(t)
	if n, err := ledger.Verify(t.Context(), 2, s.read); err != nil || n != 113 {
		t.Errorf("%d records verified: %v", n, err)
	}
}

func TestALostRecordIsNoticed(t *testing.T) {
	for name, test := range map[string]struct {
		damage func(s *shelf)
		want   string
	}{
		"the last one": {
			func(s *shelf) { s.logs[1] = s.logs[1][:len(s.logs[1])-1] }, "1 acknowledged records are missing",
		},
		"one in the middle": {
			func(s *shelf) { s.logs[0] = slices.Delete(s.logs[0], 9, 10) }, "log 0, offset 9: 1 acknowledged records are missing",
		},
		"a whole log": {func(s *shelf) { s.logs[0] = nil }, "log 0, offset 0: "},
		"and what follows moved down": {
			func(s *shelf) {
				s.logs[0] = slices.Delete(s.logs[0], 4, 8)
				for i := range s.logs[0] {
					s.logs[0][i].Offset = uint64(i)
				}
			}, "was acknowledged at offset 8",
		},
		"two changed places": {
			func(s *shelf) {
				l := s.logs[0]
				l[2].Payload, l[3].Payload = l[3].Payload, l[2].Payload
			}, "was acknowledged at offset 3",
		},
		"one is there twice": {
			func(s *shelf) { s.logs[0] = append(s.logs[0], Stored{uint64(len(s.logs[0])), s.logs[0][0].Payload}) }, "was acknowledged at offset 0",
		},
		"a sector is that of another record": {
			func(s *shelf) { copy(s.logs[0][5].Payload[512:1024], s.logs[0][13].Payload[512:1024]) }, "log 0, offset 5: payload byte 5",
		},
		"one is cut": {
			func(s *shelf) { s.logs[0][5].Payload = s.logs[0][5].Payload[:600] }, "payload has 600 bytes, want 1100",
		},
		"one is empty": {func(s *shelf) { s.logs[0][5].Payload = nil }, "payload has 0 bytes"},
		"it is in another log": {
			func(s *shelf) { s.logs[0][5].Payload = s.logs[1][5].Payload }, "does not write to this log",
		},
		"one that nobody was told of": {
			func(s *shelf) {
				(stamp{publisher: 0, sequence: 1 << 40}).mark(s.logs[0][5].Payload)
			}, "was never acknowledged",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, ledger := filledShelf(t)
			test.damage(s)
			_, err := ledger.Verify(t.Context(), 2, s.read)
			var lost *LostError
			if !errors.As(err, &lost) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want it to say %q", err, test.want)
			}
		})
	}
}

func TestEveryChangedByteIsNoticed(t *testing.T) {
	s, ledger := filledShelf(t)
	rapid.Check(t, func(t *rapid.T) {
		record := s.logs[0][rapid.IntRange(0, len(s.logs[0])-1).Draw(t, "record")]
		at := rapid.IntRange(0, len(record.Payload)-1).Draw(t, "byte")
		bits := byte(rapid.IntRange(1, 255).Draw(t, "bits"))
		record.Payload[at] ^= bits
		defer func() { record.Payload[at] ^= bits }()
		if _, err := ledger.Verify(context.Background(), 2, s.read); err == nil {
			t.Fatalf("byte %d of record %d was changed and not noticed", at, record.Offset)
		}
	})
}

func TestAnUnreadableLogIsNoLostRecord(t *testing.T) {
	_, ledger := filledShelf(t)
	broken := errors.New("broken")
	_, err := ledger.Verify(t.Context(), 2, func(context.Context, int, uint64) ([]Stored, uint64, error) { return nil, 0, broken })
	var lost *LostError
	if !errors.Is(err, broken) || errors.As(err, &lost) {
		t.Errorf("got %v", err)
	}
}

func TestALedgerIsBounded(t *testing.T) {
	a := &acked{batch: 1, appendsMax: ledgerChunk + 1}
	for i := range a.appendsMax {
		if err := a.add(uint64(i), 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.add(0, 1); err == nil || a.first(ledgerChunk) != ledgerChunk {
		t.Errorf("got %v, and offset %d for the last append", err, a.first(ledgerChunk))
	}
}
