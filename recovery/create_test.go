package recovery

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/segment"
)

var testHeader = segment.Header{Version: segment.VersionDefault, BaseOffset: 40, CreatedAtMicros: 7}

func TestCreatedSegmentIsReadyForRecords(t *testing.T) {
	s := newShard(t)
	s.sealed(1)
	s.write(segment.IndexName(1), []byte("left by a crash, and longer than an index header"))
	f, err := CreateSegment(osDisk(), s.dir, 1, testHeader, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := s.read(segment.LogName(1)); string(got) != string(testHeader.AppendTo(nil)) {
		t.Errorf("the segment holds %x", got)
	}
	if got := s.read(segment.IndexName(1)); string(got) != string(segment.AppendIndexHeader(nil, 40)) {
		t.Errorf("the index holds %x", got)
	}
	info, err := os.Stat(s.path(segment.LogName(1)))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestFailedCreationLeavesNothing(t *testing.T) {
	for _, c := range []struct {
		kind  faultdisk.Kinds
		stage CreateStage
	}{
		{faultdisk.Create, StageOpen},
		{faultdisk.WriteDsync, StageHeader},
		{faultdisk.FlushDir, StageDirectory},
		{faultdisk.OpenDir, StageDirectory},
	} {
		t.Run("C228 full disk at "+c.kind.String(), func(t *testing.T) {
			s := newShard(t)
			s.sealed(1)
			before := digest(s.state())
			disk := faultdisk.New(device.OS(), inline{}, faultdisk.Options{})
			disk.Inject(faultdisk.Fault{Kinds: c.kind, Errno: syscall.ENOSPC, Lands: faultdisk.Half})
			_, err := CreateSegment(Disk{FS: disk.FS(), Queue: disk.Queue()}, s.dir, 1, testHeader, 0o600)
			var failed *CreateError
			if !errors.As(err, &failed) || failed.Stage != c.stage || failed.Path != s.path(segment.LogName(1)) || !errors.Is(err, device.ErrFull) {
				t.Errorf("got %v", err)
			}
			if before != digest(s.state()) {
				t.Error("something is left of the segment")
			}
		})
	}
}

func TestMissingIndexFailsNoCreation(t *testing.T) {
	s := newShard(t)
	s.sealed(1)
	disk := faultdisk.New(device.OS(), inline{}, faultdisk.Options{})
	disk.Inject(faultdisk.Fault{Kinds: faultdisk.Create, Errno: syscall.ENOSPC, Path: func(path string) bool { return strings.HasSuffix(path, ".index") }})
	heard := ""
	f, err := CreateSegment(Disk{FS: disk.FS(), Queue: disk.Queue(), IndexFailed: func(path string, err error) {
		heard = path + ": " + err.Error()
	}}, s.dir, 1, testHeader, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !strings.Contains(heard, s.path(segment.IndexName(1))) || !strings.Contains(heard, "disk full") {
		t.Errorf("heard %q", heard)
	}
}

func TestSegmentIsNeverMadeOverAnother(t *testing.T) {
	s := newShard(t)
	s.sealed(1)
	before := digest(s.state())
	if _, err := CreateSegment(osDisk(), s.dir, 0, testHeader, 0o600); !errors.Is(err, os.ErrExist) {
		t.Errorf("got %v", err)
	}
	if before != digest(s.state()) {
		t.Error("the segment that was there changed")
	}
}

// splitting takes dsync writes in two transfers, or refuses them.
type splitting struct {
	inline
	refusal error
	flushes int
}

func (q *splitting) Submit(ops ...*device.Op) {
	for _, op := range ops {
		switch {
		case op.Kind == device.WriteDsync && q.refusal != nil:
			op.Prepare()
			op.Complete(0, device.NewError("write_dsync", op.File.Name(), 0, q.refusal))
			continue
		case op.Kind == device.Flush:
			q.flushes++
		}
		kind := op.Kind
		q.inline.Submit(op)
		if kind == device.WriteDsync {
			op.Pieces = 2
		}
	}
}

func TestHeaderIsFlushedWhenOneDsyncWriteDoesNotCoverIt(t *testing.T) {
	for name, c := range map[string]struct {
		refusal error
		noDsync bool
	}{
		"two transfers":                       {},
		"no dsync writes":                     {refusal: syscall.EOPNOTSUPP},
		"dsync writes known not to be had":    {refusal: syscall.EINVAL, noDsync: true},
		"dsync writes that are not asked for": {noDsync: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShard(t)
			s.sealed(1)
			queue := &splitting{refusal: c.refusal}
			f, err := CreateSegment(Disk{FS: device.OS(), Queue: queue, NoDsync: c.noDsync}, s.dir, 1, testHeader, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if queue.flushes != 1 || string(s.read(segment.LogName(1))) != string(testHeader.AppendTo(nil)) {
				t.Errorf("%d flushes", queue.flushes)
			}
		})
	}
}

func TestInvalidDsyncWriteIsAnErrorWhereDsyncWritesAreToBeHad(t *testing.T) {
	s := newShard(t)
	s.sealed(1)
	queue := &splitting{refusal: syscall.EINVAL}
	if _, err := CreateSegment(Disk{FS: device.OS(), Queue: queue}, s.dir, 1, testHeader, 0o600); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("got %v", err)
	}
}

func TestDirectoriesAreMadeFromTheTopEachWithADurableName(t *testing.T) {
	root := fastDir(t)
	disk := faultdisk.New(device.OS(), inline{}, faultdisk.Options{})
	path := filepath.Join(root, "a", "b", "c")
	if err := MakeDirs(Disk{FS: disk.FS(), Queue: disk.Queue()}, path, 0o750); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range disk.Log(faultdisk.Changes) {
		got = append(got, e.String())
	}
	want := "mkdir a, flush_dir " + filepath.Base(root) + ", mkdir b, flush_dir a, mkdir c, flush_dir b"
	if strings.Join(got, ", ") != want {
		t.Errorf("got %v", got)
	}
	disk.ClearLog()
	if err := MakeDirs(Disk{FS: disk.FS(), Queue: disk.Queue()}, path+"/", 0o750); err != nil {
		t.Fatal(err)
	}
	if log := disk.Log(faultdisk.Changes); len(log) != 1 || log[0].String() != "flush_dir b" {
		t.Errorf("an existing directory: %v", log)
	}
}

func TestDirectoryThatCannotBeMadeIsAnError(t *testing.T) {
	s := newShard(t)
	s.write("file", nil)
	if err := MakeDirs(osDisk(), s.path("file/below"), 0o750); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("got %v", err)
	}
}
