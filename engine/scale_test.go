package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"felix.local/felix/engine"
	"felix.local/felix/segment"
)

// usage is what a process holds, at its peak or at one moment.
type usage struct {
	Threads, KernelWorkers, Descriptors int
	ResidentPeakKiB                     int64
	OpenSeconds, AppendSeconds          float64
	CloseSeconds                        float64
}

// peak raises u to what this process holds now.
func (u *usage) peak() error {
	tasks, err := filepath.Glob("/proc/self/task/*/comm")
	if err != nil {
		return err
	}
	threads, workers := 0, 0
	for _, path := range tasks {
		comm, err := os.ReadFile(path)
		if err != nil {
			continue // it ended meanwhile
		}
		if strings.HasPrefix(string(comm), "iou-") {
			workers++
		} else {
			threads++
		}
	}
	descriptors, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	resident, err := statusKiB("VmHWM")
	if err != nil {
		return err
	}
	u.Threads = max(u.Threads, threads)
	u.KernelWorkers = max(u.KernelWorkers, workers)
	u.Descriptors = max(u.Descriptors, len(descriptors))
	u.ResidentPeakKiB = max(u.ResidentPeakKiB, resident)
	return nil
}

func statusKiB(name string) (int64, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			return strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
		}
	}
	return 0, fmt.Errorf("no %s in /proc/self/status", name)
}

// manyShards is the child that opens many logs under a limit on descriptors, gives
// each one record, and prints what that took.
func manyShards() error {
	ctx := context.Background()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 4096, Max: 4096}); err != nil {
		return err
	}
	count, err := strconv.Atoi(os.Getenv("ENGINE_TEST_SHARDS"))
	if err != nil {
		return err
	}
	cfg := engine.DefaultConfig()
	cfg.MinFreeBytes, cfg.MinFreeInodes = 0, 0
	cfg.Logger = testConfig().Logger
	cfg.Preallocate = os.Getenv("ENGINE_TEST_PREALLOCATE") != ""
	if cfg.FsyncMode, err = engine.ParseFsyncMode(os.Getenv("ENGINE_TEST_FSYNC")); err != nil {
		return err
	}
	if cfg.IOURing, err = engine.ParseIOURingMode(os.Getenv("ENGINE_TEST_IOURING")); err != nil {
		return err
	}
	store, err := engine.OpenStore(ctx, os.Getenv("ENGINE_TEST_ROOT"), cfg)
	if err != nil {
		return err
	}
	var u usage
	logs := make([]*engine.Log, count)
	step := func(seconds *float64, do func(i int) error) error {
		started := time.Now()
		err := inParallel(256, count, do, u.peak)
		*seconds = time.Since(started).Seconds()
		return err
	}
	err = step(&u.OpenSeconds, func(i int) (err error) {
		logs[i], err = store.OpenLog(ctx, testKey(i))
		return err
	})
	if err != nil {
		return err
	}
	err = step(&u.AppendSeconds, func(i int) error {
		_, err := logs[i].Append(ctx, engine.Record{Payload: fmt.Appendf(nil, "record of %d", i)})
		return err
	})
	if err != nil {
		return err
	}
	err = step(new(float64), func(i int) error {
		records, err := logs[i].ReadRange(ctx, 0, 100)
		if err == nil && (len(records) != 1 || string(records[0].Payload) != fmt.Sprintf("record of %d", i)) {
			err = fmt.Errorf("shard %d reads back %d records", i, len(records))
		}
		return err
	})
	if err != nil {
		return err
	}
	started := time.Now()
	if err := store.Close(ctx); err != nil {
		return err
	}
	u.CloseSeconds = time.Since(started).Seconds()
	if err := u.peak(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(u)
}

// inParallel does n things, so many at once, and looks at the process on the way.
func inParallel(atOnce, n int, do func(i int) error, look func() error) error {
	var (
		all    sync.WaitGroup
		next   = make(chan int)
		errs   = make(chan error, atOnce)
		failed error
	)
	for range atOnce {
		all.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	for i := 0; i < n && failed == nil; i++ {
		select {
		case next <- i:
		case failed = <-errs:
		}
		if i%500 == 0 && failed == nil {
			failed = look()
		}
	}
	close(next)
	all.Wait()
	close(errs)
	for err := range errs {
		if failed == nil {
			failed = err
		}
	}
	return failed
}

// The full number runs in memory, where creating files is cheap and what is
// counted is the same; on the disk it runs with FELIX_LONG_TESTS, and a part of it
// always. Blocks are reserved on the disk only: in memory they would all be filled.
func TestC233TenThousandShardsFitInFewDescriptorsAndThreads(t *testing.T) {
	if testing.Short() {
		t.Skip("opens thousands of shards")
	}
	onDisk, inMemory := 300, 10_000
	switch {
	case long():
		onDisk = 10_000
	case raceDetector:
		inMemory = 2000 // it multiplies what a shard costs
	}
	onBoth(t, func(t *testing.T, backend func(*engine.Config)) {
		for _, mode := range []engine.FsyncMode{engine.FsyncOnCommit, engine.FsyncPeriodic} {
			t.Run(mode.String(), func(t *testing.T) {
				var cfg engine.Config
				backend(&cfg)
				fewDescriptorsAndThreads(t, t.TempDir(), cfg.IOURing, mode, onDisk, "ENGINE_TEST_PREALLOCATE=1")
				if mode == engine.FsyncOnCommit {
					fewDescriptorsAndThreads(t, memoryDir(t), cfg.IOURing, mode, inMemory)
				}
			})
		}
	})
}

func fewDescriptorsAndThreads(t *testing.T, root string, backend engine.IOURingMode, mode engine.FsyncMode, count int, settings ...string) {
	t.Helper()
	out := runChild(t, "many shards", append(settings, "ENGINE_TEST_ROOT="+root, "ENGINE_TEST_FSYNC="+mode.String(),
		"ENGINE_TEST_IOURING="+settingOf(backend), fmt.Sprint("ENGINE_TEST_SHARDS=", count))...)
	var u usage
	if err := json.Unmarshal([]byte(out), &u); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d shards: %+v", count, u)
	if u.Threads > 64 {
		t.Errorf("%d threads besides the kernel's workers", u.Threads)
	}
	if u.Descriptors > 4096 {
		t.Errorf("%d descriptors", u.Descriptors)
	}
}

func settingOf(mode engine.IOURingMode) string {
	if mode == engine.IOURingOff {
		return "0"
	}
	return mode.String()
}

// openLarge is the child that opens one shard with the defaults and prints what
// that took.
func openLarge() error {
	ctx := context.Background()
	cfg := engine.DefaultConfig()
	cfg.Logger = testConfig().Logger
	store, err := engine.OpenStore(ctx, os.Getenv("ENGINE_TEST_ROOT"), cfg)
	if err != nil {
		return err
	}
	started := time.Now()
	if _, err := store.OpenLog(ctx, testKey(0)); err != nil {
		return err
	}
	u := usage{OpenSeconds: time.Since(started).Seconds()}
	if err := u.peak(); err != nil {
		return err
	}
	if err := store.Close(ctx); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(u)
}

// openOne is the child that opens one shard, reads it through when told so, and
// prints what it holds.
func openOne() error {
	ctx := context.Background()
	cfg := testConfig()
	store, err := engine.OpenStore(ctx, os.Getenv("ENGINE_TEST_ROOT"), cfg)
	if err != nil {
		return err
	}
	started := time.Now()
	l, err := store.OpenLog(ctx, testKey(0))
	if err != nil {
		return err
	}
	u := usage{OpenSeconds: time.Since(started).Seconds()}
	if err := u.peak(); err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(u); err != nil {
		return err
	}
	records := uint64(0)
	for next := l.BaseOffset(); next < l.TailOffset(); {
		page, err := l.ReadRange(ctx, next, 1<<20)
		if err != nil {
			return err
		}
		records += uint64(len(page))
		next += uint64(len(page))
	}
	if err := u.peak(); err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(u); err != nil {
		return err
	}
	if want := l.TailOffset() - l.BaseOffset(); records != want {
		return fmt.Errorf("%d of %d records", records, want)
	}
	return store.Close(ctx)
}

func TestC233TenThousandSegmentsOpenWithFewDescriptorsAndLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 20000 files")
	}
	const segments = 10_000
	measure := func(root string) (opened, read usage) {
		lines := strings.SplitN(runChild(t, "open one", "ENGINE_TEST_ROOT="+root), "\n", 2)
		for i, u := range []*usage{&opened, &read} {
			if err := json.Unmarshal([]byte(lines[i]), u); err != nil {
				t.Fatal(err)
			}
		}
		return opened, read
	}
	empty, _ := measure(memoryDir(t))

	root := memoryDir(t)
	dir := filepath.Join(root, testKey(0).DirName())
	for i := range uint64(segments) {
		placeSegment(t, dir, i, segment.Header{Version: 3, BaseOffset: i, CreatedAtMicros: fixedMicros}, "one record")
		index := segment.EncodeIndex(i, []segment.IndexEntry{{Offset: i, Position: segment.HeaderSize}})
		if err := os.WriteFile(filepath.Join(dir, segment.IndexName(i)), index, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	opened, read := measure(root)
	t.Logf("an empty shard: %+v\n%d segments opened: %+v\nand read through: %+v", empty, segments, opened, read)
	if opened.Descriptors > 300 {
		t.Errorf("%d descriptors after opening", opened.Descriptors)
	}
	if read.Descriptors > 300 {
		t.Errorf("%d descriptors after reading", read.Descriptors)
	}
	if more := opened.ResidentPeakKiB - empty.ResidentPeakKiB; more > 64<<10 {
		t.Errorf("%d KiB more than an empty shard", more)
	}
}
