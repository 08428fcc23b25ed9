package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/producer"
	"felix.local/felix/recovery"
	"felix.local/felix/sidecar"
)

// sidecarEvent says what a small file holds, and what an open makes of it.
type sidecarEvent struct {
	Dir  string `json:"dir"`
	File string `json:"file"`
	// Version is 0 where the file has none, or it cannot be told.
	Version uint16 `json:"version"`
	// Content is the file in one line; empty when it cannot be read.
	Content string `json:"content"`
	// Used says that an open goes by it. Reason says why not, or what follows.
	Used   bool   `json:"used"`
	Reason string `json:"reason"`
	// Refuses says that an open is refused because of it.
	Refuses bool `json:"refuses"`
}

func (sidecarEvent) kind() string { return "sidecar" }

func (e sidecarEvent) text() string {
	s := "  " + e.File
	if e.Version > 0 {
		s += fmt.Sprintf(" (version %d)", e.Version)
	}
	if e.Content != "" {
		s += ": " + e.Content
	}
	switch {
	case e.Refuses:
		s += "; opening REFUSES: " + e.Reason
	case !e.Used:
		s += "; not used: " + e.Reason
	case e.Reason != "":
		s += "; " + e.Reason
	}
	return s
}

// judged is what a reader of one kind of file makes of it; "" for what there is
// nothing to say about.
type judged struct {
	content, unused, follows string
	version                  uint16
	// refuses says that a file which cannot be read refuses the open.
	refuses bool
	err     error
}

func (j judged) event(dir, file string) sidecarEvent {
	e := sidecarEvent{Dir: dir, File: file, Version: j.version, Content: j.content, Used: true, Reason: j.follows}
	switch {
	case j.err != nil:
		e.Used, e.Reason, e.Refuses = false, j.err.Error(), j.refuses
		if j.unused != "" {
			e.Reason += "; " + j.unused
		}
	case j.unused != "":
		e.Used, e.Reason = false, j.unused
	}
	return e
}

// shardSidecars judges the small files of a shard's directory, which plan is about.
func shardSidecars(disk device.FS, dir string, plan *recovery.Plan) []sidecarEvent {
	var events []sidecarEvent
	for _, file := range []struct {
		name  string
		judge func() judged
	}{
		{recovery.MarkName, func() judged { return judgeMark(disk, dir) }},
		{sidecar.EpochsName, func() judged { return judgeEpochs(disk, dir, plan) }},
		{sidecar.ReplicaName, func() judged { return judgeReplica(disk, dir) }},
		{sidecar.BallotName, func() judged { return judgeBallot(disk, dir) }},
		{engine.ProducersName, func() judged { return judgeProducers(disk, dir, plan) }},
		{sidecar.OffloadName, func() judged { return judgeOffload(disk, dir, plan) }},
		{sidecar.KeysIndexName, func() judged { return judgeKeysIndex(disk, dir, plan) }},
	} {
		if _, err := os.Lstat(filepath.Join(dir, file.name)); errors.Is(err, os.ErrNotExist) {
			continue
		}
		j := file.judge()
		if j.version == 0 {
			j.version = versionOf(disk, dir, file.name)
		}
		events = append(events, j.event(dir, file.name))
	}
	return events
}

// versionOf is the number behind the magic, which all framed files begin with.
func versionOf(disk device.FS, dir, name string) uint16 {
	file, err := disk.OpenFile(filepath.Join(dir, name), device.ReadOnly, 0)
	if err != nil {
		return 0
	}
	defer file.Close() // it was read only
	var head [6]byte
	if _, err := file.ReadAt(head[:], 0); err != nil {
		return 0
	}
	return binary.BigEndian.Uint16(head[4:])
}

// tailOf is where the log ends once it is open; false for one that is refused.
func tailOf(plan *recovery.Plan) (base, tail uint64, ok bool) {
	if plan.Refused() {
		return 0, 0, false
	}
	base = plan.Active.BaseOffset
	if len(plan.Sealed) > 0 {
		base = plan.Sealed[0].BaseOffset
	}
	return base, plan.Active.NextOffset, true
}

// damagedOr judges a file that is passed over when it is damaged: unused says what
// follows then. One that cannot be read at all refuses the open.
func damagedOr(err error, unused string) judged {
	var damaged *sidecar.DecodeError
	if err != nil && !errors.As(err, &damaged) {
		return judged{err: err, refuses: true}
	}
	return judged{err: err, unused: unused}
}

// judgeMark reads as much of the mark as an open does, which ignores what follows.
func judgeMark(disk device.FS, dir string) judged {
	file, err := disk.OpenFile(filepath.Join(dir, recovery.MarkName), device.ReadOnly, 0)
	if err != nil {
		return judged{err: err, refuses: true}
	}
	defer file.Close() // it was read only
	var b [recovery.MarkBytes]byte
	n, err := file.ReadAt(b[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return judged{err: err, refuses: true}
	}
	m, whole := recovery.DecodeMark(b[:n])
	if !whole {
		return judged{unused: "it is damaged and counts as none: the strict rules apply"}
	}
	return judged{content: fmt.Sprintf("segment %d is durable through byte %d, earlier ones wholly", m.Segment, m.Synced)}
}

func judgeEpochs(disk device.FS, dir string, plan *recovery.Plan) judged {
	epochs, err := sidecar.LoadEpochs(disk, dir)
	if err != nil || epochs == nil {
		return damagedOr(err, "the history counts as empty")
	}
	entries := epochs.Entries()
	j := judged{content: fmt.Sprintf("%d generations", len(entries))}
	if newest, ok := epochs.Newest(); ok {
		j.content += fmt.Sprintf(", the newest is %d from offset %d on", newest.Generation, newest.Start)
	}
	if _, tail, ok := tailOf(plan); ok {
		kept := *epochs
		if kept.DropPast(tail) {
			j.follows = fmt.Sprintf("%d of them begin past the tail %d and go", len(entries)-len(kept.Entries()), tail)
		}
	}
	return j
}

func judgeReplica(disk device.FS, dir string) judged {
	r, err := sidecar.LoadReplica(disk, dir)
	if err != nil || r == nil {
		return judged{err: err, refuses: true}
	}
	j := judged{content: fmt.Sprintf("generation %d, commit offset %d", r.Generation, r.Commit)}
	if r.RetentionHeld {
		j.content += ", retention is held"
	}
	return j
}

func judgeBallot(disk device.FS, dir string) judged {
	b, err := sidecar.LoadBallot(disk, dir)
	if err != nil || b == nil {
		return judged{err: err, refuses: true}
	}
	j := judged{content: fmt.Sprintf("generation %d, leader %q", b.Generation, b.Leader)}
	if b.GivenUp() {
		j.content = fmt.Sprintf("generation %d, given up", b.Generation)
	}
	replica, err := sidecar.LoadReplica(disk, dir)
	switch {
	case err != nil:
	case replica != nil && b.Generation < replica.Generation:
		j.unused = fmt.Sprintf("replica is at generation %d already", replica.Generation)
	case replica == nil || b.Generation > replica.Generation:
		j.follows = "it is ahead of replica, and its generation counts"
	}
	return j
}

func judgeProducers(disk device.FS, dir string, plan *recovery.Plan) judged {
	const rebuilt = "the state is rebuilt from the records and the file goes"
	b, err := sidecar.Read(disk, dir, engine.ProducersName, producer.SnapshotBytesMax)
	if err != nil {
		return judged{err: err, unused: rebuilt}
	}
	state, asOf, err := producer.Decode(b, producer.Options{Digests: true})
	if err != nil {
		return judged{err: err, unused: rebuilt}
	}
	j := judged{content: fmt.Sprintf("%d producers as of offset %d", state.Len(), asOf)}
	if base, tail, ok := tailOf(plan); ok {
		begins := asOf == tail || asOf == plan.Active.BaseOffset
		for _, d := range plan.Sealed {
			begins = begins || d.BaseOffset == asOf
		}
		if !producer.Usable(asOf, base, tail) || !begins {
			j.unused = fmt.Sprintf("no segment of the log [%d, %d) begins there; %s", base, tail, rebuilt)
		}
	}
	return j
}

// judgeOffload tells of copies past the tail as well, which no crash leaves.
func judgeOffload(disk device.FS, dir string, plan *recovery.Plan) judged {
	o, err := sidecar.LoadOffload(disk, dir)
	if err != nil || o == nil {
		return judged{err: err, refuses: true}
	}
	copies := o.Copies()
	j := judged{content: fmt.Sprintf("%d segments have a copy", len(copies))}
	if len(copies) == 0 {
		return j
	}
	newest := copies[len(copies)-1].Last
	j.content += fmt.Sprintf(", the first from offset %d on, the last up to %d", copies[0].First, newest)
	j.follows = "this build makes no copies and reads none"
	if _, tail, ok := tailOf(plan); ok && newest >= tail {
		j.follows += fmt.Sprintf("; there are copies past the tail %d: records are missing, or the file is of another log", tail)
	}
	return j
}

// judgeKeysIndex judges what an open leaves or removes.
func judgeKeysIndex(disk device.FS, dir string, plan *recovery.Plan) judged {
	if plan.Refused() {
		index, err := sidecar.LoadKeysIndex(disk, dir)
		return judgedKeys(index, err)
	}
	segments := append(slices.Clone(plan.Sealed), plan.Active)
	return judgedKeys(engine.CheckKeysIndex(disk, dir, segments))
}

func judgedKeys(index *sidecar.KeysSummary, problem error) judged {
	j := judged{err: problem, unused: "this build keeps no caches; it is left alone"}
	if index != nil {
		j.content = fmt.Sprintf("%d keys, of the records below offset %d", index.Entries, index.CoveredThrough)
	}
	if problem != nil {
		j.unused = "the cache reads its whole log, and the file goes"
	}
	return j
}

// rootSidecars judges the small files of a root; none when it is none.
func rootSidecars(disk device.FS, root string) ([]sidecarEvent, error) {
	var events []sidecarEvent
	for _, file := range []struct {
		name  string
		judge func() judged
	}{
		{sidecar.StorageIDName, func() judged { return judgeStorageID(disk, root) }},
		{sidecar.RunStateName, func() judged { return judgeRunState(disk, root) }},
		{sidecar.RegistrationName, func() judged { return judgeRegistration(disk, root) }},
		{sidecar.NodeIDName, func() judged { return judgeNodeID(disk, root) }},
	} {
		_, err := os.Lstat(filepath.Join(root, file.name))
		absent := errors.Is(err, os.ErrNotExist)
		if absent && (file.name != sidecar.StorageIDName || !isRoot(root) && !holdsShards(root)) {
			continue
		}
		j := file.judge()
		if file.name != sidecar.NodeIDName { // which is plain text
			j.version = versionOf(disk, root, file.name)
		}
		events = append(events, j.event(root, file.name))
	}
	for _, part := range []engine.SubRoot{engine.StreamShards, engine.CacheShards} {
		names, err := markerNames(part.Dir(root))
		if err != nil {
			return events, err
		}
		for _, name := range names {
			j := judgeMarker(disk, part.Dir(root), name)
			if part == engine.CacheShards && j.err == nil {
				j.unused, j.follows = "this build keeps no caches; it is left alone", ""
			}
			events = append(events, j.event(filepath.Join(part.Dir(root), sidecar.MarkersDir), name))
		}
	}
	return events, nil
}

// holdsShards says that a directory has a shard right below it.
func holdsShards(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && !holdsLog(entries) && slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		if !e.IsDir() || isHidden(e) {
			return false
		}
		below, err := os.ReadDir(filepath.Join(dir, e.Name()))
		return err == nil && holdsLog(below)
	})
}

// leftByRestore is the file that a restore which did not finish left in a root; none
// when there is none.
func leftByRestore(disk device.FS, root string) []sidecarEvent {
	_, err := engine.InspectIdentity(disk, root, 0)
	var refused *engine.IdentityError
	if !errors.As(err, &refused) || filepath.Base(refused.Path) != engine.RestoringName {
		return nil
	}
	return []sidecarEvent{judged{err: err, refuses: true}.event(root, engine.RestoringName)}
}

// judgeStorageID tells what becomes of the id: the verdict of all files of a root
// stands with it.
func judgeStorageID(disk device.FS, root string) judged {
	id, err := sidecar.LoadStorageID(disk, root)
	j := judged{err: err, refuses: true}
	if id != nil {
		j.content = id.String()
	}
	report, refused := engine.InspectIdentity(disk, root, 0)
	switch {
	case refused == nil && report.NewID:
		j.unused = "the next start makes a new id: " + report.Reason
	case err == nil && id == nil:
		j.unused = "there is none; a start that is not refused makes a new id"
	}
	return j
}

func judgeRunState(disk device.FS, root string) judged {
	run, err := sidecar.LoadRunState(disk, root)
	if err != nil || run == nil {
		return damagedOr(err, "the worst is taken for granted")
	}
	return judged{content: fmt.Sprintf("%s, acknowledges before it syncs: %v, under id %v", run.State, run.AcksBeforeSync, run.ID)}
}

func judgeRegistration(disk device.FS, root string) judged {
	registration, err := sidecar.LoadRegistration(disk, root)
	if err != nil || registration == nil {
		return damagedOr(err, "it counts as none")
	}
	return judged{content: fmt.Sprintf("incarnation %d of the node", registration.Incarnation)}
}

func judgeNodeID(disk device.FS, root string) judged {
	node, err := sidecar.LoadNodeID(disk, root)
	switch {
	case err != nil:
		return judged{err: err, unused: "offloading is refused"}
	case node == "":
		return judged{unused: "it is empty, and a new one is made at its first use"}
	default:
		return judged{content: string(node)}
	}
}

func markerNames(root string) (names []string, err error) {
	entries, err := os.ReadDir(filepath.Join(root, sidecar.MarkersDir))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if e.Type().IsRegular() && filepath.Ext(e.Name()) == "" {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, err
}

func judgeMarker(disk device.FS, root, name string) judged {
	m, err := sidecar.LoadMarker(disk, root, name)
	if err != nil || m == nil {
		return judged{err: err, unused: "its stream is refused, others are served"}
	}
	j := judged{version: 1, content: fmt.Sprintf("incarnation %d, deleted through %d", m.Incarnation, m.DeletedThrough)}
	if m.Deleting {
		j.follows = "a deletion is unfinished"
	}
	return j
}
