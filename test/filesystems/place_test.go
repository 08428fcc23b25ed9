package filesystems

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"felix.local/felix/internal/loopfs"
)

// place is a filesystem to test on.
type place struct {
	name string
	// disk is what the loop device has, "" for a filesystem without one; bytes its
	// size, mkfs and options its own.
	disk    string
	bytes   int64
	mkfs    []string
	options string
	// overlay puts an overlayfs over the disk.
	overlay bool
	// losesFlushed: kernels are known that lose in a power cut what was flushed there,
	// of any program.
	losesFlushed bool
	// tmpfs is a filesystem in memory, here the directory for temporary files.
	tmpfs, here bool
}

const (
	ext4Bytes  = 64 << 20
	xfsBytes   = 320 << 20 // mkfs.xfs makes none below 300 MiB
	btrfsBytes = 256 << 20
)

// places are the filesystems of every table.
func places() []place {
	return []place{
		{name: "ext4", disk: "ext4", bytes: ext4Bytes},
		{name: "ext4, data=journal", disk: "ext4", bytes: ext4Bytes, options: "data=journal"},
		{name: "ext4, fast_commit", disk: "ext4", bytes: ext4Bytes, mkfs: []string{"-O", "fast_commit"}, losesFlushed: true},
		{name: "XFS", disk: "xfs", bytes: xfsBytes},
		{name: "btrfs", disk: "btrfs", bytes: btrfsBytes},
		{name: "tmpfs", tmpfs: true, options: "size=64m"},
		{name: "overlayfs on ext4", disk: "ext4", bytes: ext4Bytes, overlay: true},
	}
}

// here is the directory for temporary files, whatever it is on: a place without root.
func here() place { return place{name: "the directory for temporary files", here: true} }

// mounted is a place with its filesystem.
type mounted struct {
	place
	t    testing.TB
	loop *loopfs.Disk // nil without one
	// at is the top of the filesystem, root the store's directory in it.
	at, root string
	// layers are the options of an overlayfs.
	layers string
	// repairs counts how often fsck had to mend the disk before it could be mounted.
	repairs int
	skip    func(reason string)
}

// mount makes the place's filesystem and mounts it until the test ends. Where that
// cannot be done it gives skip the reason, which ends the test.
func (p place) mount(t testing.TB, skip func(reason string)) *mounted {
	t.Helper()
	m := &mounted{place: p, t: t, skip: skip}
	base := imageDir(t)
	switch {
	case p.here:
		m.at = t.TempDir()
	case p.tmpfs:
		m.at = filepath.Join(base, "tmpfs")
		m.mountAt(m.at, "tmpfs", p.options)
	default:
		if missing := loopfs.Missing(p.disk); missing != "" {
			skip(missing)
		}
		m.loop = loopfs.Make(t, base, p.disk, p.bytes, p.mkfs...)
		if err := m.loop.Mount(p.options); err != nil {
			skip("this kernel does not mount it: " + err.Error())
		}
		m.at = m.loop.At
		if p.overlay {
			m.mountOverlay()
		}
	}
	m.root = filepath.Join(m.at, "data")
	if err := os.Mkdir(m.root, 0o755); err != nil {
		t.Fatal(err)
	}
	return m
}

// mountAt mounts a filesystem without a device.
func (m *mounted) mountAt(at, kind, options string) {
	m.t.Helper()
	if os.Geteuid() != 0 {
		m.skip("only root mounts a filesystem")
	}
	if err := os.MkdirAll(at, 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := unix.Mount(kind, at, kind, 0, options); err != nil {
		m.skip("this kernel does not mount it: " + err.Error())
	}
	m.t.Cleanup(func() {
		if err := unix.Unmount(at, 0); err == nil || errors.Is(err, unix.EINVAL) {
			return // or it is not mounted any more
		}
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			m.t.Errorf("unmount %s: %v", at, err)
		}
	})
}

func (m *mounted) mountOverlay() {
	m.t.Helper()
	lower, upper, work := filepath.Join(m.loop.At, "lower"), filepath.Join(m.loop.At, "upper"), filepath.Join(m.loop.At, "work")
	for _, dir := range []string{lower, upper, work} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			m.t.Fatal(err)
		}
	}
	m.at = filepath.Join(filepath.Dir(m.loop.At), "overlay")
	m.layers = "lowerdir=" + lower + ",upperdir=" + upper + ",workdir=" + work
	m.mountAt(m.at, "overlay", m.layers)
}

// again unmounts the filesystem and mounts it: what it did not write is gone.
func (m *mounted) again() {
	m.t.Helper()
	if m.overlay {
		var err error
		waitFor(func() bool { err = unix.Unmount(m.at, 0); return !errors.Is(err, unix.EBUSY) })
		if err != nil {
			m.t.Fatal(err)
		}
	}
	if err := m.loop.Unmount(); err != nil {
		m.t.Fatal(err)
	}
	err := m.loop.Mount(m.options)
	if errors.Is(err, unix.EUCLEAN) {
		// A fast commit that was cut short can leave a journal that the kernel does not
		// replay. That is no matter of the log's, but what is there after the repair is.
		m.repairs++
		if err = m.loop.Repair(); err == nil {
			err = m.loop.Mount(m.options)
		}
	}
	if err != nil {
		m.t.Fatal(err)
	}
	if m.overlay {
		if err := unix.Mount("overlay", m.at, "overlay", 0, m.layers); err != nil {
			m.t.Fatal(err)
		}
	}
}

// imageRoom is what a directory for images has to have free: images are sparse, and
// the tests of two disks at a time never fill more.
const imageRoom = 2 << 30

// imageDir is a directory for images and mount points, in memory where there is room.
// Other users may go through it.
func imageDir(t testing.TB) string {
	t.Helper()
	parent := os.TempDir()
	var st unix.Statfs_t
	if unix.Statfs("/dev/shm", &st) == nil && int64(st.Bavail)*st.Frsize > imageRoom {
		parent = "/dev/shm"
	}
	dir, err := os.MkdirTemp(parent, "felix-filesystems-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// setup is how a store reaches its disk.
type setup struct{ ring, journal bool }

func setups() []setup {
	return []setup{{true, false}, {true, true}, {false, false}, {false, true}}
}

func (s setup) String() string {
	text := "pool"
	if s.ring {
		text = "ring"
	}
	if s.journal {
		text += " and journal"
	}
	return text
}

// job is a job on m under on_commit; the ring and the journal are required.
func (s setup) job(m *mounted) job {
	j := job{
		Root: m.root, Shards: 2, Session: 1,
		Fsync: "on_commit", IOURing: "0", Journal: "off",
		SegmentBytes: 256 << 10, JournalBytes: 1 << 20, RollThreshold: 100,
		PayloadMin: 100, PayloadMax: 3000,
	}
	if s.ring {
		j.IOURing = "require"
	}
	if s.journal {
		j.Journal = "require"
	}
	return j
}

// needRing ends a test on the ring where the kernel gives none.
func (s setup) needRing(t testing.TB, m *mounted) {
	t.Helper()
	if !s.ring {
		return
	}
	j := s.job(m)
	j.Root, j.Shards, j.Journal = filepath.Join(m.at, "probe"), 0, "off"
	w, e := start(t, newLedger(0), j, 0)
	if e.Kind == refused {
		m.skip("no ring is to be had: " + e.Problem.Text)
	}
	w.kill()
	if err := os.RemoveAll(j.Root); err != nil {
		t.Fatal(err)
	}
}
