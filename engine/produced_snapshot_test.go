package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/producer"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

func (r *rig) producersPath() string {
	return filepath.Join(r.root, testKey(0).DirName(), engine.ProducersName)
}

// snapshotRig has a log of several segments with batches of four producers, plain
// records and an open batch at its end.
func snapshotRig(t testing.TB, change ...func(*engine.Config)) *rig {
	t.Helper()
	r := newRig(t, append([]func(*engine.Config){func(c *engine.Config) { c.SegmentBytes = 700 }}, change...)...)
	clients := []client{{id: 1}, {id: 2}, {id: 3}, {id: 4}}
	for i := 0; r.store.Stats().Rolls < 4; i++ {
		clients[i%len(clients)].sendTo(r)
		if i%5 == 0 {
			r.append(engine.Record{Payload: []byte("plain")})
		}
	}
	clients[0].sendTo(r)
	r.append(engine.Record{Payload: []byte("part"), Mark: producer.Marks(2, 30, 3)(0)})
	return r
}

// decoded is the snapshot on the disk.
func (r *rig) decoded() (bytes []byte, asOf uint64) {
	r.Helper()
	r.log.AwaitProducersSaved()
	b, err := os.ReadFile(r.producersPath())
	if err != nil {
		r.Fatal(err)
	}
	if _, asOf, err = producer.Decode(b, producer.Options{}); err != nil {
		r.Fatal(err)
	}
	return b, asOf
}

// What makes a snapshot useless, and what the log knows is the same without it:
// the file is gone after the open, and the open that reads sealed segments for it
// is counted.
func TestALogKnowsTheSameWithoutItsSnapshot(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, r *rig, b []byte) []byte{
		"missing":   func(*testing.T, *rig, []byte) []byte { return nil },
		"empty":     func(*testing.T, *rig, []byte) []byte { return []byte{} },
		"cut short": func(_ *testing.T, _ *rig, b []byte) []byte { return b[:len(b)-1] },
		"too long":  func(_ *testing.T, _ *rig, b []byte) []byte { return append(b, 0) },
		"far too long": func(_ *testing.T, _ *rig, b []byte) []byte {
			return append(b, make([]byte, producer.SnapshotBytesMax)...)
		},
		"rotted": func(_ *testing.T, _ *rig, b []byte) []byte {
			b[len(b)-2] ^= 1
			return b
		},
		"of a later version": func(_ *testing.T, _ *rig, b []byte) []byte {
			b[5] = 3
			return b
		},
		"from before the log": func(t *testing.T, r *rig, b []byte) []byte {
			return asOf(t, b, 0)
		},
		"as of an offset within a segment": func(t *testing.T, r *rig, b []byte) []byte {
			_, at := r.decoded()
			return asOf(t, b, at+1)
		},
		"from the future": func(t *testing.T, r *rig, b []byte) []byte {
			return asOf(t, b, r.log.TailOffset()+1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := snapshotRig(t)
			if name == "from before the log" {
				if _, err := r.log.TrimBefore(r.ctx, r.log.Segments()[1].BaseOffset); err != nil {
					t.Fatal(err)
				}
			}
			b, _ := r.decoded()
			said := answers(r.log)
			b = damage(t, r, b)
			r.close()
			if err := os.Remove(r.producersPath()); err != nil {
				t.Fatal(err)
			}
			if b != nil {
				if err := os.WriteFile(r.producersPath(), b, 0o640); err != nil {
					t.Fatal(err)
				}
			}
			r.open()
			if told := answers(r.log); told != said {
				t.Errorf("the log said\n%s\nand says\n%s", differing(said, told), differing(told, said))
			}
			if _, err := os.Lstat(r.producersPath()); !os.IsNotExist(err) {
				t.Errorf("the snapshot is still there: %v", err)
			}
			if n := r.store.Stats().ProducerStateRebuilt; n != 1 {
				t.Errorf("%d opens that read sealed segments were counted", n)
			}
		})
	}
}

// asOf moves a snapshot to another offset, whatever it knows.
func asOf(t testing.TB, b []byte, offset uint64) []byte {
	t.Helper()
	b = slices.Clone(b)
	for i := range 8 {
		b[8+i] = byte(offset >> (56 - 8*i))
	}
	return b
}

// A snapshot that is behind is continued; one of a segment before the last is what
// a failed write of a later one leaves.
func TestASnapshotThatIsBehindIsContinued(t *testing.T) {
	r := snapshotRig(t)
	old, at := r.decoded()
	said := ""
	for i := uint64(0); ; i++ {
		if _, now := r.decoded(); now > at {
			break
		}
		r.produce(batchBy(7, i), "something that takes room in a segment")
	}
	said = answers(r.log)
	r.close()
	if err := os.WriteFile(r.producersPath(), old, 0o640); err != nil {
		t.Fatal(err)
	}
	r.open()
	if told := answers(r.log); told != said {
		t.Errorf("the log said\n%s\nand says\n%s", differing(said, told), differing(told, said))
	}
	if b, _ := r.decoded(); !bytes.Equal(b, old) || r.store.Stats().ProducerStateRebuilt != 1 {
		t.Errorf("%d bytes of snapshot, %d opens counted", len(b), r.store.Stats().ProducerStateRebuilt)
	}
}

// Each roll saves what the records below the new segment's base say, also when
// appends of the same producers are staged far beyond that; and an open that finds
// it reads no sealed segment.
func TestARollSavesWhatIsKnownAsOfItsBase(t *testing.T) {
	for _, background := range []bool{false, true} {
		t.Run(fmt.Sprintf("background %v", background), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFlushRig(t, engine.FsyncOnCommit, background, func(c *engine.Config) { c.RetentionBytes = 0 })
				defer func() { _ = r.store.Close(r.ctx) }()
				held := hold(t, r.disk, faultdisk.Writes, isLog, 1)
				var tries []try
				for i := range uint64(60) {
					tries = append(tries, r.try(batchBy(i%3, i/3), "a record", "and another one"))
					synctest.Wait()
				}
				held.Release()
				for _, under := range tries {
					if err := <-under.err; err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				if s := r.store.Stats(); s.Rolls < 2 {
					t.Fatalf("%d rolls", s.Rolls)
				}
				if _, at := r.decoded(); at != r.active().BaseOffset {
					t.Errorf("as of %d, and the active segment begins at %d", at, r.active().BaseOffset)
				}
				r.reopen()
				if n := r.store.Stats().ProducerStateRebuilt; n != 0 {
					t.Errorf("%d opens read sealed segments", n)
				}
				r.snapshotTells(t)
			})
		})
	}
}

// The snapshot is written once per roll, after the retired segment was sealed, under
// a temporary name and without a flush.
func TestASnapshotIsWrittenAfterTheSealAndNotFlushed(t *testing.T) {
	for _, background := range []bool{false, true} {
		t.Run(fmt.Sprintf("background %v", background), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFlushRig(t, engine.FsyncPeriodic, background, func(c *engine.Config) { c.FsyncInterval = 1 << 40 })
				defer func() { _ = r.store.Close(r.ctx) }()
				for i := uint64(0); r.store.Stats().Rolls < 3; i++ {
					r.produce(batchBy(1, i), "a record that fills its segment")
					synctest.Wait()
				}
				var sealed, written, renamed []faultdisk.Event
				for _, e := range r.disk.Log(faultChanges) {
					switch {
					case e.Kind&faultdisk.Flush != 0 && strings.HasSuffix(e.Name, ".log"):
						sealed = append(sealed, e)
					case strings.HasPrefix(e.Name, "producers") && e.Kind&faultdisk.Flushes != 0:
						t.Errorf("flushed: %v", e)
					case e.Name == "producers.tmp" && e.Kind&faultdisk.Writes != 0:
						written = append(written, e)
					case e.Kind&faultdisk.Rename != 0 && strings.HasSuffix(e.To, engine.ProducersName):
						renamed = append(renamed, e)
					}
				}
				if len(written) != 3 || len(renamed) != 3 {
					t.Fatalf("written %v, renamed %v", written, renamed)
				}
				for i := range written {
					before := 0
					for _, e := range sealed {
						if e.Name == segment.LogName(uint64(i)) && e.Before(written[i]) {
							before++
						}
					}
					if before == 0 || !written[i].Before(renamed[i]) {
						t.Errorf("segment %d: %d flushes before %v, then %v", i, before, written[i], renamed[i])
					}
				}
			})
		})
	}
}

// A snapshot that cannot be written is counted, and nothing else comes of it.
func TestASnapshotThatCannotBeWrittenIsCounted(t *testing.T) {
	for _, kind := range []faultdisk.Kinds{faultdisk.Create, faultdisk.Write, faultdisk.Rename} {
		disk, onDisk := withFaults(t)
		r := newRig(t, onDisk, func(c *engine.Config) { c.SegmentBytes = 512 })
		disk.Inject(faultdisk.Fault{
			Kinds: kind, Errno: syscall.ENOSPC, Times: faultdisk.Forever,
			Path: func(path string) bool { return filepath.Base(path) == "producers.tmp" },
		})
		for i := uint64(0); r.store.Stats().Rolls < 2; i++ {
			r.produce(batchBy(1, i), "a record that fills its segment")
			r.log.AwaitProducersSaved()
		}
		if s := r.store.Stats(); s.ProducerSnapshotFailures != 2 || s.PoisonedLogs != 0 || s.Full != 0 {
			t.Errorf("%v: %d failures counted, %d logs poisoned, full %d", kind, s.ProducerSnapshotFailures, s.PoisonedLogs, s.Full)
		}
		r.snapshotTells(t)
	}
}

// A snapshot that is of no use and cannot be removed keeps the log closed.
func TestAUselessSnapshotThatStaysKeepsTheLogClosed(t *testing.T) {
	disk, onDisk := withFaults(t)
	r := snapshotRig(t, onDisk)
	b, _ := r.decoded()
	r.close()
	if err := os.WriteFile(r.producersPath(), asOf(t, b, 1<<40), 0o640); err != nil {
		t.Fatal(err)
	}
	var err error
	if r.store, err = engine.OpenStore(r.ctx, r.root, r.cfg); err != nil {
		t.Fatal(err)
	}
	disk.Inject(faultdisk.Fault{Kinds: faultdisk.Remove, Path: named(engine.ProducersName), Errno: syscall.EIO})
	_, err = r.store.OpenLog(r.ctx, testKey(0))
	errorAs[*engine.LogError](t, err)
	if !strings.Contains(fmt.Sprint(err), engine.ProducersName) {
		t.Error(err)
	}
	if r.log, err = r.store.OpenLog(r.ctx, testKey(0)); err != nil {
		t.Error(err)
	}
}

// Digests are kept over a restart when that is asked for; snapshots of either
// version are read.
func TestDigestsAreKeptOverARestartWhenAskedFor(t *testing.T) {
	for _, digests := range []bool{false, true} {
		r := newRig(t, func(c *engine.Config) { c.SegmentBytes, c.ProducerDigests = 512, digests })
		r.produce(batchBy(1, 0), "a", "b")
		for i := uint64(0); r.store.Stats().Rolls < 1; i++ {
			r.produce(batchBy(2, i), "a record that fills its segment")
		}
		wantVersion := producer.SnapshotV1
		if digests {
			wantVersion = producer.SnapshotV2
		}
		b, _ := r.decoded()
		if header, err := producer.DecodeSnapshotHeader(b); err != nil || header.Version != wantVersion {
			t.Errorf("version %d, want %d: %v", header.Version, wantVersion, err)
		}
		for _, read := range []bool{!digests, digests} { // what is written does not matter to reading
			r.reopen(func(c *engine.Config) { c.ProducerDigests = read })
			got, err := r.log.AppendProduced(r.ctx, batchBy(1, 0), records("a", "x")...)
			if digests {
				if errorAs[*engine.SequenceError](t, err).Reason != engine.SequenceReused {
					t.Error(err)
				}
			} else if err != nil || got != produced(0, 1, true) {
				t.Errorf("%+v, %v", got, err)
			}
		}
	}
}

// What retention removed is forgotten, on the fly and after a restart.
func TestRetentionForgetsProducers(t *testing.T) {
	r := newRig(t, func(c *engine.Config) { c.SegmentBytes, c.RetentionInterval = 512, 1<<40 })
	r.produce(batchBy(1, 0), "a")
	for i := uint64(0); r.store.Stats().Rolls < 2; i++ {
		r.produce(batchBy(2, i), "a record that fills its segment")
	}
	if _, err := r.log.TrimBefore(r.ctx, r.log.TailOffset()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if class := r.log.ProducerSequence(1, 0); class.Verdict != producer.Unknown {
			t.Errorf("%+v", class)
		}
		_, err := r.log.AppendProduced(r.ctx, batchBy(1, 1), records("b")...)
		if errorAs[*engine.SequenceError](t, err).Reason != engine.SequenceUnknown {
			t.Error(err)
		}
		if said, told := answers(r.log), r.recounted(); said != told {
			t.Errorf("the log says\n%s\nand its records say\n%s", differing(said, told), differing(told, said))
		}
		r.reopen()
	}
}

// Rot in a sealed segment is for readers to meet: the log opens, and knows what can
// be read.
func TestRotInASealedSegmentDoesNotKeepALogWithoutASnapshotClosed(t *testing.T) {
	r := snapshotRig(t)
	segments := r.log.Segments()
	newest := r.log.ProducerSequence(1, 1).Verdict
	r.close()
	if err := os.Remove(r.producersPath()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(r.root, testKey(0).DirName(), segment.LogName(segments[0].ID))
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[segment.HeaderSize+segment.RecordHeaderSize+segment.TagSize] ^= 1
	if err := os.WriteFile(path, b, 0o640); err != nil {
		t.Fatal(err)
	}
	r.open()
	if now := r.log.ProducerSequence(1, 1).Verdict; newest != producer.Held || now == producer.Unknown {
		t.Errorf("a batch of a later segment was %v and is %v", newest, now)
	}
}

// Opening a log whose snapshot is current reads the file, and nothing of a segment
// that recovery does not read anyhow, however many producers there are.
func TestACurrentSnapshotCostsNoReadOfASegment(t *testing.T) {
	disk, onDisk := withFaults(t)
	r := newRig(t, onDisk, func(c *engine.Config) {
		c.FsyncMode, c.FsyncInterval = engine.FsyncNone, 1<<40
		c.SegmentBytes, c.ProducerDigests = 1<<20, true
	})
	const producers = 4096
	for i := uint64(0); i < producers; i++ {
		r.produce(batchBy(i, 0), "a", "b")
	}
	rolls := r.store.Stats().Rolls
	for i := uint64(0); i < 3000; i++ { // most of an active segment
		r.produce(batchBy(i%producers, 1), "a record of some length that makes the active segment a long one", "c")
	}
	if now := r.store.Stats().Rolls; rolls != 0 || now != 0 {
		t.Fatalf("%d and %d rolls", rolls, now)
	}
	if _, err := r.log.Seal(r.ctx); err != nil {
		t.Fatal(err)
	}
	for i := uint64(0); i < 3000; i++ {
		r.produce(batchBy(i, 2), "a record of some length that makes the active segment a long one", "c")
	}
	r.close()
	dir := filepath.Join(r.root, testKey(0).DirName())
	reads := func(open func()) uint64 {
		before := disk.Count(faultdisk.Read)
		open()
		return disk.Count(faultdisk.Read) - before
	}
	recovering := reads(func() {
		if _, err := recovery.Open(recovery.Disk{FS: disk.FS(), Queue: disk.Queue()}, dir, "x", recovery.Policy{IndexSpacingBytes: r.cfg.IndexSpacingBytes}); err != nil {
			t.Fatal(err)
		}
	})
	root := reads(func() {
		var err error
		if r.store, err = engine.OpenStore(r.ctx, r.root, r.cfg); err != nil {
			t.Fatal(err)
		}
	})
	open := func() {
		var err error
		if r.log, err = r.store.OpenLog(r.ctx, testKey(0)); err != nil {
			t.Fatal(err)
		}
	}
	opening := reads(open)
	_ = root
	if opening > recovering+2 {
		t.Errorf("%d reads to open the log, of which recovery takes %d and the snapshot 2", opening, recovering)
	}
	if n := r.store.Stats().ProducerStateRebuilt; n != 0 {
		t.Errorf("%d opens read sealed segments", n)
	}
	if class := r.log.ProducerSequence(2999, 2); class.Verdict != producer.Held {
		t.Errorf("%+v", class)
	}
	if err := r.log.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(r.producersPath()); err != nil {
		t.Fatal(err)
	}
	if rebuilding := reads(open); rebuilding <= opening {
		t.Errorf("%d reads without a snapshot, %d with one: this counts nothing", rebuilding, opening)
	}
}
