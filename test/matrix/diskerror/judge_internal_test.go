package diskerror

import (
	"strings"
	"testing"

	"felix.local/felix/test/matrix/diskerror/victim"
	"felix.local/felix/test/matrix/powercut/workload"
)

// good is a report as it has to be.
func good() victim.Report {
	return victim.Report{
		Backend: "ring", Error: "poisoned: no data available", Errno: "ENODATA", Poisoned: true, Other: true,
		Refused: 40, File: ".journal/00000001.journal", Operation: "write_dsync",
	}
}

func TestEachThingThatMustNotBeIsFound(t *testing.T) {
	journaled := Cell{Fails: victim.Write, Store: workload.Store{Backend: "ring", Journal: "require"}}
	alone := Cell{Fails: victim.Write, Store: workload.Store{Backend: "ring", Journal: "off"}}
	for name, row := range map[string]struct {
		cell   Cell
		change func(*victim.Report)
		want   string
	}{
		"all as it has to be":       {journaled, func(*victim.Report) {}, ""},
		"the log alone is poisoned": {alone, func(r *victim.Report) { r.Other = false }, ""},
		"an append is acknowledged": {journaled, func(r *victim.Report) { r.Acknowledged = 1 }, "1 appends were acknowledged"},
		"a flush is retried":        {journaled, func(r *victim.Report) { r.Again = 2 }, "2 durable writes and flushes of files after one of theirs failed, .journal/00000001.journal first"},
		"it is not poisoned":        {journaled, func(r *victim.Report) { r.Poisoned = false }, "the log is not poisoned"},
		"the store goes on":         {journaled, func(r *victim.Report) { r.Other = false }, "the other log"},
		"it fails in another way":   {journaled, func(r *victim.Report) { r.Odd = 1 }, "1 ended otherwise"},
		"nobody was refused":        {journaled, func(r *victim.Report) { r.Refused = 0 }, "0 appends were refused"},
		"no append failed":          {journaled, func(r *victim.Report) { r.Error, r.Before = "", 4000 }, "no append failed, 4000"},
		"no errno":                  {journaled, func(r *victim.Report) { r.Errno = "" }, "no errno"},
		"nothing failed below":      {journaled, func(r *victim.Report) { r.File = "" }, "no operation is known"},
		"another backend":           {journaled, func(r *victim.Report) { r.Backend = "pool" }, "the backend is pool"},
	} {
		r := good()
		row.change(&r)
		got := strings.Join(judge(row.cell, r), "; ")
		if row.want == "" && got != "" || !strings.Contains(got, row.want) {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}

func TestADiskHasEveryCellOnce(t *testing.T) {
	names := make(map[string]bool)
	for _, disk := range []string{NVMe, Virtio} {
		for _, c := range Cells(disk) {
			if c.Disk != disk {
				t.Errorf("%s is of %s", c.Store.Name, c.Disk)
			}
			if _, err := c.Store.Config(); err != nil {
				t.Error(err)
			}
			names[c.Store.Name] = true
		}
	}
	// Write and flush: three kinds of store; segment: one; each on two backends.
	if len(names) != 2*2*(2*3+1) {
		t.Errorf("%d cells: %v", len(names), names)
	}
}

func TestTheTableShowsWhatIsNotAsRequired(t *testing.T) {
	cell := Cell{Disk: NVMe, Fails: victim.Write, Store: workload.Store{Name: "x", Mode: "on_commit", Backend: "ring", Journal: "require"}}
	r := Report{Rows: []Row{
		{Cell: cell, Kernel: "6.12", Report: good(), Promised: 61, Records: 62, Next: 8},
		{Cell: cell, Kernel: "6.12", Findings: []string{"records 3 to 4 are gone"}},
	}}
	text := r.Markdown()
	for _, want := range []string{
		"| 6.12 | nvme | write of the records | on_commit | ring | require | write_dsync, journal | ENODATA | both logs | 0 | 40 | 0 | 61 | 62 | 8 | yes |",
		"| none |  | **no** | 0 | 0 | 0 | 0 | 0 | 0 | **no** |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if got := r.Failures(); len(got) != 1 || got[0] != "6.12, x: records 3 to 4 are gone" {
		t.Errorf("failures %q", got)
	}
}

func TestARunWithoutACellFails(t *testing.T) {
	if got := (Report{Skipped: []string{"kernel 7.0 has no virtio disks"}}).Failures(); len(got) != 1 || got[0] != "no cell was run" {
		t.Errorf("failures %q", got)
	}
}

func TestAStoreHasToTakeAppendsAfterTheNextStart(t *testing.T) {
	rows := []Row{{Next: 8}, {}}
	judgeNext(rows)
	if len(rows[0].Findings) != 0 || len(rows[1].Findings) != 1 || !strings.Contains(rows[1].Findings[0], "after the next start") {
		t.Errorf("got %q and %q", rows[0].Findings, rows[1].Findings)
	}
}
