package recovery

import (
	"fmt"
	"strings"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/segment"

	"github.com/google/go-cmp/cmp"
)

// changes opens a directory and lists what was asked of the disk, in order. Tests
// run one operation at a time, so the order of the calls is the order of the
// effects.
func (s *shard) changes(p Policy) string {
	s.t.Helper()
	disk := faultdisk.New(device.OS(), inline{}, faultdisk.Options{})
	if _, err := Open(Disk{FS: disk.FS(), Queue: disk.Queue()}, s.dir, "orders/0", p); err != nil {
		s.t.Fatal(err)
	}
	var lines []string
	for _, e := range disk.Log(faultdisk.Changes | faultdisk.DropCache) {
		lines = append(lines, e.String())
	}
	return strings.Join(lines, "\n") + "\n"
}

func TestOrderOfRecovery(t *testing.T) {
	log := segment.LogName
	torn := sideCopyName(0, testPolicy().NowMicros())
	// What every open begins and ends with: nothing behind the end of a file stays when
	// that is flushed. The parent is flushed because the
	// directory's own name may not be durable yet.
	settle := func(id uint64, size, drop int) string {
		return fmt.Sprintf("truncate %s %d\nflush %s\ndrop_cache %s %d\n", log(id), size, log(id), log(id), drop)
	}
	// What the mark vouches for is trimmed alone: it may be the one to grow.
	trim := func(id uint64, size int) string {
		return fmt.Sprintf("truncate %s %d\nflush %s\n", log(id), size, log(id))
	}
	const parent, directory = "flush_dir %s\n", "flush_dir shard\n"
	const mark = "write_dsync durable.mark 0+32\n"
	for _, c := range []struct {
		name  string
		setup func(*shard)
		want  string
	}{
		{
			"a clean log is flushed, then its directory, then its mark", func(s *shard) { s.sealed(3); s.mark(2, at(5)) },
			settle(2, at(5), at(5)) + trim(1, at(5)) + parent + directory + mark,
		},
		{
			"below a blank newest segment the one that grows is trimmed, though the mark vouches for it",
			func(s *shard) { s.sealed(3); s.write(log(3), nil); s.mark(2, at(5)) },
			settle(3, 0, 0) + trim(2, at(5)) + parent +
				"remove " + log(3) + "\n" + directory + "remove " + segment.IndexName(3) + " failed\n" + directory + mark,
		},
		{
			"without a mark the segment before the newest one is flushed as well, and the mark's name is made durable before its content",
			func(s *shard) { s.sealed(3) },
			settle(2, at(5), 0) + settle(1, at(5), 0) + parent + "create durable.mark\n" + directory + mark,
		},
		{
			"a segment before the newest one that the mark does not vouch for is flushed, from the mark on",
			func(s *shard) { s.sealed(3); s.mark(1, at(2)) },
			settle(2, at(5), 0) + settle(1, at(5), at(2)) + parent + directory + mark,
		},
		{
			"a blank newest segment does not hide the two before it", func(s *shard) { s.sealed(3); s.write(log(3), nil); s.mark(1, 0) },
			settle(3, 0, 0) + settle(2, at(5), 0) + settle(1, at(5), 0) + parent +
				"remove " + log(3) + "\n" + directory + "remove " + segment.IndexName(3) + " failed\n" + directory + mark,
		},
		{
			"the copy and its name are durable before the cut, and the cut before anything else",
			func(s *shard) { s.put(0, segmentBytes(0, 3)[:at(2)+9]); s.mark(0, 32) },
			settle(0, at(2)+9, 32) + parent +
				"create " + torn + "\nwrite " + torn + " 0+9\ntruncate " + torn + " 9\nflush " + torn + "\n" + directory +
				fmt.Sprintf("truncate %s %d\nflush %s\n", log(0), at(2), log(0)) + directory + mark,
		},
		{
			"the mark moves back before bytes that it vouches for are cut",
			func(s *shard) { s.put(0, segmentBytes(0, 3)[:at(2)+9]); s.mark(0, at(3)) },
			settle(0, at(2)+9, at(2)+9) + parent + mark +
				"create " + torn + "\nwrite " + torn + " 0+9\ntruncate " + torn + " 9\nflush " + torn + "\n" + directory +
				fmt.Sprintf("truncate %s %d\nflush %s\n", log(0), at(2), log(0)) + directory + mark,
		},
		{
			"what follows a retired segment goes, durably, before that one is cut",
			func(s *shard) { s.put(0, segmentBytes(0, 3)[:at(2)+9]); s.put(1, segmentBytes(3, 1)); s.mark(0, 32) },
			settle(1, at(1), 0) + settle(0, at(2)+9, 32) + parent +
				"rename " + log(1) + " " + sideCopyName(1, testPolicy().NowMicros()) + "\n" + directory + "remove " + segment.IndexName(1) + "\n" +
				"create " + torn + "\nwrite " + torn + " 0+9\ntruncate " + torn + " 9\nflush " + torn + "\n" + directory +
				fmt.Sprintf("truncate %s %d\nflush %s\n", log(0), at(2), log(0)) + directory + mark,
		},
		{
			"segments are unlinked newest first, each durably before the next",
			func(s *shard) { s.sealed(1); s.put(1, headerBytes(9)); s.put(2, headerBytes(9)); s.mark(0, at(5)) },
			settle(2, at(0), 0) + settle(1, at(0), 0) + trim(0, at(5)) + parent +
				"remove " + log(2) + "\n" + directory + "remove " + segment.IndexName(2) + "\n" +
				"remove " + log(1) + "\n" + directory + "remove " + segment.IndexName(1) + "\n" + directory + mark,
		},
		{
			"a fresh log has its header durable before its name, and its directory before both",
			func(*shard) {},
			"mkdir shard\n" + parent + "create " + log(0) + "\nwrite_dsync " + log(0) + " 0+32\n" +
				"create " + segment.IndexName(0) + "\ntruncate " + segment.IndexName(0) + " 0\nwrite " + segment.IndexName(0) + " 0+24\n" + directory +
				"create durable.mark\n" + directory + mark,
		},
		{
			"an index is emptied, written and flushed", func(s *shard) { s.sealed(1); s.remove(segment.IndexName(0)); s.mark(0, at(5)) },
			settle(0, at(5), at(5)) + parent + "create " + segment.IndexName(0) + "\ntruncate " + segment.IndexName(0) + " 0\n" +
				"write " + segment.IndexName(0) + " 0+56\nflush " + segment.IndexName(0) + "\n" + directory + mark,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShard(t)
			c.setup(s)
			want := strings.ReplaceAll(c.want, parent, "flush_dir PARENT\n")
			got := s.changes(testPolicy())
			got = strings.ReplaceAll(got, "flush_dir "+parentName(s), "flush_dir PARENT")
			if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func parentName(s *shard) string {
	parts := strings.Split(s.dir, "/")
	return parts[len(parts)-2]
}
