package uring

import (
	"testing"

	"go.uber.org/goleak"

	"felix.local/felix/device"
	"felix.local/felix/device/devicetest"
)

// TestMain finds goroutines that outlive their ring. The loop of a lost ring must
// stay: it keeps what the kernel may still use.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m, keepers()) }

func TestTheRingKeepsEveryPromiseOfADisk(t *testing.T) {
	for name, o := range map[string]Options{"one in flight": {Entries: 2}, "the default": {}} {
		t.Run(name, func(t *testing.T) {
			devicetest.Run(t, func(t *testing.T) devicetest.Disk {
				return devicetest.Disk{FS: device.OS(), Queue: openRing(t, o), Root: t.TempDir()}
			})
		})
	}
}

// openRing opens a ring on the running kernel; the test closes it.
func openRing(t testing.TB, o Options) *Ring {
	t.Helper()
	r, err := Open(o)
	if err != nil {
		t.Skipf("this kernel or container gives no io_uring: %v", err)
	}
	return r
}
