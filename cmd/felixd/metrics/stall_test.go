package metrics

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/fallback"
	"felix.local/felix/internal/faultdisk"
)

// The watchdog's metric is there while the device hangs, for a durable write that
// is in the queue and for one that runs on the appender's goroutine.
func TestADeviceThatHangsShowsAsTheAgeOfTheOldestOperation(t *testing.T) {
	for name, before := range map[string]int{"queue": 1, "inline": 80} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := fallback.Open(fallback.Options{Workers: 2})
				disk := faultdisk.New(device.OS(), pool, faultdisk.Options{})
				m := New()
				cfg := engine.DefaultConfig()
				cfg.FsyncMode, cfg.FS, cfg.Queue, cfg.Observer = engine.FsyncOnCommit, disk.FS(), pool, m
				cfg.MinFreeBytes, cfg.MinFreeInodes = 0, 0
				store, err := engine.OpenStore(t.Context(), t.TempDir(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				m.Attach(store)
				log, err := store.OpenLog(t.Context(), engine.ShardKey{Tenant: "t", Namespace: "n", Stream: "s"})
				if err != nil {
					t.Fatal(err)
				}
				for range before {
					if _, err := log.Append(t.Context(), engine.Record{}); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(3 * time.Second) // every mark is written
				age(t, m, "0")
				held := disk.Inject(faultdisk.Fault{
					Kinds: faultdisk.WriteDsync, Path: func(path string) bool { return strings.HasSuffix(path, ".log") },
					Stall: true, Errno: syscall.EIO,
				})
				inline := store.Stats().Inline[device.WriteDsync]
				done := make(chan error, 1)
				go func() {
					_, err := log.Append(t.Context(), engine.Record{})
					done <- err
				}()
				<-held.Reached()
				time.Sleep(2500 * time.Millisecond)
				age(t, m, "2.5")
				if ranInline := store.Stats().Inline[device.WriteDsync] > inline; ranInline != (name == "inline") {
					t.Errorf("inline: %v", ranInline)
				}
				time.Sleep(6 * time.Second)
				age(t, m, "8.5")
				held.Release()
				if err := <-done; err == nil {
					t.Error("a durable write that failed was acknowledged")
				}
				time.Sleep(3 * time.Second)
				age(t, m, "0")
				_ = store.Close(t.Context()) // says that the log is poisoned
				if err := pool.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// age checks what is exported as the age of the oldest operation, in seconds.
func age(t *testing.T, m *Metrics, want string) {
	t.Helper()
	synctest.Wait()
	const name = "felix_storage_oldest_op_age_seconds"
	if got := scrape(t, m, name); !slices.Equal(got, []string{name + " " + want}) {
		t.Errorf("exported is %v, want %s", got, want)
	}
}
