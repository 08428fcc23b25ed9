package powerloss

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
	"felix.local/felix/segment"
)

// The shape of a workload with many appenders: shards of one store, publishers and
// readers of each, and the appends of a publisher between two checkpoints.
const (
	crowdShards       = 3
	crowdPublishers   = 5
	crowdReaders      = 2
	crowdAppends      = 5
	crowdImagesMidway = 4
)

// publishers crashes several shards that many append to and read from at once. At
// a checkpoint all of them rest, and then it is known at which offset every record
// is; images taken in between are checked against that.
func (w *workload) publishers() error {
	w.begin(crowdShards, 0)
	if err := w.live(func(*engine.Store) error {
		for range max(1, w.checkpoints/4) {
			images := crowdImagesMidway * w.imagesPerCheck
			w.aim(images, 6*images)
			if err := w.crowd(); err != nil {
				return err
			}
			if err := w.checkpoint(); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return w.judge(w.takeMidway())
}

// crowd lets publishers and readers run until the publishers are done.
func (w *workload) crowd() error {
	var publishing, reading sync.WaitGroup
	failed := &failures{}
	for s, t := range w.shards {
		from := t.acked // at rest
		published, done := context.WithCancel(context.Background())
		var own sync.WaitGroup
		for p := range crowdPublishers {
			rand := simdisk.NewRand(w.rand.Next() + uint64(s*crowdPublishers+p))
			own.Go(func() { failed.note(w.publish(t, rand)) })
		}
		publishing.Go(func() {
			own.Wait()
			done()
		})
		for range crowdReaders {
			reading.Go(func() { failed.note(w.read(t, from, published)) })
		}
	}
	publishing.Wait()
	reading.Wait()
	w.syncs.Wait()
	if failed.err != nil {
		return failed.err
	}
	return w.placed()
}

// failures are those of many goroutines.
type failures struct {
	mu  sync.Mutex
	err error
}

func (f *failures) note(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = errors.Join(f.err, err)
}

// publish appends batches, each after the one before was acknowledged.
func (w *workload) publish(t *truth, rand *simdisk.Rand) error {
	ctx := context.Background()
	for range crowdAppends {
		records := make([]engine.Record, 1+rand.Below(recordsPerAppendMax))
		for i := range records {
			records[i].Payload = payload(rand, w.seed)
		}
		w.mu.Lock()
		t.submitted += uint64(len(records))
		w.mu.Unlock()
		result, err := t.log.Append(ctx, records...)
		if err != nil {
			return err
		}
		if err := w.place(t, result, records); err != nil {
			return err
		}
		if w.mode == engine.FsyncNone && rand.Below(8) == 0 {
			if err := t.log.Sync(ctx); err != nil {
				return err
			}
		}
		if rand.Below(4) == 0 {
			w.host.model().WriteBack(rand.Next())
		}
	}
	return nil
}

// place notes where records are that were acknowledged.
func (w *workload) place(t *truth, result engine.AppendResult, records []engine.Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if result.Last-result.First+1 != uint64(len(records)) || result.Last >= t.submitted {
		return fmt.Errorf("%s: %d records got offsets %d to %d, and %d were submitted",
			t.log.Label(), len(records), result.First, result.Last, t.submitted)
	}
	for uint64(len(t.want)) <= result.Last {
		t.want = append(t.want, nil)
	}
	for i, r := range records {
		if at := &t.want[result.First+uint64(i)]; *at == nil {
			*at = r.Payload
			continue
		}
		return fmt.Errorf("%s: two records were acknowledged at offset %d", t.log.Label(), result.First+uint64(i))
	}
	t.acked = max(t.acked, result.Last+1)
	w.sum.Acked += len(records)
	return nil
}

// placed checks, at rest, that every offset has its record and that readers got
// just that.
func (w *workload) placed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.shards {
		for offset, p := range t.want {
			if p == nil {
				return fmt.Errorf("%s: nothing was acknowledged at offset %d below %d", t.log.Label(), offset, len(t.want))
			}
		}
		if uint64(len(t.want)) != t.submitted {
			return fmt.Errorf("%s: %d records were submitted and all acknowledged, at %d offsets", t.log.Label(), t.submitted, len(t.want))
		}
		for _, r := range t.got {
			if !bytes.Equal(r.Payload, t.want[r.Offset]) {
				return fmt.Errorf("%s: a reader got other bytes at offset %d than were acknowledged there", t.log.Label(), r.Offset)
			}
		}
		w.sum.Read += len(t.got)
		t.got = nil
	}
	return nil
}

// read follows a log until all was published, which ends a context, and read.
func (w *workload) read(t *truth, next uint64, published context.Context) error {
	for {
		last := published.Err() != nil // after this look
		page, err := t.log.ReadRange(context.Background(), next, 8<<10)
		if err != nil {
			return err
		}
		if len(page) > 0 {
			if next, err = w.got(t, next, page); err != nil {
				return err
			}
			continue
		}
		if last {
			break
		}
		if err := t.log.WaitTail(published, next); err != nil && published.Err() == nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if next != t.acked {
		return fmt.Errorf("%s: a reader came to an end at %d, and %d is acknowledged", t.log.Label(), next, t.acked)
	}
	return nil
}

// got notes what a reader has seen from next on.
func (w *workload) got(t *truth, next uint64, page []segment.Record) (uint64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range page {
		if r.Offset != next {
			return next, fmt.Errorf("%s: a reader at %d got offset %d", t.log.Label(), next, r.Offset)
		}
		next++
	}
	t.got = append(t.got, page...)
	t.read = max(t.read, next)
	return next, nil
}
