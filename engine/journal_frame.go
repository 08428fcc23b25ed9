package engine

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"felix.local/felix/device"
	"felix.local/felix/journal"
	"felix.local/felix/recovery"
)

// writeFrame makes entries durable and gives the frame's sequence.
//
// Order: the file is looked for before the frame is begun; the entries are pinned before
// their frame is written, so that no later frame says they are not needed; a frame is
// durable before the next is begun.
func (j *commitJournal) writeFrame(entries []*journalEntry) (uint64, error) {
	j.mu.Lock()
	if j.mu.broken != nil {
		defer j.mu.Unlock()
		return 0, j.mu.broken
	}
	j.mu.Unlock()
	if !j.ready() {
		return 0, errNoJournalRoom
	}
	fences := true
	size := journal.HeaderBytes
	for _, e := range entries {
		fences = fences && e.log == nil
		size += e.EncodedBytes()
	}
	if err := j.findRoom(journal.PaddedBytes(size), fences); err != nil {
		return 0, err
	}
	if err := j.inPlace(); err != nil {
		return 0, err
	}
	sequence, oldest := j.pin(entries)
	frame, err := j.build(entries, size, journal.Header{
		Epoch: j.epoch, Sequence: sequence, OldestNeeded: oldest, Entries: uint32(len(entries)),
	})
	if err != nil {
		j.unpin(entries)
		return 0, fmt.Errorf("%w: %w", errNoJournalRoom, err)
	}
	if err := j.writeAt(frame, entries); err != nil {
		return 0, j.fail(err)
	}
	j.framed(entries, sequence, oldest)
	return sequence, nil
}

// pin gives the next frame's sequence and the oldest that it says is needed.
func (j *commitJournal) pin(entries []*journalEntry) (sequence, oldest uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	sequence = j.mu.sequence + 1
	for _, e := range entries {
		if e.log != nil {
			e.log.pins.framed = sequence
			j.mu.pinned[e.log] = struct{}{}
		}
	}
	return sequence, min(j.mu.oldest, sequence)
}

// unpin takes back what pin did for a frame that was not written.
func (j *commitJournal) unpin(entries []*journalEntry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range entries {
		if e.log != nil {
			e.log.pins.framed = 0
			j.dropUnpinnedLocked(e.log)
		}
	}
}

func (j *commitJournal) dropUnpinnedLocked(l *Log) {
	if l.pins.oldest() == 0 {
		delete(j.mu.pinned, l)
	}
}

// build encodes a frame into the leader's buffer.
func (j *commitJournal) build(entries []*journalEntry, size int, h journal.Header) ([]byte, error) {
	if need := int(journal.PaddedBytes(size)); cap(j.buf) < need {
		bigger, err := j.store.arena.Take(need)
		if err != nil {
			return nil, err
		}
		j.store.arena.Give(j.buf)
		j.buf = bigger
	}
	frame := j.buf[:journal.HeaderBytes]
	for _, e := range entries {
		frame = journal.AppendEntry(frame, &e.Entry)
	}
	return journal.Seal(frame, h), nil
}

// writeAt writes a frame by the route of the rule for dsync writes, and accounts
// for its place.
func (j *commitJournal) writeAt(frame []byte, entries []*journalEntry) error {
	s, f := j.store, &j.files[j.active]
	j.op.Kind, j.op.File, j.op.Buf, j.op.Pos = device.WriteDsync, f.file, frame, j.pos
	place, inline := 0, false
	var looked time.Time
	if len(entries) == 1 && entries[0].log != nil {
		place, inline = s.inline(entries[0].log, &j.op)
	} else {
		s.solo.shared()
	}
	var err error
	if inline {
		err = s.performInline(&j.op, place)
	} else {
		s.queue.Submit(&j.op)
		looked = lookAtNames(entries) // a system call each, while the device works
		err = j.op.Wait()
		s.keepIfUnknown(&j.op)
	}
	if err == nil && j.op.Pieces > 1 {
		// Of several pieces a dsync write covers the last one.
		j.op.Kind, j.op.Buf, j.op.Pos = device.Flush, nil, 0
		err = s.do(&j.op)
	}
	if time.Since(looked) > nameSeen {
		lookAtNames(entries)
	}
	if err == nil {
		// A frame is none when the filesystem stopped meanwhile.
		err = f.file.TakesWrites()
	}
	if device.ClassOf(err) == device.ClassOutcomeUnknown {
		j.buf, j.op = nil, device.Op{} // the kernel may still read from it
	}
	if err != nil {
		return err
	}
	j.op.Buf = nil
	j.pos += int64(len(frame))
	s.counters.journalFrames.Add(1)
	s.counters.journalBytes.Add(uint64(len(frame)))
	s.counters.journalEntries.Add(uint64(len(entries)))
	return nil
}

// nameSeen is how old a look at a segment's name may be when its batch is acknowledged.
const nameSeen = time.Millisecond

// lookAtNames notes which entries are of a segment that has no name. One that was moved
// away is noticed by its checkpoint, until which the journal holds the entry.
func lookAtNames(entries []*journalEntry) (began time.Time) {
	began = time.Now()
	for _, e := range entries {
		if e.log != nil {
			e.unnamed = hasName(e.log.mu.active.file, e.Position)
		}
	}
	return began
}

// framed notes a frame that is durable.
func (j *commitJournal) framed(entries []*journalEntry, sequence, oldest uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.sequence = sequence
	j.mu.told = max(j.mu.told, oldest)
	j.files[j.active].last = sequence
	for _, e := range entries {
		if e.log == nil {
			j.fencedLocked(e)
			continue
		}
		shard := j.mu.shards[e.Shard]
		if shard.last < j.mu.told { // nothing older counts
			shard = journaledShard{lowest: e.Segment}
		}
		shard.last = sequence
		j.mu.shards[e.Shard] = shard
	}
}

// inPlace says whether a frame may be written. One in a file that is elsewhere would not
// be found by a start: its batches go to their segments, and fences nowhere, until the
// journal is back. One that was removed does not come back.
func (j *commitJournal) inPlace() error {
	f := j.files[j.active].file
	err := stillNamed(f, j.pos)
	if err == nil && !j.away {
		return nil
	}
	if removed := hasName(f, j.pos); errors.Is(removed, errUnlinked) {
		return j.lose(removed)
	}
	switch logger := j.store.logger; {
	case err == nil:
		j.sayReason("")
		logger.Info("the commit journal is under its name again", "root", j.store.root)
	case !j.away:
		j.sayReason(err.Error())
		j.wakeCheckpointer() // what lags is in memory alone for whoever starts without it
		logger.Error("the commit journal is not under its name: every log commits in its own segments until it is put back, or the store is opened anew and it is never put back", "root", j.store.root, "error", err)
	}
	j.away = err != nil
	if err != nil {
		err = fmt.Errorf("%w: %w", errNoJournalRoom, err)
	}
	return err
}

func (j *commitJournal) sayReason(text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.reason = text
}

// lose gives up a journal of which a file was removed under the store. All that its
// frames held and segments lack is in memory too: it goes to the segments now, as all
// does that is committed from here on.
func (j *commitJournal) lose(cause error) error {
	j.mu.Lock()
	first := !j.mu.lost
	j.mu.lost, j.mu.reason = true, cause.Error()
	j.state.CompareAndSwap(journalReady, journalOff)
	j.mu.Unlock()
	if first {
		j.store.logger.Error("the commit journal was removed under the store: every log commits in its own segments from here on", "root", j.store.root, "error", cause)
	}
	j.wakeCheckpointer()
	return fmt.Errorf("%w: %w", errNoJournalRoom, cause)
}

// settleLoss makes it durable that a journal which was lost is gone, and says that it
// holds nothing as soon as that is so: nobody has to be told of a removal any more.
func (j *commitJournal) settleLoss() error {
	j.mu.Lock()
	lost, asked := j.mu.lost, j.mu.gone || j.mu.notGone
	j.mu.Unlock()
	if !lost {
		return nil
	}
	if !asked {
		gone, err := j.removalIsDurable()
		j.mu.Lock()
		j.mu.gone, j.mu.notGone = gone, !gone
		j.mu.Unlock()
		if err != nil {
			return err
		}
	}
	j.mu.Lock()
	over := len(j.mu.pinned) == 0
	j.mu.Unlock()
	if !over {
		return nil
	}
	// Whatever names come back, of files or of copies of them: beside this they hold nothing.
	if err := recovery.MakeDirs(j.store.disk(), j.path(""), j.store.cfg.DirMode); err != nil {
		return err
	}
	if err := j.sayCurrent(true); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.lost = false
	clear(j.mu.shards)
	return nil
}

// removalIsDurable says whether a start will miss a file of the journal, whatever happens.
// Where a copy has taken its place it will not, and a flush of a directory that failed
// says nothing when it is tried again: both are asked once.
//
// Order: this is over before a removal of records goes without a fence. A power loss that
// brought the journal's names back would bring the records back, or keep the root closed.
func (j *commitJournal) removalIsDurable() (bool, error) {
	err := ignoreMissing(j.store.flushDir(j.path("")))
	if errors.Is(err, unix.ENOTDIR) { // something else is where it was
		err = nil
	}
	if err == nil {
		err = j.store.flushDir(j.store.root)
	}
	if err != nil {
		j.store.counters.syncFailures.Add(1)
		return false, err
	}
	_, err = j.store.fs.Lstat(j.files[j.active].file.Name())
	missing := device.IsNotExist(err) || errors.Is(err, unix.ENOTDIR)
	return missing, nil
}

// fail ends the journal: whether the frame is on the device is unknown, and so is
// what a frame after it would find. Every log is poisoned, and what was
// acknowledged stays in the journal for the next start.
func (j *commitJournal) fail(cause error) error {
	j.mu.Lock()
	if j.mu.broken == nil {
		j.mu.broken = fmt.Errorf("the commit journal could not be written: %w", cause)
		j.state.Store(journalBroken)
	}
	err := j.mu.broken
	j.mu.Unlock()
	j.store.counters.syncFailures.Add(1)
	go j.store.poisonAll(err)
	return err
}
