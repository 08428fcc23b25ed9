package rig_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"felix.local/felix/test/matrix/plan"
	"felix.local/felix/test/matrix/powercut/rig"
	"felix.local/felix/test/matrix/powercut/workload"
	"felix.local/felix/test/matrix/vm"
)

// emulator puts a script in the place of the emulator and gives a machine for it. The
// script adds a line to the file "starts" each time.
func emulator(t *testing.T, script string) (b rig.Boot, starts func() int) {
	t.Helper()
	dir := t.TempDir()
	count := filepath.Join(dir, "starts")
	script = "#!/bin/sh\necho >>" + count + "\nn=$(wc -l <" + count + ")\n" + script
	guest := filepath.Join(dir, "guest")
	for path, text := range map[string]string{filepath.Join(dir, "qemu-system-x86_64"): script, guest: "program"} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	b = rig.Boot{Guest: guest, Dir: dir, Name: "m", Mode: "append", Spec: workload.Spec{Root: "/data"}, Modules: []string{guest}}
	return b, func() int {
		text, err := os.ReadFile(count)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), "\n")
	}
}

func TestAGuestIsHeardToItsEnd(t *testing.T) {
	b, starts := emulator(t, `echo KMX-UP 6.12; echo ACK a lone 3 .; echo something else
echo '{"name":"append","exit":3,"stderr":"it hurts"}'; echo KMX-EXIT 0`)
	var acked, others []string
	failed, end := b.Run(context.Background(), rig.Listener{
		Event: func(_ *vm.Guest, e workload.Event) { acked = append(acked, e.String()) },
		Other: func(_ *vm.Guest, line string) { others = append(others, line) },
	})
	if end != nil || failed == nil || !strings.Contains(failed.Error(), "exit code 3: it hurts") {
		t.Errorf("%v, %v", failed, end)
	}
	if strings.Join(acked, "|") != "ACK a lone 3 ." || len(others) != 4 || starts() != 1 {
		t.Errorf("events %q, lines %q, %d starts", acked, others, starts())
	}
	p, err := plan.Read(filepath.Join(b.Dir, "m.plan.json"))
	if err != nil || len(p.Steps) != 1 || !p.Steps[0].Stream || len(p.Modules) != 1 {
		t.Errorf("%+v %v", p, err)
	}
	spec, err := workload.ReadSpec(filepath.Join(b.Dir, "m.spec.json"))
	if err != nil || spec.Root != "/data" {
		t.Errorf("%+v %v", spec, err)
	}
	if err := b.Clean(); err != nil {
		t.Error(err)
	}
	left, err := filepath.Glob(filepath.Join(b.Dir, "m.*"))
	if err != nil || len(left) != 1 {
		t.Errorf("left are %q, want what the emulator said; %v", left, err)
	}
}

func TestAMachineThatDoesNotGetToTheProgramIsStartedAgain(t *testing.T) {
	b, starts := emulator(t, `[ $n -gt 1 ] && echo KMX-UP 6.12 && echo KMX-EXIT 0`)
	if failed, end := b.Run(context.Background(), rig.Listener{}); failed != nil || end != nil || starts() != 2 {
		t.Errorf("%v, %v after %d starts", failed, end, starts())
	}
	b, starts = emulator(t, ``)
	if _, end := b.Run(context.Background(), rig.Listener{}); !errors.Is(end, vm.ErrNoVerdict) || starts() != 3 {
		t.Errorf("%v after %d starts", end, starts())
	}
}

func TestAMachineThatGotToTheProgramIsNotStartedAgain(t *testing.T) {
	b, starts := emulator(t, `echo KMX-UP 6.12`)
	if _, end := b.Run(context.Background(), rig.Listener{}); !errors.Is(end, vm.ErrNoVerdict) || starts() != 1 {
		t.Errorf("%v after %d starts", end, starts())
	}
}
