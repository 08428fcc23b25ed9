package engine_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/sidecar"
)

func storageID(b byte) (id sidecar.StorageID) {
	for i := range id {
		id[i] = b + byte(i)
	}
	return id
}

func put(t testing.TB, root, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(root, name), data, 0o640); err != nil {
		t.Fatal(err)
	}
}

func content(t testing.TB, root, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// runState is what a root says about its last run.
func runState(t testing.TB, root string) sidecar.RunState {
	t.Helper()
	state, err := sidecar.DecodeRunState(content(t, root, sidecar.RunStateName))
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// openRoot opens a root and closes it again.
func openRoot(t testing.TB, root string, change ...func(*engine.Config)) (engine.Identity, error) {
	t.Helper()
	cfg := testConfig()
	cfg.Random = nil
	for _, f := range change {
		f(&cfg)
	}
	store, err := engine.OpenStore(t.Context(), root, cfg)
	if err != nil {
		return engine.Identity{}, err
	}
	id := store.Identity()
	if on := runState(t, root); on.State != sidecar.Running || on.ID != id.ID {
		t.Errorf("run-state of a store that runs: %+v, its id %v", on, id.ID)
	}
	if err := store.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if off := runState(t, root); off.State != sidecar.Stopped || off.ID != id.ID {
		t.Errorf("run-state of a store that was closed: %+v, its id %v", off, id.ID)
	}
	if on, err := sidecar.DecodeStorageID(content(t, root, sidecar.StorageIDName)); err != nil || on != id.ID {
		t.Errorf("storage-id %v %v, the store had %v", on, err, id.ID)
	}
	return id, nil
}

func TestTheIdentityFilesHaveTheirBytes(t *testing.T) {
	id := storageID(0)
	for _, mode := range []engine.FsyncMode{engine.FsyncPeriodic, engine.FsyncOnCommit} {
		r := newRig(t, func(c *engine.Config) { c.FsyncMode, c.Random = mode, bytes.NewReader(id[:]) })
		if err := r.store.Register(r.ctx, 7); err != nil {
			t.Fatal(err)
		}
		running := map[engine.FsyncMode]string{
			engine.FsyncPeriodic: "464c524e" + "0001" + "01" + "01" + hex.EncodeToString(id[:]) + "c7ab2c20",
		}
		want := map[string]string{
			"storage-id":   "464c4944" + "0001" + "0000" + hex.EncodeToString(id[:]) + "47a59888",
			"registration": "464c524700010000000000000000000" + "7472bd472",
		}
		if text, ok := running[mode]; ok {
			want["run-state"] = text
		}
		for name, text := range want {
			if got := hex.EncodeToString(content(t, r.root, name)); got != text {
				t.Errorf("%v: %s is %s, want %s", mode, name, got, text)
			}
		}
		root := r.root
		r.close()
		if mode == engine.FsyncOnCommit {
			text := "464c524e" + "0001" + "02" + "00" + hex.EncodeToString(id[:]) + "aa8b3a01"
			if got := hex.EncodeToString(content(t, root, "run-state")); got != text {
				t.Errorf("after closing run-state is %s, want %s", got, text)
			}
		}
		for _, e := range names(t, root) {
			if strings.HasSuffix(e, ".tmp") {
				t.Errorf("%s is left", e)
			}
		}
	}
}

// What becomes of the id, for each way in which the files of a root can stand.
func TestAStartKeepsItsIDUnlessAcknowledgedRecordsMayBeMissing(t *testing.T) {
	old, other := storageID(0), storageID(100)
	run := func(state sidecar.State, ahead bool, id sidecar.StorageID) []byte {
		return sidecar.RunState{State: state, AcksBeforeSync: ahead, ID: id}.AppendTo(nil)
	}
	id := old.AppendTo(nil)
	packed := slices.Delete(slices.Clone(id), 6, 8)
	packed = append(packed[:22], 0x1f, 0x8b, 0x46, 0x2d)
	for _, c := range []struct {
		name     string
		id, run  []byte
		fresh    bool
		previous engine.PreviousRun
	}{
		{"nothing", nil, nil, true, engine.RunNone},
		{"an id alone", id, nil, false, engine.RunNone},
		{"a packed id", packed, nil, false, engine.RunNone},
		{"stopped", id, run(sidecar.Stopped, false, old), false, engine.RunStopped},
		{"stopped after a run that acknowledged ahead", id, run(sidecar.Stopped, true, old), false, engine.RunStopped},
		{"crashed", id, run(sidecar.Running, false, old), false, engine.RunCrashed},
		{"crashed while it acknowledged ahead", id, run(sidecar.Running, true, old), true, engine.RunCrashedAhead},
		{"crashed behind a new id", id, run(sidecar.Running, true, other), false, engine.RunCrashedAhead},
		{"stopped under another id", id, run(sidecar.Stopped, false, other), false, engine.RunStopped},
		{"stopped and no id", nil, run(sidecar.Stopped, false, old), true, engine.RunStopped},
		{"crashed and no id", nil, run(sidecar.Running, false, old), true, engine.RunCrashed},
		{"a run-state from the future", id, withVersion(run(sidecar.Stopped, false, old), 2), true, engine.RunUnreadable},
		{"an empty run-state", id, []byte{}, true, engine.RunUnreadable},
	} {
		for _, mode := range []engine.FsyncMode{engine.FsyncNone, engine.FsyncPeriodic, engine.FsyncOnCommit} {
			t.Run(fmt.Sprint(c.name, ", ", mode), func(t *testing.T) {
				root := memoryDir(t)
				if c.id != nil {
					put(t, root, sidecar.StorageIDName, c.id)
				}
				if c.run != nil {
					put(t, root, sidecar.RunStateName, c.run)
				}
				put(t, root, "storage-id.tmp", []byte("left by a crash"))
				put(t, root, "run-state.tmp", []byte("left by a crash"))
				got, err := openRoot(t, root, func(c *engine.Config) { c.FsyncMode = mode })
				if err != nil {
					t.Fatal(err)
				}
				if got.Fresh != c.fresh || got.Previous != c.previous || (got.ID == old) == c.fresh || (got.Reason == "") == c.fresh {
					t.Errorf("got %+v, want fresh %v, %v", got, c.fresh, c.previous)
				}
				again, err := openRoot(t, root)
				if err != nil || again.ID != got.ID || again.Fresh || again.Previous != engine.RunStopped {
					t.Errorf("opened again: %+v, %v", again, err)
				}
			})
		}
	}
}

func withVersion(b []byte, version byte) []byte {
	b = slices.Clone(b)
	b[5] = version
	return b
}

// damages are all prefixes of a file, every bit flipped, a longer file, and other
// versions and kinds.
func damages(whole []byte) map[string][]byte {
	all := map[string][]byte{
		"version 0":          withVersion(whole, 0),
		"from the future":    withVersion(whole, 2),
		"another kind":       append([]byte("FLXX"), whole[4:]...),
		"zeros":              make([]byte, len(whole)),
		"too long to be one": bytes.Repeat([]byte{'x'}, sidecar.FileBytesMax+1),
	}
	for n := range whole {
		all[fmt.Sprint("the first ", n)] = whole[:n]
		for bit := range 8 {
			flipped := slices.Clone(whole)
			flipped[n] ^= 1 << bit
			all[fmt.Sprintf("bit %d of byte %d", bit, n)] = flipped
		}
	}
	return all
}

// A damaged storage-id is no reason for a new one: nothing says what is missing.
// The start is refused, says which file and what to do, and changes nothing.
func TestADamagedStorageIDRefusesTheStart(t *testing.T) {
	id := storageID(0)
	root := memoryDir(t)
	put(t, root, sidecar.RunStateName, sidecar.RunState{State: sidecar.Running, AcksBeforeSync: true, ID: id}.AppendTo(nil))
	for name, damaged := range damages(id.AppendTo(nil)) {
		if _, err := sidecar.DecodeStorageID(damaged); err == nil {
			continue // a reserved byte, which may hold anything, or the packed form
		}
		put(t, root, sidecar.StorageIDName, damaged)
		before := snapshot(t, root)
		_, err := openRoot(t, root)
		refused := errorAs[*engine.IdentityError](t, err)
		errorAs[*sidecar.DecodeError](t, err)
		if refused.Path != filepath.Join(root, "storage-id") || !strings.Contains(err.Error(), refused.Path) || refused.Remedy == "" {
			t.Errorf("%s: %v", name, err)
		}
		// A copy of it would vouch for what was acknowledged until the copy was made.
		if strings.Contains(err.Error(), "backup") || strings.Contains(err.Error(), "copy") || !strings.Contains(err.Error(), "move it away") && !errors.Is(err, sidecar.ErrVersion) {
			t.Errorf("%s: the remedy is %q", name, refused.Remedy)
		}
		sameFiles(t, before, snapshot(t, root))
	}
	// What the message says to do helps.
	if err := os.Remove(filepath.Join(root, sidecar.StorageIDName)); err != nil {
		t.Fatal(err)
	}
	if got, err := openRoot(t, root); err != nil || !got.Fresh {
		t.Errorf("%+v, %v", got, err)
	}
}

// A damaged run-state may have said the worst.
func TestADamagedRunStateMakesANewID(t *testing.T) {
	id := storageID(0)
	root := memoryDir(t)
	for name, damaged := range damages(sidecar.RunState{State: sidecar.Stopped, ID: id}.AppendTo(nil)) {
		put(t, root, sidecar.StorageIDName, id.AppendTo(nil))
		put(t, root, sidecar.RunStateName, damaged)
		got, err := openRoot(t, root)
		if err != nil || !got.Fresh || got.ID == id || got.Previous != engine.RunUnreadable {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// A damaged registration counts as none: inside a cluster the directory may then be
// older than any registration.
func TestADamagedRegistrationCountsAsNone(t *testing.T) {
	root := memoryDir(t)
	first, err := openRoot(t, root)
	if err != nil {
		t.Fatal(err)
	}
	id := first.ID
	for name, damaged := range damages(sidecar.Registration{Incarnation: 7}.AppendTo(nil)) {
		if _, err := sidecar.DecodeRegistration(damaged); err == nil {
			continue
		}
		put(t, root, sidecar.RegistrationName, damaged)
		if got, err := openRoot(t, root); err != nil || got.ID != id {
			t.Errorf("%s, outside a cluster: %+v, %v", name, got, err)
		}
		got, err := openRoot(t, root, func(c *engine.Config) { c.NodeIncarnation = 7 })
		if err != nil || got.ID == id || !got.Fresh {
			t.Errorf("%s, in a cluster: %+v, %v", name, got, err)
		}
		id = got.ID
	}
}

func TestADirectoryOlderThanItsNodesRegistrationGetsANewID(t *testing.T) {
	r := newRig(t)
	if err := r.store.Register(r.ctx, 7); err != nil {
		t.Fatal(err)
	}
	first, root := r.store.Identity().ID, r.root
	err := r.store.Register(r.ctx, 6)
	if e := errorAs[*engine.RegistrationError](t, err); e.Held != 7 || e.Offered != 6 {
		t.Error(err)
	}
	if err := r.store.Register(r.ctx, 7); err != nil || r.store.Registered() != 7 {
		t.Error(err)
	}
	r.close()
	for _, c := range []struct {
		current uint64
		fresh   bool
	}{{0, false}, {6, false}, {7, false}, {8, true}} {
		got, err := openRoot(t, root, func(cfg *engine.Config) { cfg.NodeIncarnation = c.current })
		if err != nil || got.Fresh != c.fresh || (got.ID == first) == c.fresh {
			t.Errorf("the control plane is at %d: %+v, %v", c.current, got, err)
		}
	}
}

func TestANodeIDIsMadeOnceAndKept(t *testing.T) {
	r := newRig(t)
	if _, err := os.Stat(filepath.Join(r.root, sidecar.NodeIDName)); !errors.Is(err, os.ErrNotExist) {
		t.Error("a node-id nobody asked for", err)
	}
	first, err := r.store.NodeID(r.ctx)
	if err != nil || first.Check() != nil || len(first) != 32 {
		t.Fatal(first, err)
	}
	r.reopen(func(c *engine.Config) { c.Random = nil })
	if again, err := r.store.NodeID(r.ctx); err != nil || again != first {
		t.Errorf("%q, then %q: %v", first, again, err)
	}
	for text, want := range map[string]sidecar.NodeID{" broker-7\n": "broker-7", "../x": "", "a/b": ""} {
		put(t, r.root, sidecar.NodeIDName, []byte(text))
		r.reopen()
		got, err := r.store.NodeID(r.ctx)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q gives %q, %v", text, got, err)
		}
		if err != nil {
			errorAs[*engine.IdentityError](t, err)
		}
	}
	put(t, r.root, sidecar.NodeIDName, []byte(" \n"))
	r.reopen()
	if got, err := r.store.NodeID(r.ctx); err != nil || got == "" || got == first {
		t.Errorf("an empty file gives %q, %v", got, err)
	}
}

// A shard opened by itself has no root.
func TestAShardOpenedByItselfLeavesTheIdentityAlone(t *testing.T) {
	r := newRig(t)
	r.appendSizes(10)
	root, dir := r.root, r.log.Dir()
	r.close()
	before := snapshot(t, root)
	cfg := testConfig()
	cfg.FsyncMode = engine.FsyncPeriodic
	store, _, err := engine.OpenSingle(t.Context(), dir, "alone", cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.NodeID(t.Context()); store.Identity() != (engine.Identity{}) {
		t.Error(store.Identity())
	} else {
		errorAs[*engine.UnsupportedError](t, err)
	}
	if err := store.Close(t.Context()); err != nil {
		t.Error(err)
	}
	sameFiles(t, before, snapshot(t, root))
}

// After a crash of a run that acknowledged ahead of its flushes the first thing that
// changes is storage-id, wholly and durably; after one that did not, it stays.
func TestANewIDComesBeforeAnythingElse(t *testing.T) {
	eachMode(t, func(t *testing.T, mode func(*engine.Config)) {
		disk, onDisk := withFaults(t)
		r := newRig(t, onDisk, mode)
		r.appendSizes(80, 80)
		old, killed := r.store.Identity().ID, filepath.Join(memoryDir(t), "killed")
		copyTree(t, r.root, killed)
		before := len(disk.Log(faultdisk.All))
		again := newRigIn(t, killed, onDisk, mode, func(c *engine.Config) { c.Random = nil })
		ahead := r.cfg.FsyncMode != engine.FsyncOnCommit
		if got := again.store.Identity(); got.Fresh != ahead || (got.ID != old) != ahead {
			t.Errorf("%+v", got)
		}
		var changes []string
		for _, e := range disk.Log(faultdisk.All)[before:] {
			if e.Kind&faultdisk.Changes != 0 && !strings.Contains(e.Path, ".felix-") {
				changes = append(changes, fmt.Sprintf("%v %s", e.Kind, e.Name))
			}
		}
		root := filepath.Base(killed)
		replace := func(name string) []string {
			return []string{"create " + name + ".tmp", "write " + name + ".tmp", "flush " + name + ".tmp", "rename " + name + ".tmp", "flush_dir " + root}
		}
		want := replace("run-state")
		if ahead {
			want = append(replace("storage-id"), want...)
		}
		// The root's own name is made durable even before that.
		if len(changes) < 1+len(want) || !slices.Equal(changes[1:1+len(want)], want) || !strings.HasPrefix(changes[0], "flush_dir") {
			t.Errorf("the changes of a start begin with\n%s\nwant\n%s", strings.Join(changes[:min(len(changes), 14)], "\n"), strings.Join(want, "\n"))
		}
	})
}

// An on_commit store notes that it acknowledges ahead before a log that does can.
func TestALaxerLogIsNotedBeforeItOpens(t *testing.T) {
	disk, onDisk := withFaults(t)
	r := newRig(t, onDisk)
	if runState(t, r.root).AcksBeforeSync {
		t.Error("an on_commit store says that it acknowledges ahead")
	}
	failing := disk.Inject(faultdisk.Fault{Kinds: faultdisk.FlushDir, Path: func(path string) bool { return path == r.root }, Errno: syscall.EIO})
	_, err := r.store.OpenLogWith(r.ctx, testKey(1), withMode(engine.FsyncNone))
	failing.Remove()
	if e := errorAs[*engine.IdentityError](t, err); !errors.Is(err, syscall.EIO) || filepath.Base(e.Path) != "run-state" {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(r.root, testKey(1).DirName())); !errors.Is(err, os.ErrNotExist) {
		t.Error("a log of that mode was made all the same", err)
	}
	before := len(disk.Log(faultdisk.Changes))
	r.openWith(1, withMode(engine.FsyncPeriodic))
	events := disk.Log(faultdisk.Changes)[before:]
	at := slices.IndexFunc(events, func(e faultdisk.Event) bool { return e.Kind == faultdisk.FlushDir && e.Path == r.root })
	if at < 0 || slices.ContainsFunc(events[:at], func(e faultdisk.Event) bool { return strings.Contains(e.Path, testKey(1).DirName()) }) {
		t.Errorf("run-state was not durable before the log was touched: %v", events)
	}
	if !runState(t, r.root).AcksBeforeSync {
		t.Error("run-state does not say that the run acknowledges ahead")
	}
	// Noted once.
	before = len(disk.Log(faultdisk.Rename))
	r.openWith(2, withMode(engine.FsyncNone))
	if n := len(disk.Log(faultdisk.Rename)) - before; n != 0 {
		t.Errorf("%d more renames", n)
	}
}
