package sidecar

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"felix.local/felix/device"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/internal/golden"
	"felix.local/felix/internal/simdisk"
)

func TestAbsentAndEmptyFilesAreToldApart(t *testing.T) {
	d := newDisk(t, nil)
	if b, err := Read(d, dir, name, 100); err != nil || b != nil {
		t.Errorf("absent: %v, %v", b, err)
	}
	if b, err := Read(d, "/nowhere", name, 100); err != nil || b != nil {
		t.Errorf("no directory: %v, %v", b, err)
	}
	if b, err := Read(newDisk(t, content{}), dir, name, 100); err != nil || b == nil || len(b) != 0 {
		t.Errorf("empty: %v, %v", b, err)
	}
}

func TestNoMoreIsReadThanAsked(t *testing.T) {
	d := newDisk(t, filled('o', 100))
	if b, err := Read(d, dir, name, 100); err != nil || !bytes.Equal(b, filled('o', 100)) {
		t.Errorf("%q, %v", b, err)
	}
	b, err := Read(d, dir, name, 99)
	want := DecodeError{File: name, Path: dir + "/" + name, Problem: ErrSize, Found: 100, Want: 99}
	var got *DecodeError
	if !errors.As(err, &got) || *got != want || b != nil {
		t.Errorf("%v, %v; want %v", b, err, &want)
	}
}

func TestWhatIsNoRegularFileIsNotRead(t *testing.T) {
	root := t.TempDir()
	must(t, os.Mkdir(filepath.Join(root, "directory"), 0o700))
	must(t, os.WriteFile(filepath.Join(root, "target"), []byte("x"), 0o600))
	must(t, os.Symlink("target", filepath.Join(root, "link")))
	must(t, syscall.Mkfifo(filepath.Join(root, "pipe"), 0o600))
	for _, name := range []string{"directory", "link", "pipe"} {
		_, err := Read(device.OS(), root, name, 100)
		if !errors.Is(err, device.ErrNotRegular) || !strings.Contains(err.Error(), filepath.Join(root, name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestALeftoverLinkIsNotWrittenThrough(t *testing.T) {
	root := t.TempDir()
	victim := filepath.Join(root, "victim")
	must(t, os.WriteFile(victim, []byte("precious"), 0o600))
	must(t, os.Link(victim, filepath.Join(root, "replica.tmp")))
	must(t, Replace(device.OS(), lostQueue{lost: device.Allocate}, root, "replica", []byte("new"), perm, true))
	must(t, os.Symlink(victim, filepath.Join(root, "replica.tmp")))
	must(t, Replace(device.OS(), lostQueue{lost: device.Allocate}, root, "replica", []byte("newer"), perm, true))
	for name, want := range map[string]string{"victim": "precious", "replica": "newer"} {
		if b, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

func TestAReadThatFailsNamesTheFile(t *testing.T) {
	for kind, errno := range map[faultdisk.Kinds]syscall.Errno{faultdisk.Open: syscall.EMFILE, faultdisk.Read: syscall.EIO} {
		d := newDisk(t, filled('o', 100))
		disk := faultdisk.New(d, d.NewQueue(simdisk.QueueOptions{}), faultdisk.Options{})
		disk.Inject(faultdisk.Fault{Kinds: kind, Errno: errno})
		b, err := Read(disk.FS(), dir, name, 100)
		if b != nil || !errors.Is(err, errno) || !strings.Contains(err.Error(), dir+"/"+name) {
			t.Errorf("%v: %v, %v", kind, b, err)
		}
	}
}

// shrunkFile is a file that was cut between the questions of how long it is and
// what is in it.
type shrunkFile struct{ device.File }

func (f shrunkFile) Size() (int64, error) {
	n, err := f.File.Size()
	return n + 1, err
}

type shrunkFS struct{ device.FS }

func (s shrunkFS) OpenFile(path string, mode device.OpenMode, perm fs.FileMode) (device.File, error) {
	f, err := s.FS.OpenFile(path, mode, perm)
	return shrunkFile{f}, err
}

func TestAFileThatShrinksWhileItIsReadIsAnError(t *testing.T) {
	b, err := Read(shrunkFS{newDisk(t, filled('o', 100))}, dir, name, 1000)
	if b != nil || !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), dir+"/"+name) {
		t.Errorf("%v, %v", b, err)
	}
}

// loaders load each kind of file as any; nil is none.
func loaders(markerName string) map[string]func(device.FS, string) (any, error) {
	return map[string]func(device.FS, string) (any, error){
		EpochsName:       loader(LoadEpochs),
		ReplicaName:      loader(LoadReplica),
		BallotName:       loader(LoadBallot),
		OffloadName:      loader(LoadOffload),
		StorageIDName:    loader(LoadStorageID),
		RunStateName:     loader(LoadRunState),
		RegistrationName: loader(LoadRegistration),
		MarkersDir + "/" + markerName: loader(func(disk device.FS, root string) (*Marker, error) {
			return LoadMarker(disk, root, markerName)
		}),
		NodeIDName: func(disk device.FS, root string) (any, error) {
			id, err := LoadNodeID(disk, root)
			if id == "" {
				return nil, err
			}
			return id, err
		},
	}
}

func loader[T any](load func(device.FS, string) (*T, error)) func(device.FS, string) (any, error) {
	return func(disk device.FS, dir string) (any, error) {
		v, err := load(disk, dir)
		if v == nil {
			return nil, err
		}
		return *v, err
	}
}

func TestWhatWasReplacedIsLoaded(t *testing.T) {
	marker := MarkerName("acme", "default", "orders")
	for file, load := range loaders(marker) {
		t.Run(file, func(t *testing.T) {
			d := simdisk.New()
			d.MakeDir(dir + "/" + MarkersDir)
			queue := d.NewQueue(simdisk.QueueOptions{})
			in, base := filepath.Split(filepath.Join(dir, file))
			if v, err := load(d, dir); v != nil || err != nil {
				t.Fatalf("absent: %v, %v", v, err)
			}
			whole, c := goldenOf(t, file), codecFor(t, kindOf(file))
			must(t, Replace(d, queue, in, base, whole, perm, true))
			got, err := load(d, dir)
			if diff := cmp.Diff(mustDecode(t, c, whole), got, values); err != nil || diff != "" {
				t.Fatalf("%v\n%s", err, diff)
			}

			// A damaged one, whatever the damage, is told with its path.
			for _, bad := range [][]byte{[]byte("\xff\xff\xff\xff\xff\xff\xff\xff"), bytes.Repeat([]byte{0xff}, 2<<20)} {
				must(t, Replace(d, queue, in, base, bad, perm, true))
				v, err := load(d, dir)
				var undecoded *DecodeError
				if v != nil || !errors.As(err, &undecoded) || undecoded.Path != filepath.Join(dir, file) || !strings.HasPrefix(err.Error(), undecoded.Path+": ") {
					t.Errorf("%d bytes: %v, %v", len(bad), v, err)
				}
			}

			// A longer file of a later version is told by its version.
			if later := append(whole[:4:4], append([]byte{0, 2}, make([]byte, 3000)...)...); bytes.HasPrefix(whole, []byte("FL")) {
				must(t, Replace(d, queue, in, base, later, perm, true))
				if v, err := load(d, dir); v != nil || !errors.Is(err, ErrVersion) {
					t.Errorf("of a later version: %v, %v", v, err)
				}
			}

			// Gone is gone.
			must(t, Remove(d, queue, in, base))
			if v, err := load(d, dir); v != nil || err != nil {
				t.Errorf("removed: %v, %v", v, err)
			}
		})
	}
}

func kindOf(file string) string {
	if strings.HasPrefix(file, MarkersDir) {
		return markerFile
	}
	return file
}

func goldenOf(t *testing.T, file string) []byte { return golden.Bytes(t, anyGolden(t, kindOf(file))) }

func TestTemporaryNamesReplaceTheExtension(t *testing.T) {
	for name, want := range map[string]string{
		"epochs": "epochs.tmp", "replica": "replica.tmp", "ballot": "ballot.tmp", "producers": "producers.tmp",
		"offload.manifest": "offload.tmp", "keys.idx": "keys.idx.tmp", "node-id": "node-id.tmp",
		"storage-id": "storage-id.tmp", "run-state": "run-state.tmp", "registration": "registration.tmp",
		"acme_default_orders-fcb9248e5af0da18": "acme_default_orders-fcb9248e5af0da18.tmp",
	} {
		if got := TempName(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
