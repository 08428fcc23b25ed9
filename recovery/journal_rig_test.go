package recovery

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/internal/simdisk"
	"felix.local/felix/journal"
	"felix.local/felix/segment"
)

const (
	testRoot  = "/data"
	shardA    = "t_n_orders_0-00000000000000aa"
	shardB    = "t_n_orders_1-00000000000000bb"
	oldEpoch  = 0x0102030405060708
	nextEpoch = 0x1112131415161718
	// journalBlocks is the size of each of the two data files.
	journalBlocks = 8
)

// journaled is a root with a journal, on a disk that can lose power.
type journaled struct {
	t testing.TB
	d *simdisk.Disk
	// frames are what is put into the two data files.
	frames [2][]byte
}

func newJournaled(t testing.TB) *journaled {
	j := &journaled{t: t, d: simdisk.New()}
	j.d.MakeDir(testRoot + "/" + journal.DirName)
	return j
}

func simDisk(d *simdisk.Disk) Disk {
	return Disk{FS: d, Queue: d.NewQueue(simdisk.QueueOptions{})}
}

func (j *journaled) must(err error) {
	j.t.Helper()
	if err != nil {
		j.t.Fatal(err)
	}
}

// put makes a file below the root, durably.
func (j *journaled) put(name string, b []byte) {
	j.t.Helper()
	path := testRoot + "/" + name
	disk := simDisk(j.d)
	j.d.MakeDir(filepath.Dir(path))
	f, err := j.d.OpenFile(path, device.OpenOrCreate, 0o640)
	j.must(err)
	j.must(f.Truncate(0))
	if len(b) > 0 {
		j.must(disk.writeAndFlush(f, b, 0))
	}
	j.must(disk.flush(f))
	j.must(f.Close())
	j.must(disk.flushDir(filepath.Dir(path)))
}

func (j *journaled) segment(shard string, id uint64, b []byte) {
	j.t.Helper()
	j.put(shard+"/"+segment.LogName(id), b)
}

func (j *journaled) mark(shard string, id uint64, synced int) {
	j.t.Helper()
	j.put(shard+"/"+MarkName, Mark{Segment: id, Synced: int64(synced)}.AppendTo(nil))
}

// records is an entry of the records [from, to) of a segment as segmentBytes makes
// it.
func records(shard string, id uint64, b []byte, from, to int) journal.Entry {
	h, err := segment.DecodeHeader(b)
	if err != nil {
		panic(err)
	}
	return journal.Entry{
		Kind: journal.Data, Shard: shard, Segment: id, BaseOffset: h.BaseOffset,
		HeaderCRC: journal.Checksum(b[:segment.HeaderSize]), Position: int64(at(from)),
		First: h.BaseOffset + uint64(from), Last: h.BaseOffset + uint64(to) - 1, Bytes: b[at(from):at(to)],
	}
}

func fenceOff(shard string, through uint64) journal.Entry {
	return journal.Entry{Kind: journal.Fence, Shard: shard, Segment: through}
}

func sealed(epoch, sequence, oldest uint64, entries ...journal.Entry) []byte {
	b := make([]byte, journal.HeaderBytes)
	for i := range entries {
		b = journal.AppendEntry(b, &entries[i])
	}
	return journal.Seal(b, journal.Header{Epoch: epoch, Sequence: sequence, OldestNeeded: oldest, Entries: uint32(len(entries))})
}

// frame adds a frame of the epoch to a data file.
func (j *journaled) frame(file int, sequence, oldest uint64, entries ...journal.Entry) {
	j.frames[file] = append(j.frames[file], sealed(oldEpoch, sequence, oldest, entries...)...)
}

// commit puts the journal's files there, unless the case has its own.
func (j *journaled) commit() {
	j.t.Helper()
	for n, b := range j.frames {
		j.putJournal(journal.FileName(n), append(bytes.Clone(b), make([]byte, journalBlocks*journal.BlockBytes-len(b))...))
	}
	j.putJournal(journal.CurrentName, testCurrent().AppendTo(nil))
}

func testCurrent() journal.Current {
	return journal.Current{Epoch: oldEpoch, Files: 2, FileBytes: journalBlocks * journal.BlockBytes}
}

func (j *journaled) putJournal(name string, b []byte) {
	j.t.Helper()
	path := journal.DirName + "/" + name
	if _, err := j.d.Lstat(testRoot + "/" + path); device.IsNotExist(err) {
		j.put(path, b)
	}
}

// files gives all files below the root. A temporary name of the journal's is left
// out: the engine clears it away.
func files(t testing.TB, d device.FS) map[string]string {
	t.Helper()
	found := make(map[string]string)
	var walk func(dir string)
	walk = func(dir string) {
		entries, err := d.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			path := dir + "/" + e.Name
			if e.Type.IsDir() {
				walk(path)
				continue
			}
			b, err := simdisk.ReadFile(d, path)
			if err != nil {
				t.Fatal(err)
			}
			found[strings.TrimPrefix(path, testRoot+"/")] = string(b)
		}
	}
	walk(testRoot)
	delete(found, journal.DirName+"/"+journal.CurrentName+".tmp")
	return found
}

// same says how two sets of files differ; empty when they do not.
func same(want, got map[string]string) string {
	names := slices.Concat(slices.Collect(maps.Keys(want)), slices.Collect(maps.Keys(got)))
	slices.Sort(names)
	var b strings.Builder
	for _, name := range slices.Compact(names) {
		w, inWant := want[name]
		g, inGot := got[name]
		if w != g || inWant != inGot {
			fmt.Fprintf(&b, "%s: want %d bytes (%v), got %d (%v), alike up to %d\n", name, len(w), inWant, len(g), inGot, equalBytes([]byte(w), []byte(g)))
		}
	}
	return b.String()
}

// shards are the directories below the root that hold segments.
func shards(t testing.TB, d device.FS) []string {
	t.Helper()
	var list []string
	for name := range files(t, d) {
		if dir := filepath.Dir(name); dir != journal.DirName && !slices.Contains(list, dir) {
			list = append(list, dir)
		}
	}
	slices.Sort(list)
	return list
}
