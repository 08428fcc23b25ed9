package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// filesystemReport describes what holds the data directory.
type filesystemReport struct {
	Type       string `json:"type"`
	MountPoint string `json:"mount_point"`
	Source     string `json:"source"`
	// Options are those of the mount and of the filesystem.
	Options    string `json:"options"`
	FreeBytes  int64  `json:"free_bytes"`
	FreeInodes int64  `json:"free_inodes"`
}

func (d *doctor) filesystem() filesystemReport {
	var report filesystemReport
	space, err := spaceOf(d.dir)
	if err != nil {
		d.problem("%v", err)
		return report
	}
	report.Type, report.FreeBytes, report.FreeInodes = space.Type, space.FreeBytes, space.FreeInodes
	if space.FreeBytes < d.config.MinFreeBytes {
		d.problem("%d bytes free, below FELIX_DURABLE_MIN_FREE_BYTES (%d): appends are refused", space.FreeBytes, d.config.MinFreeBytes)
	}
	if space.FreeInodes >= 0 && space.FreeInodes < d.config.MinFreeInodes {
		d.problem("%d inodes free, below FELIX_DURABLE_MIN_FREE_INODES (%d): appends are refused", space.FreeInodes, d.config.MinFreeInodes)
	}
	m, found := mountOf(d.dir)
	if found {
		report.Type, report.MountPoint, report.Source = m.fstype, m.point, m.source
		report.Options = strings.Join(m.options, ",")
	}
	for _, w := range filesystemWarnings() {
		if w.applies(report.Type, m.options) {
			d.warn("%s", w.text)
		}
	}
	if report.Type == "ext4" {
		d.ext4(m.device)
	}
	return report
}

// filesystemWarning is one thing an operator should know about a filesystem.
type filesystemWarning struct {
	types []string
	// option is what must be among the options; empty for any.
	option string
	text   string
}

func (w filesystemWarning) applies(fstype string, options []string) bool {
	matches := slices.ContainsFunc(w.types, func(t string) bool { return fstype == t || strings.HasPrefix(fstype, t+".") })
	return matches && (w.option == "" || slices.Contains(options, w.option))
}

// filesystemWarnings is the table of what is known to matter. "fuse" also
// matches "fuse.sshfs" and its like.
func filesystemWarnings() []filesystemWarning {
	local := []string{"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs"}
	return []filesystemWarning{
		{[]string{"tmpfs", "ramfs"}, "", "the directory is in memory: nothing survives a reboot, and a durable write costs nothing"},
		{[]string{"overlay"}, "", "the directory is in a container's layer, which goes with the container: mount a volume"},
		{[]string{"overlay"}, "volatile", "overlay is mounted volatile: it ignores every flush, so nothing is durable"},
		{[]string{"overlay"}, "fsync=volatile", "overlay is mounted with fsync=volatile: it ignores every flush, so nothing is durable"},
		{[]string{"nfs", "nfs4"}, "", "NFS: a flush is as good as the server; locks and errors may be lost when it restarts; the blocking pool is used"},
		{[]string{"nfs", "nfs4"}, "soft", "NFS is mounted soft: a slow server turns into failed writes; mount it hard"},
		{[]string{"nfs", "nfs4"}, "nolock", "NFS is mounted nolock: two hosts may open one directory"},
		{[]string{"cifs", "smb3"}, "", "CIFS: a flush is as good as the server; the blocking pool is used"},
		{[]string{"fuse", "fuseblk", "virtiofs"}, "", "FUSE: a flush is as good as the program behind it; the blocking pool is used"},
		{[]string{"zfs"}, "", "ZFS: flushes obey the dataset's sync property; with sync=disabled nothing is durable; the blocking pool is used"},
		{[]string{"9p"}, "", "9p: a flush is as good as the host behind it; the blocking pool is used"},
		{[]string{"ceph", "lustre", "gpfs", "afs"}, "", "a network filesystem: a flush is as good as the servers behind it"},
		{[]string{"vfat", "exfat"}, "", "FAT has no journal: a power loss may take names and whole files"},
		{[]string{"ext2"}, "", "ext2 has no journal: a power loss may take names and whole files"},
		{[]string{"btrfs", "f2fs"}, "", "a copy-on-write filesystem: overwriting in place is not to be had, so a durable write costs more than on ext4 or XFS"},
		{local, "nobarrier", "mounted nobarrier: a flush does not reach the device; safe only with a cache that survives power loss"},
		{local, "barrier=0", "mounted barrier=0: a flush does not reach the device; safe only with a cache that survives power loss"},
		{[]string{"ext4"}, "journal_async_commit", "ext4 journal_async_commit: a power loss may leave a damaged journal"},
		{local, "sync", "mounted sync: every write waits for the device, whatever the fsync mode"},
		{local, "ro", "mounted read-only"},
	}
}

// ext4 looks at what its mount options do not show.
func (d *doctor) ext4(device string) {
	commits, known := fastCommits(filepath.Join("/proc/fs/ext4", device, "fc_info"))
	if known && commits > 0 {
		d.warn("ext4 uses fast commits (%d so far), which on some kernels lost flushed data in a power loss; "+
			"turn them off with tune2fs -O ^fast_commit on the unmounted device", commits)
	}
}

// fastCommits reads the number of fast commits since mount. The writes just
// measured made some if the feature is on.
func fastCommits(path string) (int64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if number, found := strings.CutSuffix(strings.TrimSpace(line), " commits"); found {
			n, err := strconv.ParseInt(number, 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// mount is a line of mountinfo.
type mount struct {
	point, fstype, source string
	// device is the source's last path element, as /proc/fs and /sys name it.
	device  string
	options []string
}

// mountOf finds the mount that holds dir.
func mountOf(dir string) (mount, bool) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return mount{}, false
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return mount{}, false
	}
	defer f.Close()
	return findMount(f, absolute)
}

// findMount takes the last of the longest mount points above dir: a later mount
// on the same point covers an earlier one.
func findMount(mountinfo io.Reader, dir string) (mount, bool) {
	var best mount
	found := false
	lines := bufio.NewScanner(mountinfo)
	for lines.Scan() {
		m, ok := parseMount(lines.Text())
		if ok && holds(m.point, dir) && len(m.point) >= len(best.point) {
			best, found = m, true
		}
	}
	return best, found
}

func holds(point, dir string) bool {
	return point == "/" || dir == point || strings.HasPrefix(dir, point+"/")
}

// parseMount reads a line such as
//
//	27 1 254:0 / /data rw,relatime shared:1 - ext4 /dev/vda rw,discard
//
// with any number of optional fields in front of the dash.
func parseMount(line string) (mount, bool) {
	left, right, ok := strings.Cut(line, " - ")
	fields, after := strings.Fields(left), strings.Fields(right)
	if !ok || len(fields) < 6 || len(after) < 2 {
		return mount{}, false
	}
	m := mount{point: unescape(fields[4]), fstype: after[0], source: unescape(after[1])}
	m.device = filepath.Base(m.source)
	m.options = strings.Split(fields[5], ",")
	if len(after) > 2 {
		for option := range strings.SplitSeq(after[2], ",") {
			if !slices.Contains(m.options, option) {
				m.options = append(m.options, option)
			}
		}
	}
	return m, true
}

// unescape undoes the octal escapes of blanks and backslashes.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	for _, c := range []byte{' ', '\t', '\n', '\\'} {
		s = strings.ReplaceAll(s, fmt.Sprintf(`\%03o`, c), string(c))
	}
	return s
}
