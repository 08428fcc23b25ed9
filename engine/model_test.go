package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"felix.local/felix/engine"
	"felix.local/felix/segment"
)

// modelLog is what a log is: a base and records. Everything else about it is how
// it survives.
type modelLog struct {
	base    uint64
	records []engine.Record
}

func (m *modelLog) tail() uint64 { return m.base + uint64(len(m.records)) }

// machine drives a log and its model through the same calls.
type machine struct {
	t       *rapid.T
	ctx     context.Context
	root    string
	cfg     engine.Config
	store   *engine.Store
	log     *engine.Log
	model   modelLog
	pending []engine.Pending
	spacing int64
}

func TestALogBehavesLikeItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		root, err := os.MkdirTemp("/dev/shm", "engine-model-")
		if err != nil {
			root, err = os.MkdirTemp("", "engine-model-")
		}
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		m := &machine{t: t, ctx: ctx, root: root}
		defer func() {
			if m.store != nil {
				_ = m.store.Close(ctx)
			}
			cancel()
			_ = os.RemoveAll(root)
		}()
		m.configure()
		m.open()
		t.Repeat(map[string]func(*rapid.T){
			"append":      m.append,
			"appendAsync": m.appendAsync,
			"read":        m.read,
			"truncate":    m.truncate,
			"seal":        m.seal,
			"retention":   m.retention,
			"sync":        m.sync,
			"reopen":      m.reopen,
			"":            m.check,
		})
	})
}

func (m *machine) configure() {
	m.cfg = testConfig()
	m.cfg.FsyncMode = rapid.SampledFrom([]engine.FsyncMode{engine.FsyncNone, engine.FsyncPeriodic, engine.FsyncOnCommit}).Draw(m.t, "mode")
	m.cfg.FsyncInterval = time.Millisecond
	m.cfg.SegmentBytes = rapid.Int64Range(engine.SegmentBytesMin, 2000).Draw(m.t, "segment")
	if m.store == nil { // another spacing would have the active segment's index rebuilt
		m.spacing = rapid.Int64Range(1, 500).Draw(m.t, "spacing")
	}
	m.cfg.IndexSpacingBytes = m.spacing
	m.cfg.RolloverThresholdPercent = rapid.SampledFrom([]int{100, 100, 50, 1}).Draw(m.t, "threshold")
	m.cfg.MaxOvershootPercent = rapid.SampledFrom([]int{0, 100}).Draw(m.t, "overshoot")
	m.cfg.Preallocate = rapid.Bool().Draw(m.t, "preallocate")
	m.cfg.MaxRecordsPerRead = rapid.IntRange(1, 20).Draw(m.t, "records per read")
	m.cfg.VerifyAllOnOpen = rapid.Bool().Draw(m.t, "verify all")
	m.cfg.RetentionBytes = rapid.Int64Range(1, 5000).Draw(m.t, "retention")
	m.cfg.RetentionInterval = time.Hour
	m.cfg.OpenSealedMax = rapid.IntRange(1, 3).Draw(m.t, "open sealed")
	m.cfg.StagedBytesPerLogMax = rapid.Int64Range(1, 10_000).Draw(m.t, "staged")
}

func (m *machine) open() {
	var err error
	if m.store, err = engine.OpenStore(m.ctx, m.root, m.cfg); err != nil {
		m.t.Fatal(err)
	}
	if m.log, err = m.store.OpenLog(m.ctx, testKey(0)); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) draw(t *rapid.T) []engine.Record {
	sizes := rapid.SliceOfN(rapid.IntRange(0, 300), 1, 6).Draw(t, "sizes")
	records := make([]engine.Record, len(sizes))
	for i, size := range sizes {
		offset := m.model.tail() + uint64(i)
		records[i] = engine.Record{Payload: payload(offset+uint64(size), size), TimestampMicros: 1 + offset}
	}
	switch rapid.IntRange(0, 12).Draw(t, "mark") {
	case 0:
		records[0].Mark = segment.Mark{Kind: segment.BatchOpen, Producer: 9, Sequence: m.model.tail(), Len: uint32(len(records))}
	case 1:
		records[0].Mark.Kind, records[0].Payload = segment.GenerationStart, segment.GenerationStartPayload(7)
	}
	return records
}

func (m *machine) append(t *rapid.T) {
	records := m.draw(t)
	got, err := m.log.Append(m.ctx, records...)
	m.appended(t, records, got, err)
}

func (m *machine) appendAsync(t *rapid.T) {
	records := m.draw(t)
	handle, err := m.log.AppendAsync(m.ctx, records...)
	m.appended(t, records, handle.Offsets(), err)
	m.pending = append(m.pending, handle)
}

func (m *machine) appended(t *rapid.T, records []engine.Record, got engine.AppendResult, err error) {
	if err != nil {
		t.Fatal(err)
	}
	m.model.records = append(m.model.records, records...)
	if want := m.model.tail() - uint64(len(records)); got.First != want || got.Last != m.model.tail()-1 {
		t.Fatalf("offsets %v, want %d to %d", got, want, m.model.tail()-1)
	}
}

// settle waits for what is pending, after which the log is as the model.
func (m *machine) settle(t *rapid.T) {
	for _, handle := range m.pending {
		if got, err := handle.Wait(m.ctx); err != nil || got != handle.Offsets() {
			t.Fatalf("%v %v", got, err)
		}
	}
	m.pending = nil
}

func (m *machine) read(t *rapid.T) {
	m.settle(t)
	start := rapid.Uint64Range(0, m.model.tail()+2).Draw(t, "start")
	budget := rapid.Int64Range(-1, 2000).Draw(t, "bytes")
	got, err := m.log.ReadStored(m.ctx, start, budget, m.cfg.MaxRecordsPerRead)
	if start < m.model.base {
		var trimmed *engine.TrimmedError
		if !errors.As(err, &trimmed) || trimmed.Oldest != m.model.base {
			t.Fatalf("a read at %d below the base %d: %v", start, m.model.base, err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	want := m.within(start, budget)
	if len(got) != len(want) {
		t.Fatalf("a read at %d of %d bytes gave %d records, want %d", start, budget, len(got), len(want))
	}
	for i := range got {
		sameRecord(t, start+uint64(i), want[i], got[i])
	}
}

// within is the budget's rule: the first record however large, then whatever fits.
func (m *machine) within(start uint64, budget int64) []engine.Record {
	var out []engine.Record
	budget = max(0, budget)
	for offset := start; offset < m.model.tail() && len(out) < m.cfg.MaxRecordsPerRead; offset++ {
		record := m.model.records[offset-m.model.base]
		if len(out) > 0 && int64(len(record.Payload)) > budget {
			break
		}
		budget = max(0, budget-int64(len(record.Payload)))
		out = append(out, record)
	}
	return out
}

func sameRecord(t interface{ Fatalf(string, ...any) }, offset uint64, want engine.Record, got segment.Record) {
	if got.Offset != offset || !bytes.Equal(got.Payload, want.Payload) ||
		got.TimestampMicros != want.TimestampMicros || got.Mark != want.Mark {
		t.Fatalf("offset %d reads back as %+v, want %+v", offset, got, want)
	}
}

func (m *machine) truncate(t *rapid.T) {
	m.settle(t)
	low := m.model.tail() - min(m.model.tail(), 12) // mostly near the end
	if rapid.IntRange(0, 5).Draw(t, "far") == 0 {
		low = 0
	}
	offset := rapid.Uint64Range(low, m.model.tail()+1).Draw(t, "offset")
	if err := m.log.Truncate(m.ctx, offset); err != nil {
		t.Fatal(err)
	}
	switch {
	case offset >= m.model.tail():
	case offset < m.model.base:
		m.model = modelLog{base: offset}
	default:
		m.model.records = m.model.records[:offset-m.model.base]
	}
	if durable := m.log.DurableOffset(); offset < m.model.tail() && durable != m.model.tail() {
		t.Fatalf("durable up to %d after a truncation to %d", durable, m.model.tail())
	}
}

func (m *machine) seal(t *rapid.T) {
	m.settle(t)
	sealed, err := m.log.Seal(m.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if sealed.Descriptor.NextOffset != m.model.tail() || m.log.DurableOffset() != m.model.tail() {
		t.Fatalf("sealed %+v at tail %d, durable %d", sealed, m.model.tail(), m.log.DurableOffset())
	}
}

func (m *machine) retention(t *rapid.T) {
	m.settle(t)
	// A seal may be under way in the background; once it is done the list stays.
	if err := m.log.Sync(m.ctx); err != nil {
		t.Fatal(err)
	}
	before := m.log.Segments()
	total := int64(0)
	for _, d := range before {
		total += d.Size
	}
	result, err := m.log.EnforceRetention(m.ctx)
	if err != nil {
		t.Fatal(err)
	}
	removed := 0
	for removed < len(before)-1 && total > m.cfg.RetentionBytes {
		total -= before[removed].Size
		removed++
	}
	// A retired segment is not sealed yet and stays until the next pass.
	if result.Segments > removed || result.Segments < removed-1 {
		t.Fatalf("%d segments were removed, want %d", result.Segments, removed)
	}
	base := before[result.Segments].BaseOffset
	if result.BaseOffset != base || m.log.BaseOffset() != base {
		t.Fatalf("the log begins at %d, want %d", result.BaseOffset, base)
	}
	m.model.records = m.model.records[base-m.model.base:]
	m.model.base = base
}

func (m *machine) sync(t *rapid.T) {
	m.settle(t)
	if err := m.log.Sync(m.ctx); err != nil {
		t.Fatal(err)
	}
	if m.log.DurableOffset() != m.model.tail() || m.log.UnsyncedBytes() != 0 && m.cfg.RolloverThresholdPercent == 100 {
		t.Fatalf("durable up to %d of %d after Sync, %d bytes unsynced", m.log.DurableOffset(), m.model.tail(), m.log.UnsyncedBytes())
	}
}

func (m *machine) reopen(*rapid.T) {
	// What is pending is drained by closing.
	if err := m.store.Close(m.ctx); err != nil {
		m.t.Fatal(err)
	}
	m.settle(m.t)
	m.configure()
	m.open()
	if report := m.log.Recovery(); report.TruncatedBytes != 0 || report.IndexRebuilds != 0 || len(report.Warnings) != 0 {
		m.t.Fatalf("recovery after a clean stop found something to repair: %+v", report)
	}
}

func (m *machine) check(t *rapid.T) {
	if base := m.log.BaseOffset(); base != m.model.base {
		t.Fatalf("base %d, want %d", base, m.model.base)
	}
	if len(m.pending) > 0 {
		return
	}
	if tail := m.log.TailOffset(); tail != m.model.tail() {
		t.Fatalf("tail %d, want %d", tail, m.model.tail())
	}
	segments := m.log.Segments()
	for i, d := range segments[1:] {
		if segments[i].NextOffset != d.BaseOffset || segments[i].Empty() {
			t.Fatalf("segments are no chain: %+v", segments)
		}
	}
	for next := m.model.base; next < m.model.tail(); {
		page, err := m.log.ReadStored(m.ctx, next, 1<<20, m.cfg.MaxRecordsPerRead)
		if err != nil || len(page) == 0 {
			t.Fatalf("a read at %d gave %d records, %v", next, len(page), err)
		}
		for _, record := range page {
			sameRecord(t, next, m.model.records[next-m.model.base], record)
			next++
		}
	}
}

// Many publishers, readers, a trimmer and a sealer on one log: what a publisher
// was told is what every reader sees, in order, once.
func TestPublishersAndReadersAgreeOnOneOrder(t *testing.T) {
	onBoth(t, func(t *testing.T, backend func(*engine.Config)) {
		eachMode(t, func(t *testing.T, mode func(*engine.Config)) {
			for _, threshold := range []int{100, 50} {
				t.Run(fmt.Sprintf("threshold %d", threshold), func(t *testing.T) {
					r := newRig(t, backend, mode, func(c *engine.Config) {
						c.RolloverThresholdPercent = threshold
						c.FsyncInterval = time.Millisecond
						c.OpenSealedMax = 2
						c.RetentionBytes, c.RetentionInterval = 20_000, time.Hour
					})
					agree(r)
				})
			}
		})
	})
}

func agree(r *rig) {
	seed := uint64(time.Now().UnixNano())
	r.Log("seed", seed)
	const publishers, each, readers = 8, 60, 3
	var (
		written sync.Map // offset → payload text
		total   atomic.Uint64
		publish sync.WaitGroup
		others  sync.WaitGroup
	)
	following, stop := context.WithCancel(r.ctx)
	defer stop()
	for p := range publishers {
		random := rand.New(rand.NewPCG(seed, uint64(p)))
		publish.Go(func() {
			for i := range each {
				records := make([]engine.Record, 1+random.IntN(3))
				for k := range records {
					records[k].Payload = fmt.Appendf(nil, "%d/%d/%d %s", p, i, k, bytes.Repeat([]byte{'.'}, random.IntN(300)))
				}
				got, err := r.log.Append(r.ctx, records...)
				if err != nil {
					r.Error(err)
					return
				}
				for k := range records {
					written.Store(got.First+uint64(k), string(records[k].Payload))
				}
				total.Add(uint64(len(records)))
			}
		})
	}
	seen := make([]map[uint64]string, readers)
	for i := range readers {
		seen[i] = make(map[uint64]string)
		others.Go(func() { follow(r, following, seen[i]) })
	}
	others.Go(func() {
		for following.Err() == nil {
			if _, err := r.log.Seal(r.ctx); err != nil {
				r.Error(err)
				return
			}
			if _, err := r.log.EnforceRetention(r.ctx); err != nil {
				r.Error(err)
				return
			}
			_ = r.log.WaitTail(following, r.log.TailOffset())
		}
	})
	publish.Wait()
	stop()
	others.Wait()
	if tail := r.log.TailOffset(); tail != total.Load() {
		r.Errorf("%d records were acknowledged and the tail is %d", total.Load(), tail)
	}
	for i := range seen {
		for offset, text := range seen[i] {
			if want, ok := written.Load(offset); !ok || want != text {
				r.Errorf("reader %d saw %.20q at offset %d, want %.20q", i, text, offset, want)
			}
		}
	}
	if r.Failed() {
		return
	}
	check := func() {
		for _, record := range r.readAll() {
			if want, _ := written.Load(record.Offset); want != string(record.Payload) {
				r.Errorf("offset %d holds %.20q, want %.20q", record.Offset, record.Payload, want)
			}
		}
	}
	check()
	r.reopen()
	check()
}

// follow reads along until ctx ends, from wherever the log begins.
func follow(r *rig, ctx context.Context, seen map[uint64]string) {
	next := uint64(0)
	for ctx.Err() == nil {
		page, err := r.log.ReadStored(r.ctx, next, 2000, 100)
		var trimmed *engine.TrimmedError
		if errors.As(err, &trimmed) {
			if trimmed.Oldest <= next {
				r.Errorf("told that %d was trimmed while the log begins at %d", next, trimmed.Oldest)
				return
			}
			next = trimmed.Oldest
			continue
		}
		if err != nil {
			r.Error(err)
			return
		}
		for _, record := range page {
			if record.Offset != next {
				r.Errorf("offset %d where %d belongs", record.Offset, next)
				return
			}
			seen[next] = string(record.Payload)
			next++
		}
		if len(page) == 0 {
			if err := r.log.WaitTail(ctx, next); err != nil && !errors.Is(err, context.Canceled) {
				r.Error(err)
				return
			}
		}
	}
}
