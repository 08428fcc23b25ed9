package workload

import (
	"hash/fnv"
	"time"

	"felix.local/felix/bench"
	"felix.local/felix/engine"
)

// Shape says how one log of a store is written.
type Shape struct {
	// Log is its name.
	Log string
	// Publishers append at the same time, one append each.
	Publishers int
	// RecordsMax is the most records of one append.
	RecordsMax int
	// BytesMin and BytesMax bound the payload of a record.
	BytesMin, BytesMax int
	// Pause is what a publisher does nothing for between two appends, so that what has
	// to be read back after every start stays little.
	Pause time.Duration
}

// Shapes are the logs of every store: a lone publisher, which writes its own frames of
// the journal; a crowd, which shares flushes; and one with records so large that some
// batches skip the journal and segments are rolled every few appends.
func Shapes() []Shape {
	return []Shape{
		{Log: "lone", Publishers: 1, RecordsMax: 1, BytesMin: 64, BytesMax: 600, Pause: time.Millisecond},
		{Log: "crowd", Publishers: 3, RecordsMax: 3, BytesMin: 64, BytesMax: 2000, Pause: time.Millisecond},
		{Log: "large", Publishers: 2, RecordsMax: 2, BytesMin: 4000, BytesMax: 40000, Pause: 30 * time.Millisecond},
	}
}

// draw is a number that follows from where a record is; no two salts give the same.
func draw(store, log string, offset uint64, salt byte) uint64 {
	h := fnv.New64a()
	for _, part := range []string{store, log} {
		_, _ = h.Write([]byte(part)) // a hash takes everything
		_, _ = h.Write([]byte{0})
	}
	var word [9]byte
	for i := range 8 {
		word[i] = byte(offset >> (8 * i))
	}
	word[8] = salt
	_, _ = h.Write(word[:])
	return h.Sum64()
}

func within(n uint64, low, high int) int { return low + int(n%uint64(high-low+1)) }

// count is how many records the append gets that begins at an offset.
func (s Shape) count(store string, offset uint64) int {
	return within(draw(store, s.Log, offset, 'c'), 1, s.RecordsMax)
}

// rule is what the payload of a record is made by: a number of bench.AppendPayload's
// that no other record of the run shares, and its length in bytes.
func (s Shape) rule(store string, offset uint64) (number uint64, bytes int) {
	return draw(store, s.Log, offset, 'n'), within(draw(store, s.Log, offset, 'b'), s.BytesMin, s.BytesMax)
}

// Records are those of the append that begins at an offset.
func (s Shape) Records(store string, first uint64) []engine.Record {
	records := make([]engine.Record, s.count(store, first))
	for i := range records {
		number, bytes := s.rule(store, first+uint64(i))
		records[i].Payload = bench.AppendPayload(make([]byte, 0, bytes), number, bytes)
	}
	return records
}

// check says what is wrong with a payload.
func (s Shape) check(payload []byte, store string, offset uint64) error {
	number, bytes := s.rule(store, offset)
	return bench.CheckPayload(payload, number, bytes)
}

// Key names a log in its store.
func Key(log string) engine.ShardKey {
	return engine.ShardKey{Tenant: "matrix", Namespace: "powercut", Stream: log}
}
