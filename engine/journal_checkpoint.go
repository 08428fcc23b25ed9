package engine

import (
	"context"
	"time"

	"felix.local/felix/device"
)

// journalLagTime is how long bytes may lag behind the journal: a bound on memory and
// on what a restart replays, not on what is safe.
const journalLagTime = 5 * time.Second

// checkpoint brings the segment of one log up to what the journal made durable:
// a write, then a flush, which is submitted after the write's completion. It holds
// the log's one flush.
type checkpoint struct {
	log   *Log
	file  *openFile
	op    device.Op
	end   int64
	wrote bool
}

// beginCheckpoint takes the lag of a log; nil when there is none, or when the log's
// flush is under way, or exclusive work, which does this itself.
func (l *Log) beginCheckpoint() *checkpoint {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.flushing || l.mu.gate != nil || l.mu.poison != nil || l.mu.closed {
		return nil
	}
	return l.takeLagLocked()
}

// takeLagLocked takes the turn of the log's flush for what lags, if anything does.
func (l *Log) takeLagLocked() *checkpoint {
	w := &l.mu.active
	if len(w.lag.staged) == 0 {
		return nil
	}
	c := &checkpoint{log: l, file: w.file.hold(), end: w.size}
	c.op = device.Op{Kind: device.Write, File: c.file, Pos: w.filed()}
	c.op.Buf = w.lag.begin()
	l.mu.flushing = true
	l.store.journal.moveToWriting(l)
	return c
}

// next takes note of the operation that completed and says whether another is to be
// submitted.
func (c *checkpoint) next() bool {
	c.log.store.keepIfUnknown(&c.op)
	if c.op.Err != nil || c.wrote {
		return false
	}
	c.wrote = true
	c.op.Kind, c.op.Buf, c.op.Pos = device.Flush, nil, 0
	return true
}

// finish moves the log's bounds, or poisons it: what lagged was acknowledged, and
// whether the segment holds it is unknown. Then it stays in memory for readers, and
// the frames that hold it are kept for the next start.
func (c *checkpoint) finish() error {
	l, err := c.log, c.op.Err
	if err == nil {
		err = kept(c.file, c.end)
	}
	l.mu.Lock()
	if err == nil {
		err = l.mu.poison
	} else {
		l.store.counters.syncFailures.Add(1)
		err = l.poisonLocked(err)
	}
	if err == nil {
		w := &l.mu.active
		l.store.journal.lagBytes.Add(-int64(len(w.lag.writing)))
		w.lag.end()
		w.synced = max(w.synced, c.end)
		l.advanceDurableLocked()
		l.store.journal.written(l)
	}
	l.mu.Unlock()
	l.endFlush(c.file.release)
	return err
}

// settleLag brings the active segment up to what the journal made durable and waits
// for that. The caller holds the commit role, so that nothing more can lag; before
// the segment is written to in another way, sealed, cut or closed, it has to hold
// everything that is durable.
func (l *Log) settleLag() error {
	l.mu.Lock()
	for l.mu.flushing && l.mu.active.lag.bytes() > 0 {
		_ = l.waitLocked(context.Background())
	}
	if l.mu.poison != nil || l.mu.active.lag.bytes() == 0 {
		defer l.mu.Unlock()
		return l.mu.poison
	}
	c := l.takeLagLocked()
	l.mu.Unlock()
	for again := true; again; again = c.next() {
		l.store.queue.Submit(&c.op)
		_ = c.op.Wait()
	}
	err := c.finish()
	l.store.journal.advance()
	return err
}

// lags says that the segment is behind the journal.
func (l *Log) lags() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.active.lag.bytes() > 0
}

// run is the checkpointer. It waits for nothing that an appender can hold, nor for a
// log that hangs: each round has a goroutine of its own, and leaves out what an earlier
// one is still at.
func (j *commitJournal) run(stop <-chan struct{}) {
	ticker := time.NewTicker(journalLagTime)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		case <-j.kick:
		}
		if logs := j.lagging(); len(logs) > 0 {
			j.store.running.Add(1) // one is counted already: this goroutine
			go func() {
				defer j.store.running.Done()
				j.checkpoint(logs, nil)
			}()
		}
		if j.isLost() && j.settling.CompareAndSwap(false, true) {
			j.store.running.Add(1)
			go func() {
				defer j.store.running.Done()
				defer j.settling.Store(false)
				if err := j.settleLoss(); err != nil {
					j.store.logger.Warn("the commit journal that was removed could not be said to be empty; it is tried again", "root", j.store.root, "error", err)
				}
			}()
		}
	}
}

func (j *commitJournal) isLost() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mu.lost
}

// lagging are the logs with bytes that wait for a checkpoint.
func (j *commitJournal) lagging() []*Log {
	j.mu.Lock()
	defer j.mu.Unlock()
	var logs []*Log
	for l := range j.mu.pinned {
		if l.pins.lagging != 0 {
			logs = append(logs, l)
		}
	}
	return logs
}

// checkpoint does this for many logs, all writes in one submission and each flush as
// soon as its write has completed. judged, if set, is told each log when it is done
// with: one that hangs keeps no other waiting.
func (j *commitJournal) checkpoint(logs []*Log, judged func(*Log)) {
	over := func(l *Log) {
		if judged != nil {
			judged(l)
		}
	}
	under := make(map[*device.Op]*checkpoint)
	results := make(chan *device.Op, len(logs))
	var ops []*device.Op
	for _, l := range logs {
		if c := l.beginCheckpoint(); c != nil {
			c.op.Results = results
			under[&c.op] = c
			ops = append(ops, &c.op)
		} else {
			over(l)
		}
	}
	for len(under) > 0 {
		if len(ops) > 0 {
			j.store.queue.Submit(ops...)
			ops = ops[:0]
		}
		for op := <-results; op != nil; op = received(results) {
			c := under[op]
			if c.next() {
				ops = append(ops, op)
				continue
			}
			delete(under, op)
			_ = c.finish() // a log that failed is poisoned
			over(c.log)
		}
		j.advance()
	}
	j.store.counters.journalCheckpoints.Add(1)
}

// published moves a log's pin from its frame to its lag, when that holds the bytes.
func (j *commitJournal) published(l *Log) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if l.pins.lagging == 0 {
		l.pins.lagging = l.pins.framed
	}
	l.pins.framed = 0
}

func (j *commitJournal) moveToWriting(l *Log) {
	j.mu.Lock()
	defer j.mu.Unlock()
	l.pins.writing, l.pins.lagging = l.pins.lagging, 0
}

// written drops the pin of what a checkpoint has made durable in the segment.
func (j *commitJournal) written(l *Log) {
	j.mu.Lock()
	defer j.mu.Unlock()
	l.pins.writing = 0
	j.dropUnpinnedLocked(l)
}

// advance takes note of what is not needed any more, after pins were dropped.
func (j *commitJournal) advance() {
	j.mu.Lock()
	defer j.mu.Unlock()
	oldest := j.mu.sequence + 1
	for l := range j.mu.pinned {
		oldest = min(oldest, l.pins.oldest())
	}
	j.mu.oldest = oldest
	if j.mu.lost && len(j.mu.pinned) == 0 {
		j.wakeCheckpointer()
	}
}
