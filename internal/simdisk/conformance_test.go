package simdisk_test

import (
	"testing"

	"go.uber.org/goleak"

	"felix.local/felix/device/devicetest"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/internal/simdisk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// root is the directory that tests work in.
const root = "/data"

func newDisk() *simdisk.Disk {
	d := simdisk.New()
	d.MakeDir(root)
	return d
}

func TestASimulatedDiskKeepsEveryPromiseOfADisk(t *testing.T) {
	for _, c := range []struct {
		name    string
		options simdisk.QueueOptions
	}{
		{"running freely", simdisk.QueueOptions{}},
		{"in adversarial order", simdisk.QueueOptions{Mode: simdisk.Adversarial, Seed: 1, ShortPercent: 30}},
		{"in adversarial order, few at once", simdisk.QueueOptions{Mode: simdisk.Adversarial, Seed: 2, InFlightMax: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			devicetest.Run(t, func(*testing.T) devicetest.Disk {
				d := newDisk()
				return devicetest.Disk{FS: d, Queue: d.NewQueue(c.options), Root: root}
			})
		})
	}
}

func TestASimulatedDiskBehindAFaultDiskKeepsEveryPromise(t *testing.T) {
	devicetest.Run(t, func(*testing.T) devicetest.Disk {
		d := newDisk()
		queue := d.NewQueue(simdisk.QueueOptions{Mode: simdisk.Adversarial, Seed: 3})
		faulty := faultdisk.New(d, queue, faultdisk.Options{TrackDirty: true})
		return devicetest.Disk{FS: faulty.FS(), Queue: faulty.Queue(), Root: root}
	})
}
