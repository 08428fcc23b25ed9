package engine_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"felix.local/felix/engine"
	"felix.local/felix/internal/faultdisk"
	"felix.local/felix/sidecar"
)

const broker1 = "broker-1"

func (r *rig) accept(generation uint64, leader string) {
	r.Helper()
	_, err := r.log.AcceptGeneration(r.ctx, generation, leader)
	r.must(err)
}

// wantPromise checks what the log holds itself to.
func (r *rig) wantPromise(generation uint64, leader string, givenUp bool) {
	r.Helper()
	gotLeader, gotGivenUp := r.log.AcceptedLeader()
	if got := r.log.AcceptedGeneration(); got != generation || gotLeader != leader || gotGivenUp != givenUp {
		r.Errorf("accepted is %d from %q, given up %v; want %d from %q, %v", got, gotLeader, gotGivenUp, generation, leader, givenUp)
	}
}

// files is what lies on the disk of a promise, decoded.
func (r *rig) files() string {
	r.Helper()
	text := "no ballot"
	if b := r.small("ballot"); b != nil {
		ballot, err := sidecar.DecodeBallot(b)
		r.must(err)
		text = fmt.Sprintf("ballot %d %q", ballot.Generation, ballot.Leader)
	}
	b := r.small("replica")
	if b == nil {
		return text + ", no replica"
	}
	replica, err := sidecar.DecodeReplica(b)
	r.must(err)
	return fmt.Sprintf("%s, replica %d commit %d", text, replica.Generation, replica.Commit)
}

// The answers to a leader, each as the log stands, and again after a restart.
func TestTheAnswersToALeader(t *testing.T) {
	accepted := func(r *rig) { r.accept(3, broker1) }
	unnamed := func(r *rig) { r.accept(3, "") }
	givenUp := func(r *rig) {
		r.accept(3, broker1)
		r.must(r.log.GiveUpGeneration(r.ctx))
	}
	const (
		held      = `ballot 3 "broker-1", replica 3 commit 2`
		nobody    = "no ballot, replica 3 commit 2"
		abandoned = `ballot 3 "", replica 3 commit 2`
	)
	superseded := &engine.SupersededError{Label: "t/n/s/0", Generation: 2, Accepted: 3}
	up := &engine.GivenUpError{Label: "t/n/s/0", Generation: 3}
	for _, c := range []struct {
		name       string
		before     func(r *rig)
		generation uint64
		leader     string
		verdict    sidecar.Verdict
		err        error
		files      string
	}{
		{"an older one", accepted, 2, broker1, sidecar.Superseded, superseded, held},
		{"an older one, not named", accepted, 2, "", sidecar.Superseded, superseded, held},
		{"the same", accepted, 3, broker1, sidecar.Current, nil, held},
		{"the same, not named", accepted, 3, "", sidecar.Current, nil, held},
		{"another at the same generation", accepted, 3, "broker-2", sidecar.Promised, &engine.PromisedError{Label: "t/n/s/0", Generation: 3, Leader: broker1}, held},
		{"one where nobody is on record", unnamed, 3, "broker-2", sidecar.Current, nil, `ballot 3 "broker-2", replica 3 commit 2`},
		{"one not named where nobody is on record", unnamed, 3, "", sidecar.Current, nil, nobody},
		{"the same after it was given up", givenUp, 3, broker1, sidecar.GivenUp, up, abandoned},
		{"another after it was given up", givenUp, 3, "broker-2", sidecar.GivenUp, up, abandoned},
		{"one not named after it was given up", givenUp, 3, "", sidecar.GivenUp, up, abandoned},
		{"a newer one", accepted, 4, "broker-2", sidecar.Raised, nil, `ballot 4 "broker-2", replica 4 commit 2`},
		{"a newer one, not named", accepted, 4, "", sidecar.Raised, nil, `ballot 3 "broker-1", replica 4 commit 2`},
		{"a newer one after one was given up", givenUp, 4, broker1, sidecar.Raised, nil, `ballot 4 "broker-1", replica 4 commit 2`},
		{"the first", func(*rig) {}, 1, broker1, sidecar.Raised, nil, `ballot 1 "broker-1", replica 1 commit 2`},
		{"generation 0, not named", func(*rig) {}, 0, "", sidecar.Current, nil, "no ballot, replica 0 commit 2"},
	} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restarted %v", c.name, restarted), func(t *testing.T) {
				r := newRig(t, func(c *engine.Config) { c.FsyncMode = engine.FsyncOnCommit })
				r.appendSizes(1, 1)
				c.before(r)
				r.must(r.log.AdvanceCommitOffset(2))
				if restarted {
					r.reopen()
				}
				verdict, err := r.log.AcceptGeneration(r.ctx, c.generation, c.leader)
				if verdict != c.verdict || fmt.Sprint(err) != fmt.Sprint(c.err) || c.err != nil && fmt.Sprintf("%T", err) != fmt.Sprintf("%T", c.err) {
					t.Errorf("%v, %v; want %v, %v", verdict, err, c.verdict, c.err)
				}
				generation := r.log.AcceptedGeneration()
				leader, givenUp := r.log.AcceptedLeader()
				r.reopen()
				r.wantPromise(generation, leader, givenUp)
				if got := r.files(); got != c.files {
					t.Errorf("on disk: %s, want %s", got, c.files)
				}
			})
		}
	}
}

func TestAPromiseOnDiskByteForByte(t *testing.T) {
	r := newRig(t)
	for range 10 {
		r.appendSizes(1)
	}
	r.accept(3, broker1)
	r.must(r.log.AdvanceCommitOffset(10))
	r.reopen()
	want := func(name, bytes string) {
		t.Helper()
		if got := fmt.Sprintf("%x", r.small(name)); got != bytes {
			t.Errorf("%s is %s, want %s", name, got, bytes)
		}
	}
	want("replica", "464c5253"+"00010000"+"0000000000000003"+"000000000000000a"+"b747b13b")
	want("ballot", "464c424c"+"00010008"+"0000000000000003"+"62726f6b65722d31"+"cb84bcf5")
	r.must(r.log.HoldRetentionAtCommit(r.ctx, true))
	want("replica", "464c5253"+"00010001"+"0000000000000003"+"000000000000000a"+"30e17a78")
	r.must(r.log.GiveUpGeneration(r.ctx))
	want("ballot", "464c424c"+"00010000"+"0000000000000003"+"c13d93a4")
}

func TestALeaderThatNoBallotCanNameIsRefused(t *testing.T) {
	r := newRig(t)
	r.accept(1, strings.Repeat("n", sidecar.LeaderBytesMax))
	for _, leader := range []string{strings.Repeat("n", sidecar.LeaderBytesMax+1), "\xff"} {
		_, err := r.log.AcceptGeneration(r.ctx, 2, leader)
		errorAs[*engine.UnsupportedError](t, err)
	}
	r.wantPromise(1, strings.Repeat("n", sidecar.LeaderBytesMax), false)
}

// A present file that cannot be read fails the open, changes nothing, and the error
// says which file it is and what to do. Every bit and every length is tried.
func TestADamagedPromiseKeepsTheLogClosed(t *testing.T) {
	r := newRig(t, func(c *engine.Config) { c.MarkSyncInterval = 0 })
	r.appendSizes(10, 20)
	r.accept(3, broker1)
	r.must(r.log.AdvanceCommitOffset(2))
	dir := r.log.Dir()
	r.reopen()
	whole := map[string][]byte{"replica": r.small("replica"), "ballot": r.small("ballot")}
	r.must(r.log.Close(r.ctx))
	for name := range whole {
		refused := func(what string, b []byte) {
			t.Helper()
			path := filepath.Join(dir, name)
			r.must(os.WriteFile(path, b, 0o640))
			before := snapshot(t, dir)
			log, err := r.store.OpenLog(r.ctx, testKey(0))
			if err == nil {
				_ = log.Close(r.ctx)
				t.Errorf("%s with %s: the log opened", name, what)
				return
			}
			errorAs[*sidecar.DecodeError](t, err)
			if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "from a backup") {
				t.Errorf("%s with %s: the error does not say which file and what to do: %v", name, what, err)
			}
			sameFiles(t, before, snapshot(t, dir))
		}
		for n := range len(whole[name]) {
			refused(fmt.Sprintf("%d bytes", n), whole[name][:n])
		}
		for bit := range len(whole[name]) * 8 {
			b := append([]byte(nil), whole[name]...)
			b[bit/8] ^= 1 << (bit % 8)
			refused(fmt.Sprintf("bit %d", bit), b)
		}
		refused("a byte more", append(whole[name][:len(whole[name]):len(whole[name])], 0))
		refused("much more", make([]byte, 10_000))
		r.must(os.WriteFile(filepath.Join(dir, name), whole[name], 0o640))
	}
	log, err := r.store.OpenLog(r.ctx, testKey(0))
	r.must(err)
	r.log = log
	r.wantPromise(3, broker1, false)
}

// The two files are one promise, whichever of them is there, behind or ahead.
func TestTheBallotAndReplicaFoundAtOpen(t *testing.T) {
	ballot := func(generation uint64, leader string) []byte {
		b, err := sidecar.Ballot{Generation: generation, Leader: leader}.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	replica := func(generation uint64) []byte { return sidecar.Replica{Generation: generation}.AppendTo(nil) }
	for _, c := range []struct {
		name            string
		replica, ballot []byte
		generation      uint64
		leader          string
		givenUp         bool
	}{
		{"neither", nil, nil, 0, "", false},
		{"a replica alone", replica(3), nil, 3, "", false},
		{"a ballot alone", nil, ballot(3, "a"), 3, "a", false},
		{"at one generation", replica(3), ballot(3, "a"), 3, "a", false},
		{"a ballot ahead, of a raise cut short", replica(3), ballot(4, "a"), 4, "a", false},
		{"a ballot behind", replica(3), ballot(2, "a"), 3, "", false},
		{"given up", replica(3), ballot(3, ""), 3, "", true},
		{"given up, behind", replica(3), ballot(2, ""), 3, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			dir := r.log.Dir()
			r.close()
			for name, b := range map[string][]byte{"replica": c.replica, "ballot": c.ballot} {
				if b != nil {
					r.must(os.WriteFile(filepath.Join(dir, name), b, 0o640))
				}
			}
			before := snapshot(t, dir)
			r.open()
			r.wantPromise(c.generation, c.leader, c.givenUp)
			r.close()
			sameFiles(t, before, snapshot(t, dir))
			r.open()
		})
	}
}

func TestFlagsOfALaterBuildStayInReplica(t *testing.T) {
	r := newRig(t)
	r.appendSizes(1)
	path := filepath.Join(r.log.Dir(), "replica")
	r.close()
	r.must(os.WriteFile(path, sidecar.Replica{Generation: 2, OtherFlags: 0x8000}.AppendTo(nil), 0o640))
	r.open()
	r.accept(3, "a")
	r.must(r.log.AdvanceCommitOffset(1))
	r.reopen()
	got, err := sidecar.DecodeReplica(r.small("replica"))
	r.must(err)
	if got.OtherFlags != 0x8000 || got.Generation != 3 || got.Commit != 1 {
		t.Errorf("replica is %+v", got)
	}
}

// A power loss while a leader is accepted leaves the former promise, or one that is
// at least as strict as the new one; once it is accepted, nothing but the new one.
// A replica at the new generation never lies beside a ballot of a former one.
func TestAPowerLossWhileALeaderIsAcceptedLeavesAPromise(t *testing.T) {
	for _, leader := range []string{"broker-2", ""} {
		t.Run("leader "+leader, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newSimRig(t)
				r.accept(3, broker1)
				accepted := false
				seen := make(map[string]int)
				images := r.eachImage(func() error {
					_, err := r.log.AcceptGeneration(r.ctx, 4, leader)
					synctest.Wait() // for what goes on in the background, which looks at this too
					accepted = true
					return err
				}, func(image *rig) {
					generation := image.log.AcceptedGeneration()
					now, _ := image.log.AcceptedLeader()
					found := fmt.Sprintf("%d from %q", generation, now)
					seen[found]++
					if found != fmt.Sprintf("4 from %q", leader) && (accepted || found != `3 from "broker-1"`) {
						t.Errorf("accepted %v: after a power loss it is %s", accepted, found)
					}
					if accepted {
						_, err := image.log.AcceptGeneration(image.ctx, 3, broker1)
						errorAs[*engine.SupersededError](t, err)
					}
					if generation == 4 && leader != "" {
						_, err := image.log.AcceptGeneration(image.ctx, 4, "broker-3")
						errorAs[*engine.PromisedError](t, err)
					}
				})
				if len(seen) != 2 || images < 10 {
					t.Errorf("%d images: %v", images, seen)
				}
			})
		})
	}
}

// While a ballot or replica is being written the old promise is the log's answer.
func TestALeaderIsAcceptedOnlyOnceBothFilesAreDurable(t *testing.T) {
	disk, choose := withFaults(t)
	r := newRig(t, choose)
	r.accept(1, "a")
	mark := len(disk.Log(faultdisk.Changes))
	r.accept(2, "b")
	var names []string
	for _, e := range disk.Log(faultdisk.Changes)[mark:] {
		names = append(names, fmt.Sprintf("%v %s", e.Kind, filepath.Base(e.Path)))
	}
	log := strings.Join(names, "\n")
	ballot, replica := strings.Index(log, "rename ballot.tmp"), strings.Index(log, "rename replica.tmp")
	if ballot < 0 || replica < ballot || !strings.Contains(log[ballot:replica], "flush_dir") || !strings.Contains(log[replica:], "flush_dir") {
		t.Errorf("the ballot is not durable before replica is written, and both before the answer:\n%s", log)
	}
}

// A power loss while a generation is given up leaves it as it was or given up; once
// it returned, given up.
func TestAPowerLossWhileAGenerationIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSimRig(t)
		r.accept(3, broker1)
		returned := false
		seen := make(map[bool]int)
		r.eachImage(func() error {
			err := r.log.GiveUpGeneration(r.ctx)
			synctest.Wait() // for what goes on in the background, which looks at this too
			returned = true
			return err
		}, func(image *rig) {
			leader, givenUp := image.log.AcceptedLeader()
			seen[givenUp]++
			if image.log.AcceptedGeneration() != 3 || givenUp == (leader != "") || returned && !givenUp {
				t.Errorf("returned %v: %d from %q, given up %v", returned, image.log.AcceptedGeneration(), leader, givenUp)
			}
		})
		if len(seen) != 2 {
			t.Errorf("%v", seen)
		}
	})
}

// Whatever fails on the way, the former promise stays the log's answer, and a
// failed flush of the directory, which leaves open which names it holds, poisons.
func TestALeaderThatCouldNotBeStoredIsNotAccepted(t *testing.T) {
	for at := 1; ; at++ {
		disk, choose := withFaults(t)
		r := newRig(t, choose)
		r.accept(3, broker1)
		fault := disk.Inject(faultdisk.Fault{Kinds: faultdisk.Changes, At: at, Errno: syscall.EIO})
		_, err := r.log.AcceptGeneration(r.ctx, 4, "broker-2")
		fault.Remove()
		if err == nil {
			if at < 8 {
				t.Errorf("only %d operations can fail", at-1)
			}
			return
		}
		r.wantPromise(3, broker1, false)
		poisoned := r.log.Poisoned() != nil
		if errors.Is(err, engine.ErrPoisoned) != poisoned {
			t.Errorf("operation %d: %v, poisoned %v", at, err, poisoned)
		}
		if !poisoned {
			r.accept(4, "broker-3")
			r.wantPromise(4, "broker-3", false)
			r.reopen()
			r.wantPromise(4, "broker-3", false)
		}
	}
}

func writeReplica(t testing.TB, dir string, replica sidecar.Replica) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, sidecar.ReplicaName), replica.AppendTo(nil), 0o640); err != nil {
		t.Fatal(err)
	}
}

// A small file that is being written keeps the log from being closed, and one that
// waits for its turn finds it closed: nothing is written once Close has returned.
func TestNothingIsWrittenAfterALogIsClosed(t *testing.T) {
	disk, choose := withFaults(t)
	r := newRig(t, choose)
	r.accept(1, "a")
	held := hold(t, disk, faultdisk.Rename, isReplica, 1)
	answers := make(chan error, 3)
	for _, generation := range []uint64{2, 3} {
		go func() {
			_, err := r.log.AcceptGeneration(r.ctx, generation, "b")
			answers <- err
		}()
	}
	<-held.Reached()
	closed := make(chan error, 1)
	go func() { closed <- r.log.Close(r.ctx) }()
	go func() { answers <- r.log.GiveUpGeneration(r.ctx) }()
	select {
	case err := <-closed:
		t.Errorf("the log was closed over a write: %v", err)
	case <-answers:
		t.Error("one of the three was answered meanwhile")
	default:
	}
	held.Remove()
	r.must(<-closed)
	after := len(disk.Log(faultdisk.Changes))
	for range 3 {
		if err := <-answers; err != nil {
			var superseded *engine.SupersededError
			if !errors.Is(err, engine.ErrClosed) && !errors.As(err, &superseded) {
				t.Error(err)
			}
		}
	}
	if n := len(disk.Log(faultdisk.Changes)) - after; n != 0 {
		t.Errorf("%d changes after the log was closed: %v", n, disk.Log(faultdisk.Changes)[after:])
	}
}
