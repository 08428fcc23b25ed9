package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/producer"
	"felix.local/felix/sidecar"
)

// inspected runs log inspect and gives its events about small files, by name.
func inspected(t *testing.T, dir string) (files map[string]sidecarEvent, code int) {
	t.Helper()
	var out, stderr bytes.Buffer
	code = run([]string{"log", "inspect", dir, "--json"}, &out, &stderr)
	files = make(map[string]sidecarEvent)
	for line := range strings.Lines(out.String()) {
		var e struct {
			Event string
			sidecarEvent
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err, line)
		}
		if e.Event == "sidecar" {
			files[e.File] = e.sidecarEvent
		}
	}
	if stderr.Len() > 0 {
		t.Log(stderr.String())
	}
	return files, code
}

func TestInspectSaysWhatAnOpenMakesOfEverySmallFile(t *testing.T) {
	r := newBackupRig(t)
	l := r.open(0)
	r.append(l, 30)
	dir, root := l.Dir(), r.root
	if err := r.store.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	id := engineID(t, root)
	var epochs sidecar.Epochs
	epochs.Record(3, 10)
	later := epochs
	later.Record(4, 31)
	ballot, err := sidecar.Ballot{Generation: 7, Leader: "b1"}.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	stale, err := sidecar.Ballot{Generation: 6, Leader: "b1"}.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	given, err := sidecar.Ballot{Generation: 8}.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	replica := sidecar.Replica{Generation: 7, Commit: 20, RetentionHeld: true}.AppendTo(nil)
	nobody := producer.New(producer.Options{})
	flip := func(b []byte) []byte {
		b = bytes.Clone(b)
		b[len(b)-1] ^= 1
		return b
	}
	running := sidecar.RunState{State: sidecar.Running, AcksBeforeSync: true, ID: id}
	var copies sidecar.Offload
	keys, err := sidecar.KeysIndex{}.AppendTo(nil)
	late, lateErr := sidecar.KeysIndex{KeysHeader: sidecar.KeysHeader{CoveredThrough: 31}}.AppendTo(nil)
	if err := errors.Join(err, lateErr, copies.Add(sidecar.OffloadedCopy{Last: 9}), copies.Add(sidecar.OffloadedCopy{First: 20, Last: 29})); err != nil {
		t.Fatal(err)
	}
	more := copies
	if err := more.Add(sidecar.OffloadedCopy{First: 30, Last: 30}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, file string
		content    []byte
		want       sidecarEvent
		code       int
	}{
		{"a history", "epochs", epochs.AppendTo(nil), sidecarEvent{Version: 1, Used: true, Content: "1 generations, the newest is 3 from offset 10 on"}, 0},
		{"a history past the tail", "epochs", later.AppendTo(nil), sidecarEvent{Version: 1, Used: true, Content: "the newest is 4", Reason: "1 of them begin past the tail 30 and go"}, 0},
		{"a damaged history", "epochs", flip(epochs.AppendTo(nil)), sidecarEvent{Version: 1, Reason: "wrong checksum"}, 0},
		{"a promise", "replica", replica, sidecarEvent{Version: 1, Used: true, Content: "generation 7, commit offset 20, retention is held"}, 0},
		{"a damaged promise", "replica", flip(replica), sidecarEvent{Version: 1, Reason: "wrong checksum", Refuses: true}, 7},
		{"an empty promise", "replica", []byte{}, sidecarEvent{Reason: "too short", Refuses: true}, 7},
		{"a ballot", "ballot", ballot, sidecarEvent{Version: 1, Used: true, Content: `generation 7, leader "b1"`, Reason: "it is ahead of replica"}, 0},
		{"a ballot that was given up", "ballot", given, sidecarEvent{Version: 1, Used: true, Content: `generation 8, given up`, Reason: "it is ahead of replica"}, 0},
		{"a damaged ballot", "ballot", flip(ballot), sidecarEvent{Version: 1, Reason: "wrong checksum", Refuses: true}, 7},
		{"producers", "producers", nobody.AppendTo(nil, 30, 1), sidecarEvent{Version: 1, Used: true, Content: "0 producers as of offset 30"}, 0},
		{"producers with digests", "producers", nobody.AppendTo(nil, 30, 2), sidecarEvent{Version: 2, Used: true, Content: "0 producers as of offset 30"}, 0},
		{"producers past the tail", "producers", nobody.AppendTo(nil, 31, 1), sidecarEvent{Version: 1, Content: "as of offset 31", Reason: "no segment of the log [0, 30) begins there"}, 0},
		{"producers from the future", "producers", nobody.AppendTo(nil, 30, 1)[:6], sidecarEvent{Version: 1, Reason: "rebuilt from the records"}, 0},
		{"a manifest of nothing", "offload.manifest", sidecar.Offload{}.AppendTo(nil), sidecarEvent{Version: 1, Used: true, Content: "0 segments have a copy"}, 0},
		{"a manifest", "offload.manifest", copies.AppendTo(nil), sidecarEvent{Version: 1, Used: true, Content: "2 segments have a copy, the first from offset 0 on, the last up to 29", Reason: "this build makes no copies and reads none"}, 0},
		{"a manifest of more than the log", "offload.manifest", more.AppendTo(nil), sidecarEvent{Version: 1, Used: true, Content: "the last up to 30", Reason: "there are copies past the tail 30"}, 0},
		{"a damaged manifest", "offload.manifest", flip(copies.AppendTo(nil)), sidecarEvent{Version: 1, Reason: "wrong checksum", Refuses: true}, 7},
		{"a manifest that was cut", "offload.manifest", copies.AppendTo(nil)[:20], sidecarEvent{Version: 1, Reason: "too short", Refuses: true}, 7},
		{"a manifest of a later version", "offload.manifest", append([]byte("FLOF\x00\x02"), make([]byte, 9)...), sidecarEvent{Version: 2, Reason: "unknown version", Refuses: true}, 7},
		{"an index of keys", "keys.idx", keys, sidecarEvent{Version: 1, Content: "0 keys, of the records below offset 0", Reason: "this build keeps no caches; it is left alone"}, 0},
		{"an index of keys past the tail", "keys.idx", late, sidecarEvent{Version: 1, Content: "0 keys, of the records below offset 31", Reason: "that is [0, 30); the cache reads its whole log, and the file goes"}, 0},
		{"a damaged index of keys", "keys.idx", flip(keys), sidecarEvent{Version: 1, Reason: "wrong checksum"}, 0},

		{"an id", "../storage-id", id.AppendTo(nil), sidecarEvent{Version: 1, Used: true, Content: id.String()}, 0},
		{"a damaged id", "../storage-id", flip(id.AppendTo(nil)), sidecarEvent{Version: 1, Reason: "wrong checksum", Refuses: true}, 7},
		{"a run that stopped", "../run-state", sidecar.RunState{State: sidecar.Stopped, ID: id}.AppendTo(nil), sidecarEvent{Version: 1, Used: true, Content: "stopped cleanly"}, 0},
		{"a run that crashed", "../run-state", running.AppendTo(nil), sidecarEvent{Version: 1, Used: true, Content: "running, acknowledges before it syncs: true"}, 0},
		{"a damaged run-state", "../run-state", flip(running.AppendTo(nil)), sidecarEvent{Version: 1, Reason: "the worst is taken for granted"}, 0},
		{"a registration", "../registration", sidecar.Registration{Incarnation: 5}.AppendTo(nil), sidecarEvent{Version: 1, Used: true, Content: "incarnation 5 of the node"}, 0},
		{"a damaged registration", "../registration", []byte("x"), sidecarEvent{Reason: "it counts as none"}, 0},
		{"a node id", "../node-id", []byte("n1\n"), sidecarEvent{Used: true, Content: "n1"}, 0},
		{"no node id", "../node-id", []byte("../x"), sidecarEvent{Reason: "offloading is refused"}, 0},
		{"a marker", "../.streams/t_n_s-1", sidecar.Marker{Incarnation: 2, DeletedThrough: 1, Deleting: true}.AppendTo(nil), sidecarEvent{Version: 1, Used: true, Content: "incarnation 2, deleted through 1", Reason: "a deletion is unfinished"}, 0},
		{"a damaged marker", "../.streams/t_n_s-1", []byte("version 1\n"), sidecarEvent{Reason: "its stream is refused, others are served"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(dir, c.file)
			before, missing := os.ReadFile(path)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, c.content, 0o640)); err != nil {
				t.Fatal(err)
			}
			defer func() {
				err := os.Remove(path)
				if missing == nil {
					err = errors.Join(err, os.WriteFile(path, before, 0o640))
				}
				if err != nil {
					t.Error(err)
				}
			}()
			files, code := inspected(t, root)
			got, there := files[filepath.Base(c.file)]
			if !there || code != c.code {
				t.Fatalf("there %v, exit code %d, want %d: %+v", there, code, c.code, files)
			}
			if got.Version != c.want.Version || got.Used != c.want.Used || got.Refuses != c.want.Refuses ||
				!strings.Contains(got.Content, c.want.Content) || !strings.Contains(got.Reason, c.want.Reason) || (got.Reason == "") != (c.want.Reason == "") {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if text := got.text(); !strings.HasPrefix(text, "  "+got.File) || got.Refuses != strings.Contains(text, "REFUSES") {
				t.Error(text)
			}
			// The tool and an open agree.
			store, err := engine.OpenStore(r.ctx, copyOf(t, root), r.cfg)
			if err == nil {
				_, err = store.OpenLog(r.ctx, backupKey(0))
				err = errors.Join(err, store.Close(r.ctx))
			}
			if (err != nil) != c.want.Refuses {
				t.Errorf("an open says %v", err)
			}
		})
	}

	// What two files say of each other.
	for name, content := range map[string][]byte{"replica": replica, "ballot": stale} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "run-state"), running.AppendTo(nil), 0o640); err != nil {
		t.Fatal(err)
	}
	files, _ := inspected(t, root)
	if got := files["ballot"]; got.Used || got.Reason != "replica is at generation 7 already" {
		t.Errorf("%+v", got)
	}
	if got := files["storage-id"]; got.Used || !strings.Contains(got.Reason, "the next start makes a new id: the last run crashed") {
		t.Errorf("%+v", got)
	}
	// A root without a shard is one too.
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if files, code := inspected(t, root); len(files) != 2 || code != 0 {
		t.Errorf("%+v, exit code %d", files, code)
	}
}

// What is not there, or cannot be read at all, is said as well, and an open agrees.
func TestInspectSaysWhatKeepsAStartFromUsingADirectory(t *testing.T) {
	remove := func(name string) func(root string) error {
		return func(root string) error { return os.Remove(filepath.Join(root, name)) }
	}
	// A directory in its place cannot be read, by root neither.
	unreadable := func(name string) func(root string) error {
		return func(root string) error {
			path := filepath.Join(root, name)
			return errors.Join(os.RemoveAll(path), os.Mkdir(path, 0o750))
		}
	}
	for _, c := range []struct {
		name, file string
		change     func(root string) error
		reason     string
		refuses    bool
	}{
		{"a restore did not finish", ".restoring", func(root string) error { return os.WriteFile(filepath.Join(root, ".restoring"), nil, 0o640) }, "run felixd restore again", true},
		{"no storage-id", "storage-id", remove("storage-id"), "the next start makes a new id: storage-id is gone", false},
		{"no small file at all", "storage-id", func(root string) error { return errors.Join(remove("storage-id")(root), remove("run-state")(root)) }, "the next start makes a new id: the directory had none", false},
		{"no storage-id, and run-state cannot be read", "storage-id", func(root string) error { return errors.Join(remove("storage-id")(root), unreadable("run-state")(root)) }, "a start that is not refused makes a new id", true},
		{"a storage-id that cannot be read", "storage-id", unreadable("storage-id"), "storage-id", true},
		{"a run-state that cannot be read", "run-state", unreadable("run-state"), "run-state", true},
		{"a registration that cannot be read", "registration", unreadable("registration"), "registration", true},
		{"a history that cannot be read", "epochs", unreadable("t_n_s_0-57c051dac440ed07/epochs"), "epochs", true},
		{"a mark that is damaged", "durable.mark", func(root string) error {
			return os.WriteFile(filepath.Join(root, "t_n_s_0-57c051dac440ed07/durable.mark"), []byte("FLDM\x00\x01"), 0o640)
		}, "the strict rules apply", false},
		{"an empty node id", "node-id", func(root string) error { return os.WriteFile(filepath.Join(root, "node-id"), []byte(" \n"), 0o640) }, "a new one is made", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newBackupRig(t)
			r.append(r.open(0), 30)
			if err := r.store.Close(r.ctx); err != nil {
				t.Fatal(err)
			}
			if err := c.change(r.root); err != nil {
				t.Fatal(err)
			}
			files, code := inspected(t, r.root)
			got, there := files[c.file]
			if !there || got.Used || !strings.Contains(got.Reason, c.reason) || (code == exitRefused) != c.refuses {
				t.Errorf("exit code %d, %v: %+v", code, there, got)
			}
			if c.file != "storage-id" && got.Refuses != c.refuses {
				t.Errorf("it refuses: %v", got.Refuses)
			}
			store, err := engine.OpenStore(r.ctx, copyOf(t, r.root), r.cfg)
			if err == nil {
				_, err = store.OpenLog(r.ctx, backupKey(0))
				err = errors.Join(err, store.Close(r.ctx))
			}
			if (err != nil) != c.refuses {
				t.Errorf("an open says %v", err)
			}
		})
	}
}

// An open reads the mark's own bytes and ignores what follows, however much it is.
func TestInspectIgnoresWhatFollowsAMarkInItsFile(t *testing.T) {
	r := newBackupRig(t)
	r.append(r.open(0), 30)
	if err := r.store.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(r.root, "t_n_s_0-57c051dac440ed07/durable.mark"), 1<<30); err != nil {
		t.Fatal(err)
	}
	files, code := inspected(t, r.root)
	if got := files["durable.mark"]; code != 0 || !got.Used || got.Refuses || !strings.Contains(got.Content, "is durable through byte") {
		t.Errorf("exit code %d, %+v", code, got)
	}
	store, err := engine.OpenStore(r.ctx, r.root, r.cfg)
	if err == nil {
		_, err = store.OpenLog(r.ctx, backupKey(0))
		err = errors.Join(err, store.Close(r.ctx))
	}
	if err != nil {
		t.Errorf("an open says %v", err)
	}
}

func TestInspectShowsTheMarkersOfCaches(t *testing.T) {
	r := newBackupRig(t)
	if err := r.store.Close(r.ctx); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(r.root, "caches", sidecar.MarkersDir)
	if err := errors.Join(os.MkdirAll(dir, 0o750), os.WriteFile(filepath.Join(dir, "t_n_c-1"), sidecar.Marker{Incarnation: 2}.AppendTo(nil), 0o640)); err != nil {
		t.Fatal(err)
	}
	files, code := inspected(t, r.root)
	if got := files["t_n_c-1"]; code != 0 || got.Dir != dir || got.Used || got.Version != 1 || !strings.Contains(got.Reason, "keeps no caches") {
		t.Errorf("exit code %d, %+v", code, got)
	}
}

func engineID(t *testing.T, root string) sidecar.StorageID {
	t.Helper()
	id, err := sidecar.LoadStorageID(device.OS(), root)
	if err != nil || id == nil {
		t.Fatal(id, err)
	}
	return *id
}

func copyOf(t *testing.T, root string) string {
	t.Helper()
	for {
		to := filepath.Join(t.TempDir(), "root")
		err := os.CopyFS(to, os.DirFS(root))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a temporary of a small file took its place meanwhile
		}
		if err != nil {
			t.Fatal(err)
		}
		return to
	}
}
