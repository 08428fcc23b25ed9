package faultdisk_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"felix.local/felix/device"
	"felix.local/felix/device/devicetest"
	"felix.local/felix/fallback"
	"felix.local/felix/internal/faultdisk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWithoutFaultsTheWrapperKeepsEveryPromiseOfADisk(t *testing.T) {
	for _, track := range []bool{false, true} {
		t.Run(fmt.Sprintf("dirty bytes tracked %v", track), func(t *testing.T) {
			devicetest.Run(t, func(t *testing.T) devicetest.Disk {
				d := faultdisk.New(device.OS(), fallback.Open(fallback.Options{}), faultdisk.Options{TrackDirty: track})
				return devicetest.Disk{FS: d.FS(), Queue: d.Queue(), Root: t.TempDir()}
			})
		})
	}
}

// rig is a wrapped disk with one file open.
type rig struct {
	*testing.T
	*faultdisk.Disk
	dir string
	f   device.File
}

func newRig(t *testing.T, o faultdisk.Options) *rig {
	r := &rig{T: t, Disk: faultdisk.New(device.OS(), fallback.Open(fallback.Options{Workers: 4}), o), dir: t.TempDir()}
	t.Cleanup(func() {
		if err := r.Queue().Close(); err != nil {
			t.Error(err)
		}
		r.f.Close()
	})
	var err error
	if r.f, err = r.FS().OpenFile(r.path("f"), device.CreateNew, 0o640); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, name) }

func (r *rig) write(kind device.Kind, text string, pos int64) *device.Op {
	op := &device.Op{Kind: kind, File: r.f, Buf: []byte(text), Pos: pos}
	_ = device.Do(r.Queue(), op)
	return op
}

func (r *rig) flush() error {
	return device.Do(r.Queue(), &device.Op{Kind: device.Flush, File: r.f})
}

func (r *rig) wantContent(want string) {
	r.Helper()
	size, err := r.f.Size()
	if err != nil {
		r.Fatal(err)
	}
	got := make([]byte, size)
	if _, err := r.f.ReadAt(got, 0); err != nil {
		r.Fatal(err)
	}
	if !bytes.Equal(got, []byte(want)) {
		r.Fatalf("content %q, want %q", got, want)
	}
}

func TestTheKthOperationOfAKindFailsLikeARealOne(t *testing.T) {
	r := newRig(t, faultdisk.Options{})
	fault := r.Inject(faultdisk.Fault{Kinds: faultdisk.WriteDsync, At: 2, Errno: syscall.ENOSPC})
	if op := r.write(device.WriteDsync, "one", 0); op.Err != nil {
		t.Fatal(op.Err)
	}
	if op := r.write(device.Write, "two", 3); op.Err != nil {
		t.Fatal(op.Err)
	}
	op := r.write(device.WriteDsync, "three", 6)
	var typed *device.Error
	if !errors.As(op.Err, &typed) || typed.Class != device.ClassFull || !errors.Is(op.Err, syscall.ENOSPC) ||
		typed.Path != r.path("f") || typed.Pos != 6 || typed.Op != "write_dsync" || op.N != 0 {
		t.Fatalf("%d, %#v", op.N, op.Err)
	}
	if op := r.write(device.WriteDsync, "three", 6); op.Err != nil {
		t.Fatal(op.Err)
	}
	r.wantContent("onetwothree")
	if fault.Hits() != 1 {
		t.Fatalf("%d hits", fault.Hits())
	}
	s := r.Queue().Stats()
	if s.Ops[device.WriteDsync] != 3 || s.Errors[device.WriteDsync] != 1 || s.Errors[device.Write] != 0 {
		t.Fatalf("%+v", s)
	}
}

func TestEveryKindCanFail(t *testing.T) {
	do := func(r *rig, kind device.Kind, f device.File) error {
		return device.Do(r.Queue(), &device.Op{Kind: kind, File: f, Buf: make([]byte, 8), Len: 4096})
	}
	for kind, try := range map[faultdisk.Kinds]func(r *rig) error{
		faultdisk.Write:      func(r *rig) error { return do(r, device.Write, r.f) },
		faultdisk.WriteDsync: func(r *rig) error { return do(r, device.WriteDsync, r.f) },
		faultdisk.Flush:      func(r *rig) error { return do(r, device.Flush, r.f) },
		faultdisk.FlushAll:   func(r *rig) error { return do(r, device.FlushAll, r.f) },
		faultdisk.Allocate:   func(r *rig) error { return do(r, device.Allocate, r.f) },
		faultdisk.FlushDir: func(r *rig) error {
			dir, err := r.FS().OpenDir(r.dir)
			if err != nil {
				return nil
			}
			defer dir.Close()
			return do(r, device.FlushAll, dir)
		},
		faultdisk.Create: func(r *rig) error {
			_, err := r.FS().OpenFile(r.path("new"), device.OpenOrCreate, 0o640)
			if _, missing := r.FS().Lstat(r.path("new")); !device.IsNotExist(missing) {
				return nil
			}
			return err
		},
		faultdisk.Open: func(r *rig) error {
			_, err := r.FS().OpenFile(r.path("f"), device.OpenOrCreate, 0o640)
			return err
		},
		faultdisk.OpenDir:   func(r *rig) error { _, err := r.FS().OpenDir(r.dir); return err },
		faultdisk.Mkdir:     func(r *rig) error { return r.FS().Mkdir(r.path("d"), 0o750) },
		faultdisk.Rename:    func(r *rig) error { return r.FS().Rename(r.path("f"), r.path("g")) },
		faultdisk.Remove:    func(r *rig) error { return r.FS().Remove(r.path("f")) },
		faultdisk.Truncate:  func(r *rig) error { return r.f.Truncate(0) },
		faultdisk.DropCache: func(r *rig) error { return r.f.DropCache(0) },
		faultdisk.Read:      func(r *rig) error { _, err := r.f.ReadAt(make([]byte, 1), 0); return err },
		faultdisk.ReadDir:   func(r *rig) error { _, err := r.FS().ReadDir(r.dir); return err },
		faultdisk.Lstat:     func(r *rig) error { _, err := r.FS().Lstat(r.path("f")); return err },
		faultdisk.Lock:      func(r *rig) error { _, err := r.FS().Lock(r.dir, false); return err },
		faultdisk.Space:     func(r *rig) error { _, err := r.FS().Space(r.dir); return err },
	} {
		t.Run(kind.String(), func(t *testing.T) {
			r := newRig(t, faultdisk.Options{})
			r.Inject(faultdisk.Fault{Kinds: kind, Errno: syscall.EREMOTEIO})
			err := try(r)
			var typed *device.Error
			if !errors.As(err, &typed) || !errors.Is(err, syscall.EREMOTEIO) || typed.Class != device.ClassIO ||
				!strings.HasPrefix(typed.Path, r.dir) {
				t.Fatalf("%v", err)
			}
			if n := r.Count(kind); n == 0 {
				t.Fatal("not counted")
			}
		})
	}
}

func TestOpsOnTheCallersGoroutineFailToo(t *testing.T) {
	r := newRig(t, faultdisk.Options{})
	r.Inject(faultdisk.Fault{Kinds: faultdisk.Write, Errno: syscall.EIO, Lands: faultdisk.Half})
	op := &device.Op{Kind: device.Write, File: r.f, Buf: []byte("abcdef")}
	if n, err := r.f.Perform(op); n != 3 || !errors.Is(err, syscall.EIO) || op.Pieces != 2 {
		t.Fatal(n, err, op.Pieces)
	}
	r.wantContent("abc")
}

func TestHalfOfAShortWriteLands(t *testing.T) {
	r := newRig(t, faultdisk.Options{})
	r.Inject(faultdisk.Fault{Kinds: faultdisk.Writes, Errno: syscall.ENOSPC, Lands: faultdisk.Half})
	op := r.write(device.Write, "12345678", 2)
	var typed *device.Error
	if op.N != 4 || op.Pieces < 2 || !errors.As(op.Err, &typed) || typed.Pos != 6 {
		t.Fatalf("%d in %d pieces, %v", op.N, op.Pieces, op.Err)
	}
	r.wantContent("\x00\x001234")
}

func TestAWriteThatFailsInItsSyncHalfLandsWhole(t *testing.T) {
	r := newRig(t, faultdisk.Options{})
	r.Inject(faultdisk.Fault{Kinds: faultdisk.WriteDsync, Errno: syscall.EIO, Lands: faultdisk.Everything})
	if op := r.write(device.WriteDsync, "12345678", 0); op.N != 0 || op.Err == nil {
		t.Fatal(op.N, op.Err)
	}
	r.wantContent("12345678")
}

func TestAFaultHitsAsOftenAsToldAndOnlyItsPaths(t *testing.T) {
	r := newRig(t, faultdisk.Options{})
	fault := r.Inject(faultdisk.Fault{
		Kinds: faultdisk.Create, At: 2, Times: 2, Errno: syscall.EMFILE,
		Path: func(path string) bool { return strings.HasSuffix(path, ".log") },
	})
	var failed []string
	for _, name := range []string{"1.log", "1.index", "2.log", "2.index", "3.log", "4.log"} {
		f, err := r.FS().OpenFile(r.path(name), device.CreateNew, 0o640)
		if device.ClassOf(err) == device.ClassTooManyFiles {
			failed = append(failed, name)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	if fmt.Sprint(failed) != "[2.log 3.log]" || fault.Hits() != 2 {
		t.Fatalf("%v failed, %d hits", failed, fault.Hits())
	}
}

func TestARemovedFaultHitsNothing(t *testing.T) {
	r := newRig(t, faultdisk.Options{})
	fault := r.Inject(faultdisk.Fault{Kinds: faultdisk.Flush, Times: faultdisk.Forever, Errno: syscall.EIO})
	for range 2 {
		if r.flush() == nil {
			t.Fatal("no failure")
		}
	}
	fault.Remove()
	if err := r.flush(); err != nil {
		t.Fatal(err)
	}
}

func TestAHeldOpDelaysNeitherSubmitNorOthers(t *testing.T) {
	r := newRig(t, faultdisk.Options{})
	fault := r.Inject(faultdisk.Fault{Kinds: faultdisk.WriteDsync, Stall: true})
	held := &device.Op{Kind: device.WriteDsync, File: r.f, Buf: []byte("held")}
	free := &device.Op{Kind: device.Write, File: r.f, Buf: []byte("free"), Pos: 4}
	r.Queue().Submit(held, free)
	if err := free.Wait(); err != nil {
		t.Fatal(err)
	}
	<-fault.Reached()
	select {
	case <-held.Done():
		t.Fatal("completed while held")
	default:
	}
	r.wantContent("\x00\x00\x00\x00free")
	fault.Release()
	if err := held.Wait(); err != nil {
		t.Fatal(err)
	}
	r.wantContent("heldfree")
}

func TestAHeldOpFailsWhenReleasedIfToldTo(t *testing.T) {
	r := newRig(t, faultdisk.Options{})
	fault := r.Inject(faultdisk.Fault{Kinds: faultdisk.Rename, Stall: true, Errno: syscall.EIO})
	result := make(chan error)
	go func() { result <- r.FS().Rename(r.path("f"), r.path("g")) }()
	<-fault.Reached()
	fault.Release()
	if err := <-result; !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
}

func TestTheRecordTellsWhatEndedBeforeWhatStarted(t *testing.T) {
	r := newRig(t, faultdisk.Options{})
	dir, err := r.FS().OpenDir(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	fault := r.Inject(faultdisk.Fault{Kinds: faultdisk.FlushDir, Stall: true})
	r.write(device.WriteDsync, "header", 0)
	flush := &device.Op{Kind: device.FlushAll, File: dir}
	r.Queue().Submit(flush)
	r.write(device.Write, "record", 6)
	fault.Release()
	if err := flush.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := r.FS().Rename(r.path("f"), r.path("g")); err != nil {
		t.Fatal(err)
	}
	log := r.Log(faultdisk.Changes)
	want := "[create f write_dsync f 0+6 flush_dir " + filepath.Base(r.dir) + " write f 6+6 rename f g]"
	if got := fmt.Sprint(log); got != want {
		t.Fatalf("record %s, want %s", got, want)
	}
	if !log[1].Before(log[2]) || log[2].Before(log[3]) || log[3].Before(log[2]) || !log[2].Before(log[4]) {
		t.Fatalf("order: %+v", log)
	}
	r.ClearLog()
	if len(r.Log(faultdisk.All)) != 0 || r.Count(faultdisk.Writes) != 2 {
		t.Fatal("the record stays or the counters go")
	}
}

func TestAFailedFlushLosesDirtyBytes(t *testing.T) {
	r := newRig(t, faultdisk.Options{TrackDirty: true})
	r.write(device.Write, "flushed.", 0)
	if err := r.flush(); err != nil {
		t.Fatal(err)
	}
	r.write(device.Write, "DIRTY", 2)
	r.write(device.WriteDsync, "dsync", 8)
	r.write(device.Write, "more dirty", 11)
	r.wantContent("flDIRTY.dsymore dirty")
	if err := r.FS().Rename(r.path("f"), r.path("g")); err != nil {
		t.Fatal(err)
	}
	r.Inject(faultdisk.Fault{Kinds: faultdisk.Flush, Errno: syscall.EIO, DropDirty: true})
	if err := r.flush(); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	r.wantContent("flushed.dsync")
	// The next flush succeeds, as it does on a real disk, with the bytes gone.
	if err := r.flush(); err != nil {
		t.Fatal(err)
	}
	r.wantContent("flushed.dsync")
}

func TestAFailedWriteBackIsReportedToOneOfTwoFlushesAtATime(t *testing.T) {
	r := newRig(t, faultdisk.Options{TrackDirty: true})
	r.write(device.Write, "flushed.", 0)
	if err := r.flush(); err != nil {
		t.Fatal(err)
	}
	r.write(device.Write, "LOST", 2)
	r.write(device.Write, "LOST", 8)
	first := r.Inject(faultdisk.Fault{Kinds: faultdisk.Flush, Errno: syscall.EIO, DropDirty: true, Stall: true})
	t.Cleanup(first.Release)
	told := make(chan error)
	go func() { told <- r.flush() }()
	<-first.Reached()
	r.wantContent("flLOSTd.LOST") // until the page is given up, readers see it
	r.write(device.Write, "later", 12)
	if err := r.flush(); err != nil {
		t.Fatal(err)
	}
	first.Release()
	if err := <-told; !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	r.wantContent("flushed.\x00\x00\x00\x00later")
}

func TestAFileMadeAnewRemembersNothingOfAnEarlierOne(t *testing.T) {
	r := newRig(t, faultdisk.Options{TrackDirty: true})
	r.write(device.WriteDsync, "first", 0)
	r.f.Close()
	if err := r.FS().Remove(r.path("f")); err != nil {
		t.Fatal(err)
	}
	var err error
	if r.f, err = r.FS().OpenFile(r.path("f"), device.CreateNew, 0o640); err != nil {
		t.Fatal(err)
	}
	r.write(device.Write, "second", 0)
	r.Inject(faultdisk.Fault{Kinds: faultdisk.Flush, Errno: syscall.EIO, DropDirty: true})
	if err := r.flush(); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	r.wantContent("")
}

func TestFaultsThatMakeNoSensePanic(t *testing.T) {
	d := faultdisk.New(device.OS(), nil, faultdisk.Options{})
	for _, f := range []faultdisk.Fault{
		{},
		{Errno: syscall.EIO, At: -1},
		{Errno: syscall.EIO, Kinds: 1 << 31},
		{Errno: syscall.EIO, DropDirty: true},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v was taken", f)
				}
			}()
			d.Inject(f)
		}()
	}
}

func TestCountsAreExactUnderConcurrency(t *testing.T) {
	r := newRig(t, faultdisk.Options{})
	const workers, each = 8, 50
	fault := r.Inject(faultdisk.Fault{Kinds: faultdisk.Write, At: 100, Times: 10, Errno: syscall.EIO})
	var all sync.WaitGroup
	var mu sync.Mutex
	failures := 0
	for i := range workers {
		all.Go(func() {
			for j := range each {
				op := &device.Op{Kind: device.Write, File: r.f, Buf: []byte("x"), Pos: int64(i*each + j)}
				if device.Do(r.Queue(), op) != nil {
					mu.Lock()
					failures++
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	if failures != 10 || fault.Hits() != 10 || r.Count(faultdisk.Write) != workers*each {
		t.Fatalf("%d failures, %d hits, %d writes", failures, fault.Hits(), r.Count(faultdisk.Write))
	}
}

func TestANameThatIsTakenIsStillTaken(t *testing.T) {
	r := newRig(t, faultdisk.Options{})
	if _, err := r.FS().OpenFile(r.path("f"), device.CreateNew, 0o640); !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
}

// wrapped is a file as a caller may wrap it for reasons of its own.
type wrapped struct{ device.File }

func (w wrapped) Unwrap() device.File { return w.File }

func TestAFileThatTheCallerWrappedIsCountedOnceAndTracked(t *testing.T) {
	r := newRig(t, faultdisk.Options{TrackDirty: true})
	r.Inject(faultdisk.Fault{Kinds: faultdisk.Flush, Errno: syscall.EIO, DropDirty: true})
	f := wrapped{wrapped{r.f}}
	if err := device.Do(r.Queue(), &device.Op{Kind: device.Write, File: f, Buf: []byte("lost")}); err != nil {
		t.Fatal(err)
	}
	if err := device.Do(r.Queue(), &device.Op{Kind: device.Flush, File: f}); !errors.Is(err, device.ErrIO) {
		t.Fatal(err)
	}
	r.wantContent("")
	if n := r.Count(faultdisk.Write | faultdisk.Flush); n != 2 {
		t.Fatalf("%d operations counted", n)
	}
}
