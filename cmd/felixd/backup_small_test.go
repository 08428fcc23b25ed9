package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/engine"
	"felix.local/felix/sidecar"
)

// reopened closes a log and opens it again: its snapshot of producers is on the disk
// then.
func (r *backupRig) reopened(l *engine.Log) *engine.Log {
	r.Helper()
	if err := l.Close(r.ctx); err != nil {
		r.Fatal(err)
	}
	return r.open(0)
}

// A roll writes the snapshot of producers after its segment. Here one is copied that
// is not written yet, and then retention takes the segment that the former snapshot
// is as of, before the segments are copied.
func TestASnapshotOfProducersWhoseSegmentIsGoneIsNotInTheCopy(t *testing.T) {
	r := newBackupRig(t)
	l := r.open(0)
	path := filepath.Join(l.Dir(), engine.ProducersName)
	r.append(l, 60)
	l = r.reopened(l)
	former, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := len(l.Segments()); len(l.Segments()) == n; {
		r.append(l, 1)
	}
	l = r.reopened(l)
	if err := os.WriteFile(path, former, 0o640); err != nil {
		t.Fatal(err)
	}
	c := r.copier()
	var out bytes.Buffer
	c.out.w = &out
	c.copied = func(name string) {
		if filepath.Base(name) != engine.ProducersName {
			return
		}
		if _, err := l.TrimBefore(r.ctx, l.TailOffset()); err != nil {
			t.Error(err)
		}
	}
	if err := c.copyRoot(); err != nil {
		t.Fatal(err)
	}
	if l.BaseOffset() < 60 || !strings.Contains(out.String(), `"attempts":1`) {
		t.Fatalf("the log begins at %d\n%s", l.BaseOffset(), out.String())
	}
	if !isGone(filepath.Join(c.to, backupKey(0).DirName(), engine.ProducersName)) {
		t.Error("the copy has the snapshot")
	}
	files, size := below(t, filepath.Join(c.to, backupKey(0).DirName()))
	r.check(c.to, 0, l.BaseOffset(), l.TailOffset())
	if want := fmt.Sprintf(`"files":%d,"bytes":%d,`, files, size); !strings.Contains(out.String(), want) {
		t.Errorf("the copy has %s and says\n%s", want, out.String())
	}
}

func TestASnapshotOfProducersThatFitsIsInTheCopy(t *testing.T) {
	r := newBackupRig(t)
	l := r.open(0)
	r.append(l, 60)
	l = r.reopened(l)
	c := r.copier()
	c.copied = func(string) { r.append(l, 20) }
	if err := c.copyRoot(); err != nil {
		t.Fatal(err)
	}
	if isGone(filepath.Join(c.to, backupKey(0).DirName(), engine.ProducersName)) {
		t.Error("the snapshot is not in the copy")
	}
	r.check(c.to, 0, 0, 60)
}

// At any moment of a copy a new leader is accepted and writes. The copy follows the
// one or the other, and knows who wrote each of its records.
func TestACopyBesideANewLeaderHoldsOnePromiseAndEveryLabel(t *testing.T) {
	for _, first := range []string{"a", ""} { // without a name there is no ballot at first
		for at := range 12 {
			t.Run(fmt.Sprintf("%q %d", first, at), func(t *testing.T) {
				r := newBackupRig(t)
				l := r.open(0)
				lead := func(generation uint64, leader string) {
					if _, err := l.AcceptGeneration(r.ctx, generation, leader); err != nil {
						t.Error(err)
					}
					if err := l.RecordGeneration(r.ctx, generation, l.TailOffset()); err != nil {
						t.Error(err)
					}
					r.append(l, 20)
				}
				lead(1, first)
				c := r.copier()
				c.copied = atFile(at, func() { lead(2, "b") })
				if err := c.copyRoot(); err != nil {
					t.Fatal(err)
				}
				r.check(c.to, 0, 0, 20)
				promise := promiseOf(t, filepath.Join(c.to, filepath.Base(l.Dir())))
				if promise != (sidecar.Promise{Generation: 1, Leader: first}) && promise != (sidecar.Promise{Generation: 2, Leader: "b"}) {
					t.Errorf("the copy promises %+v", promise)
				}
				r.checkLabels(c.to, l, promise.Generation)
			})
		}
	}
}

func promiseOf(t *testing.T, dir string) sidecar.Promise {
	t.Helper()
	replica, err := sidecar.LoadReplica(device.OS(), dir)
	if err != nil {
		t.Fatal(err)
	}
	ballot, err := sidecar.LoadBallot(device.OS(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return sidecar.Reconcile(replica, ballot)
}

// checkLabels compares who wrote the records of a copy with what the log says. No
// record is of a generation that the copy has not accepted.
func (r *backupRig) checkLabels(dir string, l *engine.Log, accepted uint64) {
	r.Helper()
	store, err := engine.OpenStore(r.ctx, dir, r.cfg)
	if err != nil {
		r.Fatal(err)
	}
	defer store.Close(r.ctx)
	copied, err := store.OpenLog(r.ctx, backupKey(0))
	if err != nil {
		r.Fatal(err)
	}
	for offset := copied.BaseOffset(); offset < copied.TailOffset(); offset++ {
		got, _ := copied.GenerationAt(offset)
		if want, _ := l.GenerationAt(offset); got != want || got > accepted {
			r.Fatalf("record %d of the copy is of generation %d, want %d, of %d that are accepted", offset, got, want, accepted)
		}
	}
}

// A ballot or replica that cannot be read is copied as it is, and the copy is said to
// be refused; a history that cannot be read costs nothing but the history.
func TestSmallFilesThatCannotBeReadAreCopiedAsTheyAre(t *testing.T) {
	for name, refused := range map[string]int{sidecar.ReplicaName: 1, sidecar.BallotName: 1, sidecar.EpochsName: 0} {
		r := newBackupRig(t)
		l := r.open(0)
		if _, err := l.AcceptGeneration(r.ctx, 1, "a"); err != nil {
			t.Fatal(err)
		}
		if err := l.RecordGeneration(r.ctx, 1, 0); err != nil {
			t.Fatal(err)
		}
		r.append(l, 30)
		if err := os.WriteFile(filepath.Join(l.Dir(), name), []byte("rot"), 0o640); err != nil {
			t.Fatal(err)
		}
		c := r.copier()
		if err := c.copyRoot(); err != nil || c.refused != refused {
			t.Errorf("%s: %d refused, want %d, %v", name, c.refused, refused, err)
		}
		if b, err := os.ReadFile(filepath.Join(c.to, filepath.Base(l.Dir()), name)); err != nil || string(b) != "rot" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

// What is asked for by name is copied once.
func TestThePromisesAreNotAmongTheOtherSmallFiles(t *testing.T) {
	for _, name := range append(promiseFiles(), sidecar.EpochsName, engine.ProducersName) {
		if isOther(name) {
			t.Errorf("%s is copied twice", name)
		}
	}
	if promises := promiseFiles(); slices.Index(promises, sidecar.ReplicaName) > slices.Index(promises, sidecar.BallotName) {
		t.Error("ballot is copied before replica")
	}
}
