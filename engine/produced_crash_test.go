package engine_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
	"felix.local/felix/producer"
	"felix.local/felix/segment"
)

// client is an idempotent producer that tries each of its batches until it is
// acknowledged.
type client struct {
	id uint64
	// acked batches were acknowledged; the next one may be on its way.
	acked uint64
	// single batches are of one record, and as long as those of any other client.
	single bool
	// long records take a page of the disk and more.
	long bool
}

// batch gives the payloads of one of a client's batches: one to four records.
func (c *client) batch(sequence uint64) []string {
	n := 1 + (c.id+sequence)%4
	if c.single {
		n = 1
	}
	payloads := make([]string, n)
	for i := range payloads {
		payloads[i] = fmt.Sprintf("producer %d batch %2d record %d", c.id, sequence, i)
		if c.long {
			payloads[i] += strings.Repeat(".", 5000)
		}
	}
	return payloads
}

// acks is how many batches of each client were acknowledged, for those who look
// beside it.
type acks [2]atomic.Uint64

// send has a client send its next batch and notes that it was acknowledged.
func (a *acks) send(r *rig, clients []client, i int) {
	r.Helper()
	clients[i].sendTo(r)
	a[i].Store(clients[i].acked)
}

// of gives clients as they were.
func (a *acks) of(clients []client) []client {
	noted := make([]client, len(clients))
	for i := range clients {
		noted[i] = client{id: clients[i].id, long: clients[i].long, acked: a[i].Load()}
	}
	return noted
}

func (c *client) sendTo(r *rig) {
	r.Helper()
	r.produce(batchBy(c.id, c.acked), c.batch(c.acked)...)
	c.acked++
}

// eachOnce checks that the log holds every record of the clients' acknowledged
// batches once, those of each client in order, and no other marked ones.
func eachOnce(t testing.TB, r *rig, clients []client) {
	t.Helper()
	got := make(map[string][]string)
	for _, record := range r.readAll() {
		who, _, _ := strings.Cut(string(record.Payload), " batch")
		got[who] = append(got[who], string(record.Payload))
	}
	for _, c := range clients {
		var want []string
		for sequence := range c.acked {
			want = append(want, c.batch(sequence)...)
		}
		if has := got[fmt.Sprintf("producer %d", c.id)]; strings.Join(has, "\n") != strings.Join(want, "\n") {
			t.Errorf("of producer %d the log holds\n%s\nwant\n%s", c.id, strings.Join(has, "\n"), strings.Join(want, "\n"))
		}
	}
}

// answers is what a log says of the batches of producers 1 to 4, but digests, which
// a first snapshot forgets.
func answers(l *engine.Log) string {
	var text strings.Builder
	for id := uint64(1); id <= 4; id++ {
		for sequence := range uint64(40) {
			class := l.ProducerSequence(id, sequence)
			class.Digest = producer.Digest{}
			fmt.Fprintf(&text, "%d/%d %+v\n", id, sequence, class)
		}
	}
	return text.String()
}

// snapshotTells checks that a log that was opened says of producers what its
// records say: what it answers when it is opened without a snapshot.
func (r *rig) snapshotTells(t testing.TB) {
	t.Helper()
	said := answers(r.log)
	r.close()
	path := filepath.Join(r.root, testKey(0).DirName(), engine.ProducersName)
	files := r.cfg.FS
	if files == nil {
		files = device.OS()
	}
	if err := files.Remove(path); err != nil && !device.IsNotExist(err) {
		t.Fatal(err)
	}
	r.open()
	if told := answers(r.log); told != said {
		t.Errorf("the log said of producers\n%s\nand its records say\n%s", differing(said, told), differing(told, said))
	}
}

// differing are the lines of a that b has not.
func differing(a, b string) string {
	var out []string
	in := make(map[string]bool)
	for _, line := range strings.Split(b, "\n") {
		in[line] = true
	}
	for _, line := range strings.Split(a, "\n") {
		if !in[line] {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

func producedRolls(t *testing.T, test func(t *testing.T, change func(*engine.Config))) {
	for _, background := range []bool{false, true} {
		name := "inline rolls"
		if background {
			name = "background rolls"
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // no timer is due meanwhile
				test(t, func(c *engine.Config) {
					c.SegmentBytes, c.IndexSpacingBytes = 700, 256
					c.MarkSyncInterval, c.RetentionInterval = 0, 1<<40
					if background {
						c.RolloverThresholdPercent = 50
					}
				})
			})
		})
	}
}

// A power loss before any operation of produced appends, of the rolls and the
// snapshots between them: whoever tries again what was not acknowledged, and once
// more what was, a batch of which the log has a part first, leaves each record in the log exactly once.
func TestAfterAPowerLossRetriesStoreEachRecordOnce(t *testing.T) {
	producedRolls(t, func(t *testing.T, change func(*engine.Config)) {
		r := newSimRig(t, change, func(c *engine.Config) { c.SegmentBytes = 40_000 })
		clients := []client{{id: 1, long: true}, {id: 2, long: true}}
		partial := 0
		var acknowledged acks
		var noted []client
		images := r.eachImageAfter(func() { noted = acknowledged.of(clients) }, func() error {
			for i := range 10 {
				acknowledged.send(r.rig, clients, i%2)
				synctest.Wait() // for what goes on in the background
			}
			return nil
		}, func(image *rig) {
			after := slices.Clone(noted)
			if c := &after[1]; image.log.ProducerSequence(c.id, c.acked).Verdict == producer.Partial {
				// Once the other one appended, its part is there for good.
				slices.Reverse(after)
			}
			if c := &after[0]; image.log.ProducerSequence(c.id, c.acked).Verdict == producer.Partial {
				partial++
			}
			for i := range after {
				c := &after[i]
				for sequence := range c.acked {
					if got := image.produce(batchBy(c.id, sequence), c.batch(sequence)...); !got.Duplicate {
						t.Errorf("batch %d of producer %d was acknowledged and is written again: %+v", sequence, c.id, got)
					}
				}
				c.sendTo(image)
				c.sendTo(image)
			}
			eachOnce(t, image, after)
			image.snapshotTells(t)
		})
		if s := r.store.Stats(); s.Rolls < 3 || partial == 0 {
			t.Errorf("%d rolls, %d images with a part of a batch", s.Rolls, partial)
		}
		t.Logf("%d images, %d with a part of a batch at the end", images, partial)
	})
}

// A process that is killed before any operation, under each mode.
func TestAfterAKillRetriesStoreEachRecordOnce(t *testing.T) {
	eachMode(t, func(t *testing.T, mode func(*engine.Config)) {
		producedRolls(t, func(t *testing.T, change func(*engine.Config)) {
			r := newSimRig(t, change, mode)
			clients := []client{{id: 1}, {id: 2}}
			images := 0
			var acknowledged acks
			var mu sync.Mutex
			r.disk.BeforeChange(func(simdisk.Change) {
				mu.Lock()
				defer mu.Unlock()
				images++
				after := acknowledged.of(clients)
				killed := r.disk.Crash(simdisk.CrashOptions{Kind: simdisk.ProcessDeath})
				cfg := r.cfg
				image := simRigOn(t, killed, func(c *engine.Config) { *c = cfg })
				for i := range after {
					c := &after[i]
					c.acked = max(c.acked, 1) - 1
					c.sendTo(image)
					c.sendTo(image)
				}
				eachOnce(t, image, after)
				image.snapshotTells(t)
				image.close()
			})
			for i := range 14 {
				acknowledged.send(r.rig, clients, i%2)
				synctest.Wait()
			}
			r.disk.BeforeChange(nil)
			if s := r.store.Stats(); s.Rolls < 3 || images < 20 {
				t.Errorf("%d rolls, %d images", s.Rolls, images)
			}
		})
	})
}

// A power loss before any operation of a truncation, and of what is appended past
// the cut, by another producer and up to the roll that begins a segment where one
// began before: what is known of producers is what the records say.
func TestAfterAPowerLossInATruncationProducersAreKnownByTheirRecords(t *testing.T) {
	producedRolls(t, func(t *testing.T, change func(*engine.Config)) {
		for _, cut := range []uint64{1, 13} {
			r := newSimRig(t, change)
			first, second := client{id: 1, single: true}, client{id: 2, single: true}
			for r.store.Stats().Rolls < 3 {
				first.sendTo(r.rig)
			}
			synctest.Wait()
			tail := r.log.TailOffset()
			look := func(image *rig) {
				image.snapshotTells(t)
			}
			r.eachImage(func() error {
				if err := r.log.Truncate(r.ctx, cut); err != nil {
					return err
				}
				if said, told := answers(r.log), r.recounted(); said != told {
					t.Errorf("cut at %d: the log says\n%s\nand its records say\n%s", cut, differing(said, told), differing(told, said))
				}
				for r.log.TailOffset() < tail {
					second.sendTo(r.rig)
					synctest.Wait()
				}
				return nil
			}, look)
		}
	})
}

// recounted is what answers would give if the records were all that a log knew.
func (r *rig) recounted() string { return recounted(r.readAll(), r.log.TailOffset()) }

func recounted(records []segment.Record, tail uint64) string {
	s := producer.New(producer.Options{})
	for _, record := range records {
		s.Observe(record.Offset, record.Mark, record.Payload)
	}
	s.Settle(tail)
	var text strings.Builder
	for id := uint64(1); id <= 4; id++ {
		for sequence := range uint64(40) {
			fmt.Fprintf(&text, "%d/%d %+v\n", id, sequence, s.Classify(id, sequence))
		}
	}
	return text.String()
}

// A snapshot that tells of records past the tail, which a crash in a truncation
// leaves, is gone before anything is appended: a segment that begins at its as_of
// later would make it look like one of the log's own.
func TestASnapshotFromTheFutureIsGoneBeforeTheLogGrowsPastIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSimRig(t, func(c *engine.Config) {
			c.SegmentBytes, c.MarkSyncInterval, c.RetentionInterval = 700, 0, 1<<40
		})
		first, second := client{id: 1, single: true}, client{id: 2, single: true}
		for len(r.log.Segments()) < 3 {
			first.sendTo(r.rig)
		}
		synctest.Wait() // the snapshot is on the disk
		path := filepath.Join(r.log.Dir(), engine.ProducersName)
		stale := readDisk(t, r.disk, path)
		asOf := r.log.Segments()[2].BaseOffset
		if err := r.log.Truncate(r.ctx, 1); err != nil {
			t.Fatal(err)
		}
		r.close()
		writeDisk(t, r.rig, path, stale)
		r.open()
		same := 0
		r.eachImage(func() error {
			for r.log.TailOffset() <= asOf {
				second.sendTo(r.rig)
			}
			return nil
		}, func(image *rig) {
			for _, d := range image.log.Segments()[1:] {
				if d.BaseOffset == asOf {
					same++
				}
			}
			image.snapshotTells(t)
		})
		if same == 0 {
			t.Errorf("no image has a segment that begins at %d: %v", asOf, r.log.Segments())
		}
	})
}

func readDisk(t testing.TB, disk *simdisk.Disk, path string) []byte {
	t.Helper()
	f, err := disk.OpenFile(path, device.ReadOnly, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); n != len(b) {
		t.Fatal(err)
	}
	return b
}

// writeDisk puts a file in a directory, durably, while the rig is closed.
func writeDisk(t testing.TB, r *rig, path string, b []byte) {
	t.Helper()
	f, err := r.cfg.FS.OpenFile(path, device.OpenOrCreate, 0o640)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(0); err != nil {
		t.Fatal(err)
	}
	dir, err := r.cfg.FS.OpenDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for _, op := range []*device.Op{
		{Kind: device.Write, File: f, Buf: b},
		{Kind: device.Flush, File: f},
		{Kind: device.FlushAll, File: dir},
	} {
		if err := device.Do(r.cfg.Queue, op); err != nil {
			t.Fatal(err)
		}
	}
}

// A kill in the middle of a batch leaves its first records. Its next try adds the
// others; records of another producer in between have it written again, whole.
func TestAPartOfABatchIsCompleted(t *testing.T) {
	opened := func(r *rig) {
		mark := producer.Marks(1, 0, 3)
		for i := range uint32(2) {
			r.append(engine.Record{Payload: []byte{'a' + byte(i)}, Mark: mark(i)})
		}
		r.reopen()
		if class := r.log.ProducerSequence(1, 0); class.Verdict != producer.Partial || class.Held != 2 || class.Len != 3 {
			r.Fatalf("%+v", class)
		}
	}
	t.Run("at the tail", func(t *testing.T) {
		r := newRig(t)
		opened(r)
		for _, payloads := range [][]string{{"a", "b"}, {"a", "x", "c"}, {"a", "b", "c", "d"}} {
			_, err := r.log.AppendProduced(r.ctx, batchBy(1, 0), records(payloads...)...)
			if errorAs[*engine.SequenceError](t, err).Reason != engine.SequenceReused {
				t.Error(err)
			}
		}
		if got := r.produce(batchBy(1, 0), "a", "b", "c"); got != produced(0, 2, true) {
			t.Errorf("%+v", got)
		}
		if got := r.produce(batchBy(1, 1), "d"); got != produced(3, 3, false) {
			t.Errorf("%+v", got)
		}
		r.wantMarks("open continue continue open")
	})
	t.Run("behind others", func(t *testing.T) {
		r := newRig(t)
		opened(r)
		r.append(engine.Record{Payload: []byte("plain")})
		if got := r.produce(batchBy(1, 0), "a", "b", "c"); got != produced(3, 5, false) {
			t.Errorf("%+v", got)
		}
		r.wantMarks("open continue plain open continue continue")
	})
	t.Run("bit by bit", func(t *testing.T) {
		r := newRig(t)
		_, err := r.log.ContinueProduced(r.ctx, 1, 0, records("c")...)
		if errorAs[*engine.SequenceError](t, err).Reason != engine.SequenceNotOpen {
			t.Error(err)
		}
		opened(r)
		_, err = r.log.ContinueProduced(r.ctx, 1, 0, records("c", "d")...)
		errorAs[*engine.InvalidRangeError](t, err)
		_, err = r.log.ContinueProduced(r.ctx, 1, 1, records("c")...)
		errorAs[*engine.SequenceError](t, err)
		if got, err := r.log.ContinueProduced(r.ctx, 1, 0, records("c")...); err != nil || got.First != 2 || got.Last != 2 {
			t.Errorf("%+v, %v", got, err)
		}
		_, err = r.log.ContinueProduced(r.ctx, 1, 0, records("d")...)
		errorAs[*engine.SequenceError](t, err)
		r.wantMarks("open continue continue")
	})
}

func (r *rig) wantMarks(want string) {
	r.Helper()
	names := map[segment.Kind]string{segment.BatchOpen: "open", segment.BatchContinue: "continue", 0: "plain"}
	var got []string
	for _, record := range r.readAll() {
		got = append(got, names[record.Mark.Kind])
	}
	if strings.Join(got, " ") != want {
		r.Errorf("the log holds %v, want %s", got, want)
	}
}
