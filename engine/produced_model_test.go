package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"felix.local/felix/engine"
	"felix.local/felix/producer"
	"felix.local/felix/segment"
)

// A log that producers of both numberings append to, among plain records and parts
// of batches, that is sealed, trimmed, truncated and opened again, with its
// snapshot, without and with another file in its place: what it says of producers
// is always what its records say, and what an append answers is where its records
// are.
func TestALogKnowsOfProducersWhatItsRecordsSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		root, err := os.MkdirTemp(memoryRoot(), "producers-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(root)
		m := &producersModel{T: t, root: root, cfg: testConfig()}
		m.cfg.SegmentBytes = rapid.SampledFrom([]int64{60, 300, 900}).Draw(t, "segment bytes")
		m.cfg.RolloverThresholdPercent = rapid.SampledFrom([]int{50, 100}).Draw(t, "threshold")
		m.cfg.FsyncMode = rapid.SampledFrom([]engine.FsyncMode{engine.FsyncNone, engine.FsyncOnCommit}).Draw(t, "mode")
		m.cfg.ProducerDigests = rapid.Bool().Draw(t, "digests")
		m.cfg.RetentionInterval = 1 << 40
		m.open()
		defer func() { _ = m.store.Close(context.Background()) }()
		t.Repeat(map[string]func(*rapid.T){
			"produce":  m.produce,
			"plain":    func(*rapid.T) { m.put(engine.Record{Payload: []byte("plain")}) },
			"part":     m.part,
			"continue": m.continued,
			"seal": func(t *rapid.T) {
				if _, err := m.log.Seal(context.Background()); err != nil {
					t.Fatal(err)
				}
			},
			"trim": func(t *rapid.T) {
				if _, err := m.log.TrimBefore(context.Background(), m.offset("trim before")); err != nil {
					t.Fatal(err)
				}
			},
			"truncate": func(t *rapid.T) {
				if err := m.log.Truncate(context.Background(), m.offset("truncate at")); err != nil {
					t.Fatal(err)
				}
			},
			"reopen": m.reopen,
			"":       m.check,
		})
	})
}

// memoryRoot is where files are in memory, if anywhere.
func memoryRoot() string {
	const shm = "/dev/shm"
	if info, err := os.Stat(shm); err == nil && info.IsDir() {
		return shm
	}
	return ""
}

type producersModel struct {
	*rapid.T
	root  string
	cfg   engine.Config
	store *engine.Store
	log   *engine.Log
}

func (m *producersModel) open() {
	var err error
	if m.store, err = engine.OpenStore(context.Background(), m.root, m.cfg); err != nil {
		m.Fatal(err)
	}
	if m.log, err = m.store.OpenLog(context.Background(), testKey(0)); err != nil {
		m.Fatal(err)
	}
}

func (m *producersModel) offset(what string) uint64 {
	return rapid.Uint64Range(m.log.BaseOffset(), m.log.TailOffset()).Draw(m.T, what)
}

func (m *producersModel) put(r ...engine.Record) {
	if _, err := m.log.Append(context.Background(), r...); err != nil {
		m.Fatal(err)
	}
}

func modelBatch(batch engine.ProducerBatch, n int) []engine.Record {
	out := make([]engine.Record, n)
	for i := range out {
		out[i].Payload = fmt.Appendf(nil, "%d/%d/%d", batch.Producer, batch.Sequence, i)
	}
	return out
}

// produce sends a batch that is likely to be near what comes next.
func (m *producersModel) produce(t *rapid.T) {
	batch := engine.ProducerBatch{Producer: rapid.Uint64Range(1, 4).Draw(t, "producer")}
	if batch.Producer > 2 {
		batch.Numbering = engine.ByRecord
	}
	n := rapid.IntRange(1, 3).Draw(t, "records")
	if next, ok := m.log.NextProducerSequence(batch.Producer); ok {
		if batch.Numbering == engine.ByRecord {
			next += uint64(m.log.ProducerSequence(batch.Producer, next-1).Len) - 1
		}
		step := rapid.IntRange(-3, 3).Draw(t, "step")
		batch.Sequence = uint64(max(0, int(next)+min(step, 1)))
	}
	tail := m.log.TailOffset()
	before := m.log.ProducerSequence(batch.Producer, batch.Sequence)
	got, err := m.log.AppendProduced(context.Background(), batch, modelBatch(batch, n)...)
	var refused *engine.SequenceError
	switch {
	case errors.As(err, &refused):
		if m.log.TailOffset() != tail {
			t.Fatalf("refused, and the tail moved from %d to %d: %v", tail, m.log.TailOffset(), err)
		}
		return
	case err != nil:
		t.Fatal(err)
	}
	want := tail
	switch {
	case !got.Duplicate:
		want += uint64(n)
	case before.Verdict == producer.Partial:
		want += uint64(n) - uint64(before.Held)
	}
	if m.log.TailOffset() != want || got.Last-got.First+1 != uint64(n) {
		t.Fatalf("%+v and a tail of %d, want %d: it was %+v", got, m.log.TailOffset(), want, before)
	}
	if got.First < m.log.BaseOffset() {
		t.Fatalf("%+v below the base %d", got, m.log.BaseOffset())
	}
	read, _, err := m.log.ReadNext(context.Background(), got.First, 1<<20, n)
	if err != nil {
		t.Fatal(err)
	}
	for i, record := range modelBatch(batch, n) {
		if string(read[i].Payload) != string(record.Payload) {
			t.Fatalf("%+v: record %d reads %q, want %q", got, i, read[i].Payload, record.Payload)
		}
	}
}

// part leaves the first records of a batch at the end, as a crash does.
func (m *producersModel) part(t *rapid.T) {
	batch := engine.ProducerBatch{Producer: rapid.Uint64Range(1, 2).Draw(t, "producer")}
	if next, ok := m.log.NextProducerSequence(batch.Producer); ok {
		batch.Sequence = next
	}
	part := modelBatch(batch, 3)[:rapid.IntRange(1, 2).Draw(t, "of 3 records")]
	marks := producer.Marks(batch.Producer, batch.Sequence, 3)
	for i := range part {
		part[i].Mark = marks(uint32(i))
	}
	m.put(part...)
}

// continued adds a record to the batch that is open, if one is.
func (m *producersModel) continued(t *rapid.T) {
	for id := uint64(1); id <= 2; id++ {
		sequence, _ := m.log.NextProducerSequence(id)
		class := m.log.ProducerSequence(id, sequence)
		batch := engine.ProducerBatch{Producer: id, Sequence: sequence}
		got, err := m.log.ContinueProduced(context.Background(), id, sequence, modelBatch(batch, 3)[class.Held%3])
		if open := class.Verdict == producer.Partial; open != (err == nil) || open && got.First != class.Last+1 {
			t.Fatalf("%+v, %v: it was %+v", got, err, class)
		}
	}
}

func (m *producersModel) reopen(t *rapid.T) {
	if err := m.store.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(m.root, testKey(0).DirName(), engine.ProducersName)
	switch rapid.SampledFrom([]string{"with its snapshot", "without", "with garbage"}).Draw(t, "snapshot") {
	case "without":
		_ = os.Remove(path)
	case "with garbage":
		if err := os.WriteFile(path, []byte("garbage"), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	m.open()
}

func (m *producersModel) check(t *rapid.T) {
	var all []segment.Record
	for next := m.log.BaseOffset(); next < m.log.TailOffset(); {
		page, err := m.log.ReadRange(context.Background(), next, 1<<20)
		if err != nil || len(page) == 0 {
			t.Fatalf("%d records at %d: %v", len(page), next, err)
		}
		all = append(all, page...)
		next = page[len(page)-1].Offset + 1
	}
	if said, told := answers(m.log), recounted(all, m.log.TailOffset()); said != told {
		t.Fatalf("the log says\n%s\nand its records say\n%s", differing(said, told), differing(told, said))
	}
}
