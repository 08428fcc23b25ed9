package filesystems

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// shortage is a place where something runs out.
type shortage struct {
	place
	// what runs out; uid is who writes, 0 for root.
	what string
	uid  int
	// prepare makes the place ready, after it was mounted; nil for nothing to do.
	prepare func(m *mounted)
	// squeeze leaves little, and release gives it back.
	squeeze, release func(m *mounted)
	// segmentBytes are small where names run out, not bytes.
	segmentBytes int64
	// mayPoison: undoing a write needs room as well there, as does overwriting.
	mayPoison bool
	// mayPoisonJournaled: the extents of a file count too, and those of what lags behind
	// the journal are made by its flush.
	mayPoisonJournaled bool
}

// nobody is a user without rights: root is above quotas of ext4.
const nobody = 65534

// row is the shortage's row.
func (s shortage) row() string { return s.name + ": " + s.what }

// job is the setup's job, with records that fill segments of this size soon.
func (s shortage) job(m *mounted, by setup) job {
	j := by.job(m)
	j.SegmentBytes = s.segmentBytes
	j.PayloadMin, j.PayloadMax = int(s.segmentBytes/256), int(s.segmentBytes/64)
	return j
}

func shortages() []shortage {
	var all []shortage
	for _, p := range places() {
		room := int64(4 << 20)
		switch p.disk {
		case "btrfs":
			room = 12 << 20 // of which metadata takes its part
		case "ext4":
			p.mkfs = append(slices.Clone(p.mkfs), "-m", "0") // nothing is kept for root
		}
		all = append(all, shortage{
			place: p, what: "no space", segmentBytes: 512 << 10, mayPoison: p.disk == "btrfs",
			squeeze: func(m *mounted) { m.fillBlocks(room) }, release: (*mounted).freeBlocks,
		})
	}
	ext4 := place{name: "ext4", disk: "ext4", bytes: ext4Bytes, mkfs: []string{"-N", "256"}}
	tmpfs := place{name: "tmpfs", tmpfs: true, options: "size=64m,nr_inodes=256"}
	for _, p := range []place{ext4, tmpfs} {
		all = append(all, shortage{
			place: p, what: "no inodes", segmentBytes: 32 << 10,
			squeeze: (*mounted).fillInodes, release: (*mounted).freeInodes,
		})
	}
	return append(all, quotaShortages()...)
}

func (m *mounted) filler(name string) string { return filepath.Join(m.at, "filler", name) }

// fillBlocks takes all space but room bytes.
func (m *mounted) fillBlocks(room int64) {
	m.t.Helper()
	m.sync()
	var st unix.Statfs_t
	if err := unix.Statfs(m.at, &st); err != nil {
		m.t.Fatal(err)
	}
	free := int64(st.Bavail)*st.Frsize - room
	file := m.makeFiller("blocks")
	defer file.Close()
	if free <= 0 {
		return // what a former run took is not given back yet
	}
	if err := unix.Fallocate(int(file.Fd()), 0, 0, free); err != nil {
		m.t.Fatal(err)
	}
}

func (m *mounted) freeBlocks() {
	m.t.Helper()
	if err := os.Remove(m.filler("blocks")); err != nil {
		m.t.Fatal(err)
	}
	m.sync() // btrfs frees space when it commits
}

// inodesLeft is how many files can be made in a filesystem without inodes.
const inodesLeft = 24

func (m *mounted) fillInodes() {
	m.t.Helper()
	for n := 0; ; n++ {
		file, err := os.Create(m.fillerDir(fmt.Sprint("inode-", n)))
		switch {
		case err == nil:
			file.Close()
			continue
		case !errors.Is(err, unix.ENOSPC):
			m.t.Fatal(err)
		}
		for k := n - inodesLeft; k < n; k++ {
			if err := os.Remove(m.filler(fmt.Sprint("inode-", k))); err != nil {
				m.t.Fatal(err)
			}
		}
		return
	}
}

func (m *mounted) freeInodes() {
	m.t.Helper()
	if err := os.RemoveAll(filepath.Join(m.at, "filler")); err != nil {
		m.t.Fatal(err)
	}
}

// fillerDir is filler, with its directory made.
func (m *mounted) fillerDir(name string) string {
	m.t.Helper()
	if err := os.MkdirAll(filepath.Join(m.at, "filler"), 0o755); err != nil {
		m.t.Fatal(err)
	}
	return m.filler(name)
}

func (m *mounted) makeFiller(name string) *os.File {
	m.t.Helper()
	file, err := os.Create(m.fillerDir(name))
	if err != nil {
		m.t.Fatal(err)
	}
	return file
}

// sync makes everything of the filesystem durable.
func (m *mounted) sync() {
	m.t.Helper()
	dir, err := os.Open(m.at)
	if err != nil {
		m.t.Fatal(err)
	}
	defer dir.Close()
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		m.t.Fatal(err)
	}
}
