package engine

import (
	"felix.local/felix/device"
	"felix.local/felix/journal"
)

// journalFile is one data file of the journal. last is the highest sequence of a
// frame in it that counts, 0 for none.
type journalFile struct {
	file device.File
	last uint64
}

// journalReserve is how much is kept free at the end of a data file for frames that
// make room: fences, and those that say what is not needed any more.
const journalReserve = 16 * journal.BlockBytes

// reserve is that of files of this size.
func (j *commitJournal) reserve() int64 {
	return min(journalReserve, j.store.journalFileBytes()/8) / journal.BlockBytes * journal.BlockBytes
}

// frameMax bounds the bytes of one frame.
func (j *commitJournal) frameMax() int64 {
	return min(journal.FrameBytesMax, (j.store.journalFileBytes()-j.reserve())/2)
}

// findRoom makes sure that a frame of so many bytes fits at the leader's position.
//
// A file is written over only when a durable frame, in another file, says that none
// of its frames is needed: recovery begins at what such a frame names, and a frame
// that is torn while it takes the place of an old one must not leave a gap there.
func (j *commitJournal) findRoom(need int64, mayUseReserve bool) error {
	end := j.store.journalFileBytes() - journal.BlockBytes // the last block is for tell
	if !mayUseReserve {
		end = j.store.journalFileBytes() - j.reserve()
	}
	if j.pos+need <= end {
		return nil
	}
	if !mayUseReserve {
		j.wakeCheckpointer()
	}
	next, told := j.freeFile()
	if next < 0 && told {
		if err := j.tell(); err != nil {
			return err
		}
		next, _ = j.freeFile()
	}
	if next < 0 {
		j.store.counters.journalFull.Add(1)
		return errNoJournalRoom
	}
	j.mu.Lock()
	j.files[next].last = 0
	j.mu.Unlock()
	j.active, j.pos = next, 0
	return nil
}

// freeFile gives a file that may be written over, or -1. worthTelling says that one
// is not needed and no durable frame says so yet.
func (j *commitJournal) freeFile() (next int, worthTelling bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	next = -1
	for i := range j.files {
		last := j.files[i].last
		switch {
		case i == j.active:
		case last == 0 || last < j.mu.told:
			if next < 0 || last < j.files[next].last {
				next = i
			}
		case last < j.mu.oldest:
			worthTelling = true
		}
	}
	return next, worthTelling && j.pos+journal.BlockBytes <= j.store.journalFileBytes()
}

// tell writes a frame without entries: it says what is not needed any more.
func (j *commitJournal) tell() error {
	if err := j.inPlace(); err != nil {
		return err
	}
	sequence, oldest := j.pin(nil)
	frame, err := j.build(nil, journal.HeaderBytes, journal.Header{Epoch: j.epoch, Sequence: sequence, OldestNeeded: oldest})
	if err != nil {
		return err
	}
	if err := j.writeAt(frame, nil); err != nil {
		return j.fail(err)
	}
	j.framed(nil, sequence, oldest)
	return nil
}

func (j *commitJournal) wakeCheckpointer() {
	select {
	case j.kick <- struct{}{}:
	default:
	}
}
