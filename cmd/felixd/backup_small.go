package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"felix.local/felix/engine"
	"felix.local/felix/recovery"
	"felix.local/felix/sidecar"
)

// promiseFiles are the small files of a shard whose order matters. Each is asked for
// by name, so that one which is made meanwhile is found:
//
//   - durable.mark, before the segments: it is written after the flush that it
//     tells of, so segments that are copied later hold what it vouches for;
//   - replica, before the segments, which hold the records below its commit offset
//     by then;
//   - ballot, after replica: a log that follows a new leader writes ballot first, so
//     a ballot that is copied later is as new as the replica or newer, and the two
//     are one promise. An older one would name nobody at the replica's generation,
//     and what is restored could follow a second leader there.
func promiseFiles() []string {
	return []string{recovery.MarkName, sidecar.ReplicaName, sidecar.BallotName}
}

// isOther: a small file whose order does not matter, as long as it is copied before
// the segments.
func isOther(name string) bool {
	return !isLogName(name) && !isIndexName(name) && !isCopyName(name) && !isTemporary(name) &&
		!slices.Contains(promiseFiles(), name) && name != sidecar.EpochsName && name != engine.ProducersName
}

// copySmall copies the small files but epochs. The snapshot of producers comes last:
// the later it is, the longer retention keeps the segment that begins where it was
// taken.
func (c *copier) copySmall(shard string, e *copiedEvent) error {
	for _, name := range promiseFiles() {
		if err := c.copyIfThere(filepath.Join(shard, name), e); err != nil {
			return err
		}
	}
	if err := c.copyEach(shard, isOther, e); err != nil {
		return err
	}
	return c.copyIfThere(filepath.Join(shard, engine.ProducersName), e)
}

// copyEpochs copies the history of generations, after the records: a generation is
// noted before its first record, so every record in the copy has its label there.
// Generations that begin past the end of the copy are left out.
func (c *copier) copyEpochs(shard string, plan *recovery.Plan, e *copiedEvent) error {
	name := filepath.Join(shard, sidecar.EpochsName)
	epochs, err := sidecar.LoadEpochs(c.fs(), filepath.Join(c.from, shard))
	_, tail, known := tailOf(plan)
	switch {
	case err == nil && epochs == nil:
		return nil
	case err != nil || !known:
		return c.copyIfThere(name, e) // as it is
	}
	epochs.DropPast(tail)
	if err := c.promised(shard, epochs); err != nil {
		return err
	}
	like, err := os.Stat(filepath.Join(c.from, name))
	if err != nil {
		return err
	}
	content := epochs.AppendTo(nil)
	return c.add(name, bytes.NewReader(content), int64(len(content)), like, e)
}

// promised says with errMoved that a leader was accepted and wrote since replica was
// copied: the copy would hold records of a generation that it has not accepted.
func (c *copier) promised(shard string, epochs *sidecar.Epochs) error {
	newest, any := epochs.Newest()
	if !any {
		return nil
	}
	then, thenErr := c.generation(filepath.Join(c.to, shard))
	now, nowErr := c.generation(filepath.Join(c.from, shard))
	err := errors.Join(thenErr, nowErr)
	var damaged *sidecar.DecodeError
	switch {
	case errors.As(err, &damaged):
		return nil // the copy is as it is, and is said to be refused
	case err == nil && then < min(now, newest.Generation):
		return errMoved
	default:
		return err
	}
}

// generation is the highest that a shard has accepted.
func (c *copier) generation(dir string) (uint64, error) {
	replica, err := sidecar.LoadReplica(c.fs(), dir)
	if err != nil {
		return 0, err
	}
	ballot, err := sidecar.LoadBallot(c.fs(), dir)
	return sidecar.Reconcile(replica, ballot).Generation, err
}

// dropUnfit takes a snapshot of producers from the copy that no segment of it begins
// at: retention took that segment before it could be copied. What it says is in the
// records as well.
func (c *copier) dropUnfit(shard string, plan *recovery.Plan, e *copiedEvent) error {
	name := filepath.Join(shard, engine.ProducersName)
	if isGone(filepath.Join(c.to, name)) || judgeProducers(c.fs(), filepath.Join(c.to, shard), plan).unused == "" {
		return nil
	}
	return c.leaveOut(name, e)
}

// copyIfThere copies a file that may not be there, or be gone meanwhile.
func (c *copier) copyIfThere(name string, e *copiedEvent) error {
	err := c.copyFile(name, wholeFile, nil, e)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// copyEach copies files of which the log can do without one that is gone meanwhile.
func (c *copier) copyEach(shard string, belongs func(string) bool, e *copiedEvent) error {
	entries, err := os.ReadDir(filepath.Join(c.from, shard))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !entry.Type().IsRegular() || !belongs(entry.Name()) {
			continue
		}
		if err := c.copyIfThere(filepath.Join(shard, entry.Name()), e); err != nil {
			return err
		}
	}
	return nil
}
