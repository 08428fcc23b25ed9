package filesystems

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Types of quotas, and commands of quotactl(2), as <linux/quota.h> has them.
const (
	userQuota    = 0
	projectQuota = 2

	quotaGet = 0x800007
	quotaSet = 0x800008

	quotaBlocks = 1 << 0 // the limits of blocks count
	quotaInodes = 1 << 2
)

// quotaRoom is how much a quota leaves, in bytes.
const quotaRoom = 4 << 20

// diskQuota is struct if_dqblk: limits of blocks are in KiB, what is used in bytes.
type diskQuota struct {
	blocksHard, blocksSoft, bytes  uint64
	inodesHard, inodesSoft, inodes uint64
	blocksGrace, inodesGrace       uint64
	valid                          uint32
	_                              uint32
}

func quotaShortages() []shortage {
	ext4 := func(name, option string) place {
		return place{
			name: name, disk: "ext4", bytes: ext4Bytes, options: option,
			mkfs: []string{"-O", "quota,project", "-E", "quotatype=usrquota:prjquota"},
		}
	}
	xfs := func(name, option string) place {
		return place{name: name, disk: "xfs", bytes: xfsBytes, options: option}
	}
	blocks := func(p place, kind, id int) shortage {
		return shortage{
			place: p, what: "no quota for blocks", segmentBytes: 512 << 10, uid: nobody, mayPoisonJournaled: p.disk == "ext4",
			prepare: func(m *mounted) { m.giveToNobody(); m.assign(kind, id) },
			squeeze: func(m *mounted) { m.limitBlocks(kind, id) },
			release: func(m *mounted) { m.setQuota(kind, id, diskQuota{valid: quotaBlocks}) },
		}
	}
	inodes := func(p place, kind, id int) shortage {
		s := blocks(p, kind, id)
		s.what, s.segmentBytes = "no quota for inodes", 32<<10
		s.squeeze = func(m *mounted) { m.limitInodes(kind, id) }
		s.release = func(m *mounted) { m.setQuota(kind, id, diskQuota{valid: quotaInodes}) }
		return s
	}
	return []shortage{
		blocks(ext4("ext4, usrquota", "usrquota"), userQuota, nobody),
		inodes(ext4("ext4, usrquota", "usrquota"), userQuota, nobody),
		blocks(ext4("ext4, prjquota", "prjquota"), projectQuota, 7),
		blocks(xfs("XFS, uquota", "uquota"), userQuota, nobody),
		inodes(xfs("XFS, uquota", "uquota"), userQuota, nobody),
		blocks(xfs("XFS, pquota", "pquota"), projectQuota, 7),
		{
			place: place{name: "btrfs, qgroup", disk: "btrfs", bytes: btrfsBytes}, what: "no quota for blocks", segmentBytes: 512 << 10, mayPoison: true,
			prepare: (*mounted).makeSubvolume,
			squeeze: func(m *mounted) { m.limitSubvolume(strconv.FormatInt(m.subvolumeBytes()+quotaRoom, 10)) },
			release: func(m *mounted) { m.limitSubvolume("none") },
		},
	}
}

func (m *mounted) giveToNobody() {
	m.t.Helper()
	if err := os.Chown(m.root, nobody, nobody); err != nil {
		m.t.Fatal(err)
	}
}

// fsxattr is struct fsxattr of <linux/fs.h>.
type fsxattr struct {
	flags, extentSize, extents, project, cowExtentSize uint32
	_                                                  [8]byte
}

const (
	fsGetXattr     = 0x801c581f
	fsSetXattr     = 0x401c5820
	projectInherit = 0x200
)

// assign puts the store's directory into a project, where the quota is one of those.
func (m *mounted) assign(kind, id int) {
	m.t.Helper()
	if kind != projectQuota {
		return
	}
	dir, err := os.Open(m.root)
	if err != nil {
		m.t.Fatal(err)
	}
	defer dir.Close()
	var a fsxattr
	for _, request := range []uintptr{fsGetXattr, fsSetXattr} {
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, dir.Fd(), request, uintptr(unsafe.Pointer(&a))); errno != 0 {
			m.t.Fatalf("the project of %s: %v", m.root, errno)
		}
		a.project, a.flags = uint32(id), a.flags|projectInherit
	}
}

func (m *mounted) limitBlocks(kind, id int) {
	m.t.Helper()
	m.sync() // what waits for its blocks is counted too
	used := m.quota(kind, id).bytes
	m.setQuota(kind, id, diskQuota{blocksHard: (used + quotaRoom) / 1024, valid: quotaBlocks})
}

func (m *mounted) limitInodes(kind, id int) {
	m.t.Helper()
	m.setQuota(kind, id, diskQuota{inodesHard: m.quota(kind, id).inodes + inodesLeft, valid: quotaInodes})
}

func (m *mounted) quota(kind, id int) diskQuota {
	m.t.Helper()
	var q diskQuota
	// Of a project that wrote nothing XFS knows nothing.
	if errno := m.quotactl(quotaGet, kind, id, &q); errno != 0 && errno != unix.ENOENT {
		m.t.Fatalf("quotactl: %v", errno)
	}
	return q
}

func (m *mounted) setQuota(kind, id int, q diskQuota) {
	m.t.Helper()
	if errno := m.quotactl(quotaSet, kind, id, &q); errno != 0 {
		m.t.Fatalf("quotactl: %v", errno)
	}
}

func (m *mounted) quotactl(command, kind, id int, q *diskQuota) syscall.Errno {
	m.t.Helper()
	device, err := unix.BytePtrFromString(m.loop.Device)
	if err != nil {
		m.t.Fatal(err)
	}
	_, _, errno := unix.Syscall6(unix.SYS_QUOTACTL, uintptr(command)<<8|uintptr(kind), uintptr(unsafe.Pointer(device)),
		uintptr(id), uintptr(unsafe.Pointer(q)), 0, 0)
	return errno
}

func (m *mounted) btrfs(arguments ...string) string {
	m.t.Helper()
	out, err := exec.Command("btrfs", arguments...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("btrfs %v: %v: %s", arguments, err, out)
	}
	return string(out)
}

// subvolumeGroup is the qgroup of the first subvolume that is made.
const subvolumeGroup = "0/256"

// makeSubvolume makes the store's directory a subvolume: a limit that is on the top one
// would refuse the transaction that lifts it.
func (m *mounted) makeSubvolume() {
	m.t.Helper()
	if err := os.Remove(m.root); err != nil {
		m.t.Fatal(err)
	}
	m.btrfs("subvolume", "create", m.root)
	m.btrfs("quota", "enable", m.at)
}

func (m *mounted) limitSubvolume(bytes string) {
	m.t.Helper()
	m.btrfs("qgroup", "limit", bytes, subvolumeGroup, m.at)
}

// subvolumeBytes is what the subvolume refers to.
func (m *mounted) subvolumeBytes() int64 {
	m.t.Helper()
	for line := range strings.Lines(m.btrfs("qgroup", "show", "--raw", "--sync", m.at)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] == subvolumeGroup {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				m.t.Fatal(err)
			}
			return n
		}
	}
	m.t.Fatalf("btrfs shows no qgroup %s", subvolumeGroup)
	return 0
}
