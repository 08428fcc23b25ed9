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
	if spec.Marks != "" {
		if err := noZeroWrites(spec.Marks); err != nil {
			return err
		}
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
	for i := 0; ; i++ {
		disk := disks[fmt.Sprintf("image%d", i)]
		if disk == "" {
			break
		}
		fmt.Println(load.Event{Kind: load.Image, Bound: uint64(i)})
		problems = append(problems, lookAtImage(ctx, spec, disk))
		delete(disks, fmt.Sprintf("image%d", i))
	}
	if len(disks) > 0 {
		problems = append(problems, fmt.Errorf("disks were left over: %v", disks))
	}
	return errors.Join(problems...)
}

func lookAtImage(ctx context.Context, spec load.Spec, disk string) error {
	if err := mountDisk(plan.Mount{Device: disk, Filesystem: "ext4", Dir: spec.Root}); err != nil {
		return err
	}
	err := load.Check(ctx, spec, os.Stdout)
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

// serials are the device files of disks by their serial numbers. All disks of a machine
// that is up have been found, but for those that just appear: the last one is waited for.
func serials() (map[string]string, error) {
	found := make(map[string]string)
	for quiet := 0; quiet < 20; quiet++ {
		files, err := filepath.Glob("/sys/block/nvme*/device/serial")
		if err != nil {
			return nil, err
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

// noZeroWrites has the kernel write zeros instead of asking the disk for them: emulators
// before qemu 8.2.1 garble their log of writes over such requests.
func noZeroWrites(device string) error {
	name := filepath.Base(device)
	err := os.WriteFile("/sys/block/"+name+"/queue/write_zeroes_max_bytes", []byte("0"), 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil // the disk does not take them
	}
	return err
}
