package vm

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// MakeDisk makes an image of size bytes with a filesystem on it, ext4 or xfs; options are
// further ones of mkfs.
func MakeDisk(ctx context.Context, path string, size int64, filesystem string, options ...string) error {
	var args []string
	switch filesystem {
	case "ext4":
		// Small images would get blocks of 1 KiB, and with them another journal.
		args = []string{"-q", "-F", "-b", "4096"}
	case "xfs":
		args = []string{"-q", "-f"}
	default:
		return fmt.Errorf("%s: no filesystem %q is known", path, filesystem)
	}
	mkfs := "mkfs." + filesystem
	if err := Need(mkfs); err != nil {
		return err
	}
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		return err
	}
	if err := os.Truncate(path, size); err != nil {
		return err
	}
	_, err := output(ctx, "", mkfs, append(append(args, options...), path)...)
	return err
}

// Disk is the emulator's arguments for an image as the NVMe disk of a number, which the
// guest sees by its serial number disk<number>; a lone one is /dev/nvme0n1.
//
// The host is not asked to flush: what the guest wrote is in the host's page cache, which
// the end of the emulator, however sudden, does not touch. The guest sees a disk with a
// volatile cache and flushes it.
func Disk(number int, path string) []string {
	return []string{
		"-drive", fmt.Sprintf("file=%s,format=raw,if=none,id=disk%d,cache=unsafe", Escape(path), number),
		"-device", fmt.Sprintf("nvme,drive=disk%d,serial=disk%d", number, number),
	}
}

// Escape makes a path safe among the emulator's options, which commas set apart.
func Escape(path string) string { return strings.ReplaceAll(path, ",", ",,") }
