package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"felix.local/felix/device"
	"felix.local/felix/test/matrix/diskerror/victim"
	"felix.local/felix/test/matrix/plan"
)

// sufferDiskErrors is the mode "disk-error": the program whose disk begins to fail, again
// and again, each time with another disk.
func sufferDiskErrors(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("disk-error takes the path of a specification")
	}
	specs, err := victim.Read(args[0])
	if err != nil {
		return err
	}
	disks, err := serials()
	if err != nil {
		return err
	}
	for _, spec := range specs {
		data, mailbox := disks[spec.Disk], disks[spec.Mailbox]
		if data == "" || mailbox == "" {
			return fmt.Errorf("%s or %s is missing among %v", spec.Disk, spec.Mailbox, disks)
		}
		if err := mountDisk(plan.Mount{Device: data, Filesystem: "ext4", Dir: spec.Root}); err != nil {
			return err
		}
		if err := victim.Run(ctx, spec, os.Stdout, func() error { return mail(mailbox, spec.MailPosition) }); err != nil {
			return fmt.Errorf("%s: %w", spec.Store.Name, err)
		}
	}
	return nil
}

// mailArrives is how long the host may take to make a disk fail.
const mailArrives = time.Minute

// mail waits until the mailbox says that the disk fails. Nothing tells of bytes that
// change on a disk, so they are looked at, past the page cache.
func mail(disk string, position int64) error {
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
		if _, err := unix.Pread(fd, page, position); err != nil {
			return fmt.Errorf("%s: %w", disk, err)
		}
		if strings.HasPrefix(string(page), victim.ArmedText) {
			return unix.Munmap(page)
		}
	}
	return fmt.Errorf("no word of the host in %v", mailArrives)
}
