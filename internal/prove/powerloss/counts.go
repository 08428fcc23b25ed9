package powerloss

import (
	"errors"

	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
	"felix.local/felix/sidecar"
)

// Counts say what was done and what was found.
type Counts struct {
	Workloads int
	// Images were opened and checked. Midway of them were taken in the middle of
	// something, Deaths are of a process death.
	Images, Midway, Deaths int
	// Acked records were acknowledged; Read ones were got by readers beside that.
	Acked, Read int
	// Whole images held everything appended, Short ones less, within what is
	// allowed. Refused ones were not opened, or not to be used; Lost ones lacked
	// records.
	Whole, Short, Refused, Lost int
	// CutAgain counts the images that lost power again once open, RecoveriesCut
	// the power losses in front of a change of opening, Extended the images that
	// were appended to and opened again.
	CutAgain, RecoveriesCut, Extended int
	// Repaired counts the logs that had bytes cut off when an image was opened,
	// Abandoned those with a segment set aside or removed.
	Repaired, Abandoned int
	// Later counts the images of a log that began later than it was made.
	Later int

	// Poisoned workloads ended with a failed sync; Reopened and Truncated count
	// what was done to the logs that were crashed, BasesMovedBack the truncations
	// at or below where a log began, Reset and Restored what their names say,
	// Accepted the leaders, Shipped the records got from leaders, Deleted the
	// deletions of a stream or of a shard alone.
	Poisoned, Reopened, Truncated, BasesMovedBack int
	Reset, Restored, Accepted, Shipped, Deleted   int
	// Trimmed counts the calls that let go of records.
	Trimmed int
	// IDsKept counts the images whose storage id vouches for all that was
	// acknowledged, IDsMade those that got a new one.
	IDsKept, IDsMade int
	// Rolls of the logs that were crashed, and RollsBackground of them; Retained
	// counts the segments that retention deleted.
	Rolls, RollsBackground, Retained uint64
	Flushes, DsyncWrites, DirFlushes uint64
	// Entries of Frames were committed by the journal; Checkpoints brought segments
	// up to it. JournalFull counts the batches that found no file of it free,
	// Replayed the entries that images held.
	Entries, Frames, Checkpoints, JournalFull, Replayed uint64
}

func (c *Counts) add(o Counts) {
	c.Workloads += o.Workloads
	c.Images += o.Images
	c.Midway += o.Midway
	c.Deaths += o.Deaths
	c.Acked += o.Acked
	c.Read += o.Read
	c.Whole += o.Whole
	c.Short += o.Short
	c.Refused += o.Refused
	c.Lost += o.Lost
	c.CutAgain += o.CutAgain
	c.RecoveriesCut += o.RecoveriesCut
	c.Extended += o.Extended
	c.Repaired += o.Repaired
	c.Abandoned += o.Abandoned
	c.Later += o.Later
	c.Poisoned += o.Poisoned
	c.Reopened += o.Reopened
	c.Truncated += o.Truncated
	c.BasesMovedBack += o.BasesMovedBack
	c.Reset += o.Reset
	c.Restored += o.Restored
	c.Accepted += o.Accepted
	c.Shipped += o.Shipped
	c.Deleted += o.Deleted
	c.Trimmed += o.Trimmed
	c.IDsKept += o.IDsKept
	c.IDsMade += o.IDsMade
	c.Rolls += o.Rolls
	c.RollsBackground += o.RollsBackground
	c.Retained += o.Retained
	c.Flushes += o.Flushes
	c.DsyncWrites += o.DsyncWrites
	c.DirFlushes += o.DirFlushes
	c.Entries += o.Entries
	c.Frames += o.Frames
	c.Checkpoints += o.Checkpoints
	c.JournalFull += o.JournalFull
	c.Replayed += o.Replayed
}

// addLife counts what one life of the crashed store did, on a disk that had
// counted before and counts now.
func (c *Counts) addLife(s engine.StoreStats, before, now simdisk.Counts) {
	c.Rolls += s.Rolls
	c.RollsBackground += s.RollsBackground
	c.Retained += s.RetentionSegments
	c.Entries += s.JournalEntries
	c.Frames += s.JournalFrames
	c.Checkpoints += s.JournalCheckpoints
	c.JournalFull += s.JournalFull
	c.Flushes += now.Flushes - before.Flushes
	c.DsyncWrites += now.DsyncWrites - before.DsyncWrites
	c.DirFlushes += now.DirFlushes - before.DirFlushes
}

// addRecoveries counts what opening an image did.
func (c *Counts) addRecoveries(logs []*engine.Log) {
	for _, l := range logs {
		r := l.Recovery()
		if r.TruncatedBytes > 0 {
			c.Repaired++
		}
		if r.AbandonedRolls > 0 {
			c.Abandoned++
		}
	}
}

// addIdentity counts whether an image kept its storage id.
func (c *Counts) addIdentity(i image, now sidecar.StorageID) {
	switch {
	case i.id == nil:
	case *i.id == now:
		c.IDsKept++
	default:
		c.IDsMade++
	}
}

// count notes the verdict on an image that held what was served.
func (c *Counts) count(i image, served []span, err error) {
	c.Images++
	if i.death {
		c.Deaths++
	}
	whole, later := true, false
	for s, found := range served {
		whole = whole && found.tail == i.expect[s].written
		later = later || found.base > i.expect[s].start
	}
	if later {
		c.Later++
	}
	switch {
	case errors.Is(err, errLost):
		c.Lost++
	case err != nil:
		c.Refused++
	case whole:
		c.Whole++
	default:
		c.Short++
	}
}
