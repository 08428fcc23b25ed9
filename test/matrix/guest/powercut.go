package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"felix.local/felix/test/matrix/plan"
	load "felix.local/felix/test/matrix/powercut/workload"
)

// appendUntilCut is the mode "append": the program whose power is cut.
func appendUntilCut(ctx context.Context, args []string) error {
	spec, err := specOf("append", args)
	if err != nil {
		return err
	}
	return load.Run(ctx, spec, os.Stdout)
}

// lookAtImages is the mode "images": each further disk of the machine is mounted, what is
// on it recovered and read back, one after the other. Disks are known by their serial
// numbers, image0 and so on, since the kernel may find them in any order.
func lookAtImages(ctx context.Context, args []string) error {
	spec, err := specOf("images", args)
	if err != nil {
		return err
	}
	disks, err := serials()
	if err != nil {
		return err
	}
	var problems []error
	for i, stores := range spec.Images {
		disk := disks[fmt.Sprintf("image%d", i)]
		if disk == "" {
			return fmt.Errorf("there is no disk image%d among %v", i, disks)
		}
		fmt.Println(load.Event{Kind: load.Image, Bound: uint64(i)})
		problems = append(problems, lookAtImage(ctx, load.Spec{Root: spec.Root, Stores: stores, Appends: spec.Appends}, disk))
	}
	return errors.Join(problems...)
}

func lookAtImage(ctx context.Context, spec load.Spec, disk string) error {
	if err := mountDisk(plan.Mount{Device: disk, Filesystem: "ext4", Dir: spec.Root}); err != nil {
		for _, s := range spec.Stores {
			fmt.Println(load.Event{Kind: load.Bad, Store: s.Name, Log: "*", Text: err.Error()})
		}
		return nil // the other images may be better
	}
	err := load.Run(ctx, spec, os.Stdout)
	if errors.Is(err, load.ErrBad) {
		err = nil // it was told, and whoever reads that judges it
	}
	return errors.Join(err, unix.Unmount(spec.Root, 0))
}

func specOf(mode string, args []string) (load.Spec, error) {
	if len(args) != 1 {
		return load.Spec{}, fmt.Errorf("%s takes the path of a specification", mode)
	}
	return load.ReadSpec(args[0])
}

// serials are the device files of disks by their serial numbers. Nothing says that the
// kernel has found all disks, so it is asked until no other one appears for a while.
func serials() (map[string]string, error) {
	found := make(map[string]string)
	for quiet := 0; quiet < 20; quiet++ {
		var files []string
		for _, pattern := range []string{"/sys/block/nvme*/device/serial", "/sys/block/vd*/serial"} {
			more, err := filepath.Glob(pattern)
			if err != nil {
				return nil, err
			}
			files = append(files, more...)
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			serial := strings.TrimSpace(string(b))
			device := "/dev/" + strings.Split(file, "/")[3]
			if found[serial] == "" {
				found[serial], quiet = device, 0
			}
		}
		time.Sleep(25 * time.Millisecond)
	}
	return found, nil
}
