package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
)

func bboltTargets() []target {
	const (
		what    = "keys in order of offsets; a database per log"
		options = "freelist as a map and not synced, buckets filled to 100 %; "
		why     = "a transaction's pages are written and synced with fdatasync, then its meta page, again with fdatasync"
	)
	return []target{
		{name: "bbolt/update", logs: what, how: options + "`Update`, one transaction after the other", why: why, open: perLog(bboltWith(false))},
		{
			name: "bbolt/batch", logs: what, how: options + "its own `Batch`; the size of a batch is the number of publishers and its delay 1 ms", why: why,
			serves: shared, open: perLog(bboltBatch),
		},
		{name: "bbolt/group", logs: what, how: options + "one `Update` for all that wait", why: why, serves: shared, open: perLog(bboltWith(true))},
		{
			name: "bbolt/buckets", logs: "a bucket per log; one database for all", how: options + "one `Update` for all that wait, whichever their log", why: why,
			serves: several, open: openBuckets,
		},
	}
}

func openBolt(dir string) (*bolt.DB, error) {
	return bolt.Open(filepath.Join(dir, "data.bolt"), 0o640, &bolt.Options{FreelistType: bolt.FreelistMapType, NoFreelistSync: true})
}

// bucket is a log in a database.
func bucketName(log int) []byte { return fmt.Appendf(nil, "log-%03d", log) }

// put appends to a bucket within a transaction.
func put(tx *bolt.Tx, name []byte, payloads [][]byte) error {
	bucket, err := tx.CreateBucketIfNotExists(name)
	if err != nil {
		return err
	}
	bucket.FillPercent = 1 // keys only grow
	for _, payload := range payloads {
		offset, err := bucket.NextSequence()
		if err != nil {
			return err
		}
		if err := bucket.Put(key(0, offset), payload); err != nil {
			return err
		}
	}
	return nil
}

func bboltWith(gathers bool) openOne {
	return func(dir string, _ row) (log, func() error, error) {
		db, err := openBolt(dir)
		if err != nil {
			return nil, nil, err
		}
		w := bboltLog{db, bucketName(0)}
		if gathers {
			return group(w), db.Close, nil
		}
		return bboltUpdates{w}, db.Close, nil
	}
}

type bboltLog struct {
	db     *bolt.DB
	bucket []byte
}

func (l bboltLog) write(_ context.Context, payloads [][]byte) error {
	return l.db.Update(func(tx *bolt.Tx) error { return put(tx, l.bucket, payloads) })
}

func (l bboltLog) Read(_ context.Context, visit func([]byte) error) error {
	return l.db.View(func(tx *bolt.Tx) error {
		bucket := tx.Bucket(l.bucket)
		if bucket == nil {
			return nil
		}
		return bucket.ForEach(func(_, payload []byte) error { return visit(payload) })
	})
}

// bboltUpdates needs no mutex: Update has one.
type bboltUpdates struct{ bboltLog }

func (l bboltUpdates) Append(ctx context.Context, payloads [][]byte) error {
	return l.write(ctx, payloads)
}

// bboltBatches leaves the gathering to bbolt. A batch that waits for as many as there are
// publishers runs as soon as all of a closed loop are back; the delay is for when one
// of them is late.
type bboltBatches struct{ bboltLog }

func bboltBatch(dir string, r row) (log, func() error, error) {
	db, err := openBolt(dir)
	if err != nil {
		return nil, nil, err
	}
	db.MaxBatchSize, db.MaxBatchDelay = r.Publishers/r.Logs, time.Millisecond
	return bboltBatches{bboltLog{db, bucketName(0)}}, db.Close, nil
}

func (l bboltBatches) Append(_ context.Context, payloads [][]byte) error {
	return l.db.Batch(func(tx *bolt.Tx) error { return put(tx, l.bucket, payloads) })
}

// bucketAppend is an append to one of several logs in a database.
type bucketAppend struct {
	bucket   []byte
	payloads [][]byte
}

// bboltBucket is such a log. All share one group commit.
type bboltBucket struct {
	bboltLog
	group *committer[bucketAppend]
}

func openBuckets(_ context.Context, dir string, r row) (in instance, err error) {
	db, err := openBolt(dir)
	if err != nil {
		return in, err
	}
	all := &committer[bucketAppend]{write: func(_ context.Context, requests []bucketAppend) error {
		return db.Update(func(tx *bolt.Tx) error {
			for _, request := range requests {
				if err := put(tx, request.bucket, request.payloads); err != nil {
					return err
				}
			}
			return nil
		})
	}}
	for i := range r.Logs {
		in.logs = append(in.logs, bboltBucket{bboltLog{db, bucketName(i)}, all})
	}
	in.close = db.Close
	return in, nil
}

func (l bboltBucket) Append(ctx context.Context, payloads [][]byte) error {
	return l.group.commit(ctx, bucketAppend{l.bucket, payloads})
}
