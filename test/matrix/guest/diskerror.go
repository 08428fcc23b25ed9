package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"felix.local/felix/device"
	"felix.local/felix/test/matrix/diskerror/victim"
	"felix.local/felix/test/matrix/plan"
)

// sufferDiskErrors is the mode "disk-error": the program whose disk begins to fail. Both
// disks are named by their serial numbers.
func sufferDiskErrors(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("disk-error takes the path of a specification")
	}
	spec, err := victim.Read(args[0])
	if err != nil {
		return err
	}
	disks, err := serials()
	if err != nil {
		return err
	}
	data, mailbox := disks[spec.Disk], disks[spec.Mailbox]
	if data == "" || mailbox == "" {
		return fmt.Errorf("a disk is missing among %v", disks)
	}
	if err := mountDisk(plan.Mount{Device: data, Filesystem: "ext4", Dir: spec.Root}); err != nil {
		return err
	}
	return victim.Run(ctx, spec, os.Stdout, func() error { return mail(mailbox) })
}

// mailArrives is how long the host may take to make a disk fail.
const mailArrives = time.Minute

// mail waits until the mailbox says that the disk fails. Nothing tells of bytes that
// change on a disk, so they are looked at, past the page cache.
func mail(disk string) error {
	fd, err := unix.Open(disk, unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", disk, err)
	}
	defer unix.Close(fd)
	page, err := unix.Mmap(-1, 0, device.DirectBlockBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	for until := time.Now().Add(mailArrives); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		if _, err := unix.Pread(fd, page, 0); err != nil {
			return fmt.Errorf("%s: %w", disk, err)
		}
		if strings.HasPrefix(string(page), victim.ArmedText) {
			return unix.Munmap(page)
		}
	}
	return fmt.Errorf("no word of the host in %v", mailArrives)
}
