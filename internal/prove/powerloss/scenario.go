package powerloss

import (
	"fmt"
	"log/slog"
	"time"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
)

// Kind is what a workload is about.
type Kind string

// The kinds.
const (
	// Appends crashes a log that is appended to, at rest and midway.
	Appends Kind = "appends"
	// RecoveryCut also crashes the opening of every image in front of each of its
	// changes.
	RecoveryCut Kind = "recovery cut short"
	// FailedSync fails a flush or dsync write, with the page cache showing the
	// lost bytes and without.
	FailedSync Kind = "failed sync"
	// Truncation crashes a truncation in front of each of its changes.
	Truncation Kind = "truncation"
	// Retention crashes a log while its oldest segments are removed.
	Retention Kind = "retention"
	// Reopening crashes a log that is closed and opened, truncated, sealed and
	// trimmed, and goes on.
	Reopening Kind = "reopening"
	// Identity crashes a store while it starts and while it stops.
	Identity Kind = "identity"
	// Deletion crashes a stream that is deleted and created again.
	Deletion Kind = "deletion"
	// Replica crashes a log whose leaders change.
	Replica Kind = "replica"
	// Resets crashes a replica that is truncated, restored and reset.
	Resets Kind = "reset and restore"
	// Publishers crashes several shards that many append to and read from at once.
	// It runs in real time: the pause in which a batch gathers has a bound in time
	// and yields, and in a bubble no time passes while it does.
	Publishers Kind = "publishers"
	// Sharing crashes shards that share the files of a commit journal, which are written
	// over again and again while one of the shards is trimmed, truncated, sealed, reset
	// or deleted.
	Sharing Kind = "sharing a journal"
)

// Kinds are all kinds.
func Kinds() []Kind {
	return []Kind{Appends, RecoveryCut, FailedSync, Truncation, Retention, Reopening, Identity, Deletion, Replica, Resets, Publishers, Sharing}
}

// work is what a workload of this kind does.
func (k Kind) work() (work func(*workload) error, known bool) {
	switch k {
	case Appends:
		return (*workload).appends, true
	case RecoveryCut:
		return (*workload).recoveries, true
	case FailedSync:
		return (*workload).failedSyncs, true
	case Truncation:
		return (*workload).truncation, true
	case Retention:
		return (*workload).retention, true
	case Reopening:
		return (*workload).reopening, true
	case Identity:
		return (*workload).identities, true
	case Deletion:
		return (*workload).deletions, true
	case Replica:
		return (*workload).replicas, true
	case Resets:
		return (*workload).resets, true
	case Publishers:
		return (*workload).publishers, true
	case Sharing:
		return (*workload).sharing, true
	}
	return nil, false
}

// runsOn: the faults of a sync are a simulated disk's.
func (k Kind) runsOn(h Host) bool { return h == Simulated || k != FailedSync }

// scenario is one way to run a workload.
type scenario struct {
	kind      Kind
	mode      engine.FsyncMode
	threshold int // of a roll; 100 rolls inline only
	writeback simdisk.Writeback
	// journaled logs commit through a journal where it takes what they append.
	journaled bool
}

// The thresholds of a roll.
const (
	inlineRolls     = 100
	backgroundRolls = 60
)

// scenarios are the rows of some kinds. Those with a journal have pages in any order,
// which includes those in order.
func scenarios(kinds []Kind) []scenario {
	var list []scenario
	for _, kind := range kinds {
		for _, threshold := range []int{inlineRolls, backgroundRolls} {
			list = append(list, scenario{kind, engine.FsyncOnCommit, threshold, simdisk.AnySubset, true})
		}
		if kind == Sharing {
			continue
		}
		for _, mode := range []engine.FsyncMode{engine.FsyncOnCommit, engine.FsyncPeriodic, engine.FsyncNone} {
			for _, threshold := range []int{inlineRolls, backgroundRolls} {
				for _, order := range []simdisk.Writeback{simdisk.InOrder, simdisk.AnySubset} {
					list = append(list, scenario{kind, mode, threshold, order, false})
				}
			}
		}
	}
	return list
}

func (s scenario) rolls() string {
	return map[int]string{inlineRolls: "inline", backgroundRolls: "background"}[s.threshold]
}

func (s scenario) pages() string {
	return map[simdisk.Writeback]string{simdisk.InOrder: "in order", simdisk.AnySubset: "in any order"}[s.writeback]
}

// String is the name of a row.
func (s scenario) String() string {
	mode := s.mode.String()
	if s.journaled {
		mode += " by a journal"
	}
	return fmt.Sprintf("%s, %s, %s rolls, pages %s", s.kind, mode, s.rolls(), s.pages())
}

// segmentBytes is three pages and a bit, so that a segment's end tears a page.
const segmentBytes = 3*4096 + 700

// The intervals of timers have no common multiple within a workload: two that tick
// at the same moment of a bubble would run in an order that no seed decides.
const (
	fsyncInterval     = 2003 * time.Microsecond
	markSyncInterval  = 1009 * time.Millisecond
	retentionInterval = 14983 * time.Microsecond
)

func (s scenario) config(fs device.FS, queue device.Queue) engine.Config {
	c := engine.DefaultConfig()
	c.FsyncMode, c.FsyncInterval, c.MarkSyncInterval = s.mode, fsyncInterval, markSyncInterval
	c.SegmentBytes, c.IndexSpacingBytes = segmentBytes, 512
	c.RolloverThresholdPercent, c.MaxOvershootPercent = s.threshold, 200
	c.MinFreeBytes, c.MinFreeInodes = 0, 0
	c.Logger = slog.New(slog.DiscardHandler)
	c.FS, c.Queue = fs, queue
	c.Journal = engine.JournalOff
	if s.journaled {
		c.Journal, c.JournalBytes = engine.JournalRequire, engine.JournalBytesMin
	}
	if s.kind == Sharing {
		c.SegmentBytes = sharingSegmentBytes
	}
	return c
}

// shardKey names the shards of a store, from 0 on.
func shardKey(shard int) engine.ShardKey {
	return engine.ShardKey{Tenant: "t", Namespace: "n", Stream: "s", Shard: uint32(shard)}
}
