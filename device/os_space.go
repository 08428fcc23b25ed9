package device

import (
	"fmt"
	"math"
	"math/bits"

	"golang.org/x/sys/unix"
)

// Space reports the filesystem that holds path.
func (OSFS) Space(path string) (Space, error) {
	var st unix.Statfs_t
	if err := ignoreInterrupts(func() error { return unix.Statfs(path, &st) }); err != nil {
		return Space{}, NewError("space", path, -1, err)
	}
	block := uint64(st.Frsize)
	if block == 0 {
		block = uint64(st.Bsize)
	}
	space := Space{
		Type:       filesystemName(uint32(st.Type)),
		FreeBytes:  clampedProduct(uint64(st.Bavail), block),
		FreeInodes: clampedProduct(uint64(st.Ffree), 1),
		TotalBytes: clampedProduct(uint64(st.Blocks), block),
	}
	if st.Files == 0 {
		// btrfs, for one, makes inodes as it goes and counts none.
		space.FreeInodes = -1
	}
	return space, nil
}

func clampedProduct(a, b uint64) int64 {
	high, low := bits.Mul64(a, b)
	if high != 0 || low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(low)
}

// filesystemName names a superblock magic number. ext2, ext3 and ext4 share one,
// and current kernels serve all three with the ext4 driver. virtiofs shares
// that of FUSE.
func filesystemName(magic uint32) string {
	switch magic {
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case unix.F2FS_SUPER_MAGIC:
		return "f2fs"
	case 0xca451a4e:
		return "bcachefs"
	case 0x2fc12fc1:
		return "zfs"
	case unix.TMPFS_MAGIC:
		return "tmpfs"
	case unix.RAMFS_MAGIC:
		return "ramfs"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlay"
	case unix.NFS_SUPER_MAGIC:
		return "nfs"
	case unix.CIFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		return "cifs"
	case unix.FUSE_SUPER_MAGIC:
		return "fuse"
	case unix.V9FS_MAGIC:
		return "9p"
	case unix.CEPH_SUPER_MAGIC:
		return "ceph"
	case unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC:
		return "afs"
	case 0x0bd00bd0:
		return "lustre"
	case 0x47504653:
		return "gpfs"
	case 0x01161970:
		return "gfs2"
	case 0x7461636f:
		return "ocfs2"
	case unix.ECRYPTFS_SUPER_MAGIC:
		return "ecryptfs"
	case unix.REISERFS_SUPER_MAGIC:
		return "reiserfs"
	case 0x3153464a:
		return "jfs"
	case 0x3434:
		return "nilfs"
	case unix.MSDOS_SUPER_MAGIC:
		return "vfat"
	case unix.EXFAT_SUPER_MAGIC:
		return "exfat"
	case unix.SQUASHFS_MAGIC:
		return "squashfs"
	default:
		return fmt.Sprintf("0x%x", magic)
	}
}
