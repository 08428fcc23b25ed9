package engine

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"felix.local/felix/device"
	"felix.local/felix/journal"
)

// The commit journal: under on_commit, with one file per shard, many shards cost a
// flush each, and each of those a commit of the filesystem's own. So batches of all
// logs share frames of one journal instead, written over blocks that were written
// before, one frame at a time. The segments follow later, merged and in the
// background; until a log's bytes are synced there, the frames that hold them are
// not written over.
//
//	each log    stage an entry, and the commit loop's role with it
//	leader      gather ─ build a frame ─ one dsync write
//	            ─ for each log: publish, stage its next entry, or start its loop
//	            ─ next frame
//	checkpoint  lag ─ write to the segment ─ flush ─ its frames are not needed
//
// A batch that is published is durable; its bytes wait in memory (the lag). The leader
// is one goroutine while anything is staged. It goes on for the logs itself, since
// waking a goroutine per log costs more than publishing does, and it waits for the
// journal's device alone: what may wait for anything else is a loop's.
//
// docs/format.md has the layout, docs/durability.md the rules.
type commitJournal struct {
	store *Store
	// state changes under mu and is looked at without it.
	state atomic.Int32
	// commits counts commits that could have used the journal, until it is made.
	commits atomic.Int64
	// leadFn is lead as a function value, made once.
	leadFn func()
	// kick asks the checkpointer to make files free.
	kick chan struct{}
	// stagedCount mirrors len(mu.staged), lagBytes what lags in all logs.
	stagedCount, lagBytes atomic.Int64
	// settling says that a goroutine is at settleLoss.
	settling atomic.Bool

	mu struct {
		sync.Mutex
		// reason says why there is no journal.
		reason string
		// sequence is that of the last frame that is durable.
		sequence uint64
		staged   []*journalEntry
		leading  bool
		// oldest is the lowest sequence that a segment may still need; it may lag.
		// told is the highest that a durable frame says.
		oldest, told uint64
		// pinned are the logs with bytes that no segment holds durably.
		pinned map[*Log]struct{}
		// shards has, per directory, what frames hold of it.
		shards map[string]journaledShard
		broken error
		// lost says that a file was removed under the store, and that the journal may
		// still hold something; gone, that no start finds it whole, notGone that this
		// is not certain.
		lost, gone, notGone bool
	}
	// The leader's own, and the opener's before.
	epoch  uint64
	files  []journalFile
	active int
	pos    int64
	buf    []byte
	op     device.Op
	taken  []*journalEntry
	last   cohort
	// away says that the file in use was not under its name when that was last asked.
	away bool
}

// The states of a journal.
const (
	journalOff int32 = iota
	journalUnmade
	journalMaking
	journalReady
	journalBroken
	journalClosed
)

// journaledShard is what frames hold of a shard.
type journaledShard struct {
	// last is the highest sequence with an entry, sealed that with one of a segment
	// that was left behind; 0 for none.
	last, sealed uint64
	// lowest is the lowest segment that may have entries, left the highest that was
	// left behind.
	lowest, left uint64
}

// journalEntry is what one log, or one fence, wants in the next frame.
type journalEntry struct {
	journal.Entry
	// log and batch are whose entry it is, and unnamed why its segment is none any
	// more; a fence has none of them, and done.
	log     *Log
	batch   *batch
	unnamed error
	done    chan error
}

// pins are the lowest sequences that hold bytes of a log, by where the bytes are on
// their way to the segment; 0 for none. commitJournal.mu guards them.
type pins struct{ framed, lagging, writing uint64 }

func (p pins) oldest() uint64 {
	oldest := uint64(0)
	for _, sequence := range []uint64{p.framed, p.lagging, p.writing} {
		if sequence != 0 && (oldest == 0 || sequence < oldest) {
			oldest = sequence
		}
	}
	return oldest
}

// What goes into the journal.
const (
	// journalBatchMax is the size up to which a batch is journaled: written twice, a
	// larger one costs more than the flush it saves.
	journalBatchMax = 64 << 10
	// journalLagMax bounds what lags of one log, journalLagTotalMax of all: a batch
	// beyond is committed in its segment.
	journalLagMax      = 1 << 20
	journalLagTotalMax = 64 << 20
	// journalLagKick is what lags of one log when it is written down early.
	journalLagKick = journalLagMax / 4
	// journalAfter is how many commits it takes under auto before the files are made:
	// a store that commits now and then has no use for them.
	journalAfter = 1024
)

var errNoJournalRoom = errors.New("no file of the commit journal is free")

func newCommitJournal(s *Store) *commitJournal {
	j := &commitJournal{store: s, kick: make(chan struct{}, 1)}
	j.leadFn = func() { j.lead(nil) }
	j.mu.pinned, j.mu.shards = make(map[*Log]struct{}), make(map[string]journaledShard)
	return j
}

// takes says whether the commit loop of l may journal b. The batch's segment must
// have its header on the device and blocks for all of the batch, and everything
// below the batch must be durable, in one place or the other.
func (j *commitJournal) takes(l *Log, b *batch) bool {
	if l.cfg.FsyncMode != FsyncOnCommit || !j.wanted() {
		return false
	}
	w := &l.mu.active
	if int64(len(b.buf)) > min(journalBatchMax, j.frameMax()/2) || j.lagBytes.Load() > journalLagTotalMax || w.reserve.backed < b.end() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return w.synced >= segmentBegins && w.durableSize() == b.pos && w.lag.bytes() <= journalLagMax
}

func (j *commitJournal) ready() bool { return j.state.Load() == journalReady }

// wanted counts a commit and has the files made when it is time for that. A journal
// that broke still wants its batches: it refuses them, until their log is poisoned.
func (j *commitJournal) wanted() bool {
	switch j.state.Load() {
	case journalReady, journalBroken:
		return true
	case journalUnmade:
		if j.commits.Add(1) >= journalAfter {
			j.makeBeside()
		}
	}
	return false
}

// carry hands a batch to the journal, and the commit loop's role with it: framed goes
// on when a frame holds the batch, or none is going to. A caller that may wait leads
// when nobody does, for its own frame.
func (j *commitJournal) carry(l *Log, b *batch, mayWait bool) {
	w := &l.mu.active
	e := &l.journaled
	e.Kind, e.Shard = journal.Data, l.name
	e.Segment, e.BaseOffset, e.HeaderCRC = w.id, w.base, w.headerCRC()
	e.Position, e.First, e.Last, e.Bytes = b.pos, b.first, b.next-1, b.buf
	e.batch = b
	switch lead, err := j.stage(e); {
	case err != nil:
		l.framed(e, 0, err)
	case lead && mayWait:
		j.lead(e)
	case lead:
		j.store.committers.run(j.leadFn)
	}
}

// stage puts an entry into the next frame; lead says that the caller has to see to a
// leader. An error says that there will be no frame: errNoJournalRoom when the journal
// does not take the entry, any other is final for the store.
func (j *commitJournal) stage(e *journalEntry) (lead bool, err error) {
	j.mu.Lock()
	if j.state.Load() != journalReady {
		defer j.mu.Unlock()
		if j.mu.broken != nil {
			return false, j.mu.broken
		}
		return false, errNoJournalRoom
	}
	j.mu.staged = append(j.mu.staged, e)
	j.stagedCount.Store(int64(len(j.mu.staged)))
	lead = !j.mu.leading
	j.mu.leading = true
	j.mu.Unlock()
	return lead, nil
}

// lead writes frames until there is nothing to write. An appender, which leads for its
// own entry, does no longer than until that is answered.
func (j *commitJournal) lead(own *journalEntry) {
	for {
		j.last.gather(&j.stagedCount)
		entries := j.take()
		if entries == nil {
			return
		}
		waiting := j.stagedCount.Load()
		started := time.Now()
		sequence, err := j.writeFrame(entries)
		j.last.flush = time.Since(started)
		if errors.Is(err, errNoJournalRoom) {
			// Data can go to its segment; a fence has nowhere else to go.
			var fences []*journalEntry
			if fences, entries = divide(entries); len(fences) > 0 {
				fenced, err := j.writeFrame(fences)
				answer(fences, fenced, err)
			}
		}
		j.last.released = int64(len(entries)) + waiting
		mine := own != nil && slices.Contains(entries, own)
		answer(entries, sequence, err)
		j.last.at = time.Now()
		if mine {
			j.passOn()
			return
		}
	}
}

// passOn ends an appender's turn as the leader.
func (j *commitJournal) passOn() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.mu.staged) > 0 {
		j.store.committers.run(j.leadFn)
		return
	}
	j.mu.leading = false
}

// divide parts fences from data.
func divide(entries []*journalEntry) (fences, data []*journalEntry) {
	for _, e := range entries {
		if e.log == nil {
			fences = append(fences, e)
		} else {
			data = append(data, e)
		}
	}
	return fences, data
}

// answer tells those who wait for a frame what became of it.
func answer(entries []*journalEntry, sequence uint64, err error) {
	for _, e := range entries {
		if e.log == nil {
			e.done <- err // has room
		} else {
			e.log.framed(e, sequence, err)
		}
	}
}

// take gives the entries of the next frame; nil ends the leader's turn.
func (j *commitJournal) take() []*journalEntry {
	j.mu.Lock()
	defer j.mu.Unlock()
	size, frameMax := journal.HeaderBytes, j.frameMax()
	j.taken = j.taken[:0]
	for _, e := range j.mu.staged {
		if size += e.EncodedBytes(); int64(size) > frameMax && len(j.taken) > 0 {
			break
		}
		j.taken = append(j.taken, e)
	}
	rest := copy(j.mu.staged, j.mu.staged[len(j.taken):])
	clear(j.mu.staged[rest:])
	j.mu.staged = j.mu.staged[:rest]
	j.stagedCount.Store(int64(rest))
	if len(j.taken) == 0 {
		j.mu.leading = false
		return nil
	}
	return j.taken
}
