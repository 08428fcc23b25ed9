package fallback_test

import (
	"testing"

	"go.uber.org/goleak"

	"felix.local/felix/device"
	"felix.local/felix/device/devicetest"
	"felix.local/felix/fallback"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestThePoolKeepsEveryPromiseOfADisk(t *testing.T) {
	for name, workers := range map[string]int{"one worker": 1, "the default": 0} {
		t.Run(name, func(t *testing.T) {
			devicetest.Run(t, func(t *testing.T) devicetest.Disk {
				return devicetest.Disk{
					FS:    device.OS(),
					Queue: fallback.Open(fallback.Options{Workers: workers}),
					Root:  t.TempDir(),
				}
			})
		})
	}
}
