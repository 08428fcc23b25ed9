package victim_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"felix.local/felix/test/matrix/diskerror/victim"
	"felix.local/felix/test/matrix/powercut/workload"
)

func TestADiskThatDoesNotFailIsReportedAsThat(t *testing.T) {
	for _, spec := range []victim.Spec{
		{Fails: victim.Flush, Store: workload.Store{Name: "s", Mode: "on_commit", Backend: "pool", Journal: "off"}},
		{Fails: victim.Flush, Store: workload.Store{Name: "s", Mode: "periodic", Backend: "pool", Journal: "off"}},
	} {
		spec.Root = t.TempDir()
		var out bytes.Buffer
		armed := 0
		if err := victim.Run(context.Background(), spec, &out, func() error { armed++; return nil }); err != nil {
			t.Fatal(err)
		}
		var reports, arms, acks int
		for line := range strings.Lines(out.String()) {
			if r, ok := victim.ParseReport(line); ok {
				reports++
				if r.Error != "" || r.Before == 0 || r.Poisoned || r.Acknowledged+r.Refused+r.Odd+r.Again != 0 {
					t.Errorf("%v: %+v", spec.Store, r)
				}
			}
			if a, ok := victim.ParseArm(line); ok {
				arms++
				if len(a.Blocks) != 0 {
					t.Errorf("flushes have no blocks, and there are %v", a.Blocks)
				}
			}
			if e, ok := workload.ParseEvent(line); ok && e.Kind == workload.Acked {
				acks++
			}
		}
		if reports != 1 || arms != 1 || armed != 1 || acks < 60 {
			t.Errorf("%d reports, %d times armed, %d acknowledgements", reports, arms, acks)
		}
	}
}

func TestALineOfSomethingElseIsNoReport(t *testing.T) {
	for _, line := range []string{"", "REPORT", "REPORT {", "ARM x", "ACK a b 1 .", "KMX-UP"} {
		if r, ok := victim.ParseReport(line); ok {
			t.Errorf("%q is taken for %+v", line, r)
		}
		if a, ok := victim.ParseArm(line); ok {
			t.Errorf("%q is taken for %+v", line, a)
		}
	}
}
