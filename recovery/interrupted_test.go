package recovery

import (
	"errors"
	"maps"
	"strings"
	"syscall"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/internal/faultdisk"

	"github.com/google/go-cmp/cmp"
)

// distinctCases are one case for each sequence of actions that opens.
func distinctCases(t *testing.T) []damageCase {
	seen := map[string]bool{}
	var cases []damageCase
	for _, c := range damageCases() {
		var actions []string
		for part := range strings.SplitSeq(c.want, "; ") {
			actions = append(actions, strings.TrimRight(part, "0123456789@ "))
		}
		key := strings.Join(actions[:len(actions)-1], ";")
		if strings.HasPrefix(c.want, "refuse") || seen[key] {
			continue
		}
		seen[key] = true
		cases = append(cases, c)
	}
	if len(cases) < 10 {
		t.Fatalf("only %d cases", len(cases))
	}
	return cases
}

// TestInterruptedRecoveryIsTakenUpAgain fails every single operation in turn,
// and once more with all changes after it, which is what a crash looks like. An
// open after that has to end where an undisturbed one ends.
func TestInterruptedRecoveryIsTakenUpAgain(t *testing.T) {
	for _, c := range distinctCases(t) {
		t.Run("C230 "+c.name, func(t *testing.T) {
			template := newShard(t)
			c.setup(template)
			undisturbed := template.copy()
			if _, err := Open(osDisk(), undisturbed.dir, "orders/0", c.policyOf()); err != nil {
				t.Fatal(err)
			}
			plan := template.plan(c.policyOf())
			interrupted := 0
			for _, fault := range []faultdisk.Fault{
				{Kinds: faultdisk.All, Errno: syscall.EIO},
				{Kinds: faultdisk.Changes, Errno: syscall.EIO, Times: faultdisk.Forever},
				{Kinds: faultdisk.Changes, Errno: syscall.EIO, Lands: faultdisk.Half},
				{Kinds: faultdisk.Changes, Errno: syscall.ENOSPC},
			} {
				for at := 1; ; at++ {
					fault.At = at
					if !interrupt(t, c, template, undisturbed, plan, fault) {
						break
					}
					interrupted++
				}
			}
			if interrupted < 20 {
				t.Errorf("only %d operations were there to fail", interrupted)
			}
			t.Logf("%d interruptions", interrupted)
		})
	}
}

// interrupt opens a copy of the directory with a fault, then without, and
// reports whether the fault hit anything.
func interrupt(t *testing.T, c damageCase, template, undisturbed *shard, plan *Plan, fault faultdisk.Fault) bool {
	t.Helper()
	s := template.copy()
	if plan.snapshot.DirMissing {
		s.must(device.OS().Remove(s.dir))
	}
	faulty := faultdisk.New(device.OS(), inline{}, faultdisk.Options{})
	injected := faulty.Inject(fault)
	_, err := Open(Disk{FS: faulty.FS(), Queue: faulty.Queue()}, s.dir, "orders/0", c.policyOf())
	if injected.Hits() == 0 {
		if err != nil {
			t.Fatal(err)
		}
		return false
	}
	var refused *RefusedError
	if errors.As(err, &refused) {
		t.Fatalf("%+v: a failing disk was taken for damage: %v", fault, err)
	}
	again, reopened := Open(osDisk(), s.dir, "orders/0", c.policyOf())
	if reopened != nil {
		t.Fatalf("%+v (%v): the next open fails: %v", fault, err, reopened)
	}
	checkRecovered(t, s, again, c.policyOf())
	if diff := cmp.Diff(digest(withoutCopies(undisturbed.state())), digest(withoutCopies(s.state()))); diff != "" {
		t.Fatalf("%+v (%v): the log is another one: %s", fault, err, diff)
	}
	if fault.Errno != syscall.ENOSPC {
		checkCopied(t, template, s, plan)
	}
	return true
}

func withoutCopies(files map[string]string) map[string]string {
	maps.DeleteFunc(files, func(name, _ string) bool { return strings.Contains(name, tornInfix) })
	return files
}

// checkCopied: whatever the plan takes out of the log is in some side copy.
func checkCopied(t *testing.T, template, s *shard, plan *Plan) {
	t.Helper()
	files := s.state()
	for _, step := range plan.Steps {
		if step.Action != CutTail && step.Action != SetAside {
			continue
		}
		gone, kept := string(template.read(step.File)[step.Position:]), false
		for name, content := range files {
			kept = kept || strings.Contains(name, tornInfix) && content == gone
		}
		if !kept {
			t.Errorf("what went from %s is nowhere", step.File)
		}
	}
}

func TestDirectoryThatChangedSinceItWasInspectedIsLeftAlone(t *testing.T) {
	for name, setup := range map[string]func(*shard){
		"cut":       func(s *shard) { s.put(0, segmentBytes(0, 2)[:at(1)+9]) },
		"delete":    func(s *shard) { s.sealed(1); s.put(1, headerBytes(9)) },
		"set aside": func(s *shard) { s.put(0, segmentBytes(0, 2)[:at(1)+9]); s.put(1, segmentBytes(2, 1)); s.mark(0, 32) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newShard(t)
			setup(s)
			plan := s.plan(testPolicy())
			for file := range s.state() {
				if file != MarkName {
					s.write(file, append(s.read(file), "more"...))
				}
			}
			before := digest(s.state())
			if _, err := Apply(osDisk(), plan); err == nil || !strings.Contains(err.Error(), "something else writes to this directory") {
				t.Errorf("got %v", err)
			}
			if before != digest(s.state()) {
				t.Error("the directory changed")
			}
		})
	}
}
