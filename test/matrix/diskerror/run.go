package diskerror

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"felix.local/felix/test/matrix/diskerror/victim"
	"felix.local/felix/test/matrix/powercut"
	"felix.local/felix/test/matrix/powercut/rig"
	"felix.local/felix/test/matrix/powercut/workload"
	"felix.local/felix/test/matrix/vm"
)

// Options say what to run and where.
type Options struct {
	Kernel vm.Kernel
	// Guest is the guest program, built static.
	Guest string
	// Dir takes images and logs.
	Dir string
	// Disks are nvme, virtio or both.
	Disks []string
	// Progress is told a line now and then.
	Progress func(line string)
}

func (o Options) progress(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(fmt.Sprintf(format, args...))
	}
}

// The disks.
const (
	NVMe   = "nvme"
	Virtio = "virtio"
)

// ModeDiskError is the guest program's.
const ModeDiskError = "disk-error"

// Cell is one row of the table before it was run.
type Cell struct {
	Disk  string
	Fails victim.Fails
	Store workload.Store
}

// Cells are all rows of one disk.
func Cells(disk string) []Cell {
	var cells []Cell
	for _, fails := range []victim.Fails{victim.Write, victim.Segment, victim.Flush} {
		for _, s := range []workload.Store{
			{Mode: "on_commit", Journal: "off"},
			{Mode: "on_commit", Journal: "require"},
			{Mode: "periodic", Journal: "off"},
		} {
			if fails == victim.Segment && s.Journal == "off" {
				continue // there the segment is what Write fails
			}
			for _, backend := range []string{"ring", "pool"} {
				s.Backend = backend
				s.Name = strings.Join([]string{disk, string(fails), s.Mode, s.Journal, backend}, "-")
				cells = append(cells, Cell{Disk: disk, Fails: fails, Store: s})
			}
		}
	}
	return cells
}

// Row is a cell that was run.
type Row struct {
	Cell
	Kernel string
	Report victim.Report
	// Promised records were found again among Records, summed up over the logs.
	Promised, Records uint64
	// Again are appends that were acknowledged after the next start.
	Again int
	// Findings are what must not be.
	Findings []string
}

const (
	diskBytes    = 128 << 20
	mailboxBytes = 1 << 20
	dataDir      = "/data"
	// cellsPerBoot is how many disks one machine looks at afterwards.
	cellsPerBoot = 10
	// appendsAfter are those of each publisher after the next start.
	appendsAfter = 2
)

// Run runs all cells of the disks. A cell that cannot be run at all is an error; what
// Felix does wrong is in the rows.
func Run(ctx context.Context, o Options) ([]Row, error) {
	var rows []Row
	for _, disk := range o.Disks {
		var modules []string
		if disk == Virtio {
			var err error
			if modules, err = o.Kernel.LoadOrder(ctx, "virtio_blk", o.Dir); err != nil {
				return rows, err
			}
		}
		cells := Cells(disk)
		for from := 0; from < len(cells); from += cellsPerBoot {
			done, err := o.runSome(ctx, cells[from:min(from+cellsPerBoot, len(cells))], modules)
			rows = append(rows, done...)
			if err != nil {
				return rows, err
			}
		}
	}
	return rows, nil
}

// runSome runs some cells, and then one machine that looks at their disks.
func (o Options) runSome(ctx context.Context, cells []Cell, modules []string) ([]Row, error) {
	var rows []Row
	var ledgers []*powercut.Ledger
	for i, cell := range cells {
		ledger := powercut.NewLedger([]workload.Store{cell.Store}, nil)
		report, err := o.run(ctx, cell, modules, o.image(i), ledger)
		if err != nil {
			return rows, fmt.Errorf("%s: %w; the disk is %s", cell.Store.Name, err, o.image(i))
		}
		row := Row{Cell: cell, Kernel: o.Kernel.Release, Report: report, Promised: ledger.Promised(), Findings: judge(cell, report)}
		o.progress("%s: %s %s, %s of %s, %d findings", cell.Store.Name, report.Errno, poisonedText(report), report.Operation, report.File, len(row.Findings))
		rows, ledgers = append(rows, row), append(ledgers, ledger)
	}
	return rows, o.lookAt(ctx, rows, ledgers)
}

func (o Options) image(i int) string { return filepath.Join(o.Dir, fmt.Sprintf("disk%d.img", i)) }

// run is one cell up to its power cut.
func (o Options) run(ctx context.Context, cell Cell, modules []string, image string, ledger *powercut.Ledger) (report victim.Report, err error) {
	if err := vm.MakeDisk(ctx, image, diskBytes, "ext4", rig.MkfsOptions()...); err != nil {
		return report, err
	}
	mailbox := filepath.Join(o.Dir, "mailbox.img")
	if err := errors.Join(os.WriteFile(mailbox, nil, 0o644), os.Truncate(mailbox, mailboxBytes)); err != nil {
		return report, err
	}
	// The name of a socket has to be short.
	sockets, err := os.MkdirTemp("", "felix")
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(sockets)) }()
	socket := filepath.Join(sockets, "qmp")
	b := rig.Boot{
		Kernel: o.Kernel, Guest: o.Guest, Dir: o.Dir, Name: "diskerror", Mode: ModeDiskError, Modules: modules,
		Spec:  victim.Spec{Root: dataDir, Store: cell.Store, Fails: cell.Fails, Disk: "data", Mailbox: "mailbox"},
		Disks: append(disks(cell.Disk, image, mailbox), "-qmp", "unix:"+rig.Escape(socket)+",server=on,wait=off"),
	}
	reported := false
	var armed error
	failed, end := b.Run(ctx, rig.Listener{Event: func(_ *vm.Guest, e workload.Event) {
		if !reported {
			ledger.Take(e)
		}
	}, Other: func(guest *vm.Guest, line string) {
		if a, ok := victim.ParseArm(line); ok {
			if armed = arm(socket, mailbox, a); armed != nil {
				_ = guest.Cut() // there is nothing to wait for; the error is told below
			}
		}
		if r, ok := victim.ParseReport(line); ok && !reported {
			report, reported = r, true
			_ = guest.Cut() // one that has ended by itself needs no cut
		}
	}})
	switch {
	case armed != nil:
		return report, fmt.Errorf("making the disk fail: %w", armed)
	case !reported:
		return report, errors.Join(errors.New("the program in the guest reported nothing"), failed, end)
	}
	return report, b.Clean()
}

// arm makes the disk fail, and then says so in the mailbox.
func arm(socket, mailbox string, a victim.Arm) error {
	m, err := dialMonitor(socket)
	if err != nil {
		return err
	}
	if err := errors.Join(m.fail(a.Blocks), m.close()); err != nil {
		return err
	}
	f, err := os.OpenFile(mailbox, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(victim.ArmedText)
	return errors.Join(err, f.Close())
}

// disks are the emulator's arguments for the data's disk and the mailbox.
func disks(kind, image, mailbox string) []string {
	device := "nvme,drive=disk,serial=data"
	if kind == Virtio {
		device = "virtio-blk-pci,drive=disk,serial=data,write-cache=on"
	}
	return []string{
		"-blockdev", "driver=file,node-name=" + nodeImage + ",cache.no-flush=on,filename=" + rig.Escape(image),
		"-blockdev", "driver=raw,node-name=" + nodeDisk + ",file=" + nodeImage,
		"-device", device,
		"-drive", "format=raw,if=none,id=mailbox,cache=unsafe,file=" + rig.Escape(mailbox),
		"-device", "nvme,drive=mailbox,serial=mailbox",
	}
}

// judge says what of a report must not be.
func judge(c Cell, r victim.Report) (found []string) {
	claim := func(holds bool, format string, args ...any) {
		if !holds {
			found = append(found, fmt.Sprintf(format, args...))
		}
	}
	claim(r.Backend == c.Store.Backend, "the backend is %s", r.Backend)
	if r.Error == "" {
		claim(false, "no append failed, %d were acknowledged", r.Before)
		return found
	}
	claim(r.Errno != "", "the error names no errno: %s", r.Error)
	claim(r.Poisoned, "the log is not poisoned after: %s", r.Error)
	// A frame that failed is of all logs; what lags is of its own.
	if c.Store.Journal == "require" && c.Fails == victim.Write {
		claim(r.Other, "the other log of the store is not poisoned")
	}
	claim(r.Acknowledged == 0, "%d appends were acknowledged afterwards", r.Acknowledged)
	claim(r.Refused > 0 && r.Odd == 0, "%d appends were refused as poisoned, %d ended otherwise", r.Refused, r.Odd)
	claim(r.File != "", "no operation is known to have failed")
	claim(r.Again == 0, "%d durable writes and flushes of %s after it failed", r.Again, r.File)
	return found
}

func poisonedText(r victim.Report) string {
	switch {
	case r.Other:
		return "poisoned with all of its store"
	case r.Poisoned:
		return "poisoned"
	default:
		return "not poisoned"
	}
}

// lookAt starts a machine with disks that work and reads back what the cells left.
func (o Options) lookAt(ctx context.Context, rows []Row, ledgers []*powercut.Ledger) error {
	b := rig.Boot{Kernel: o.Kernel, Guest: o.Guest, Dir: o.Dir, Name: "diskerror-after", Mode: powercut.ModeImages}
	spec := workload.Spec{Root: dataDir, Appends: appendsAfter}
	for i, row := range rows {
		spec.Images = append(spec.Images, []workload.Store{row.Store})
		b.Disks = append(b.Disks,
			"-drive", fmt.Sprintf("file=%s,format=raw,if=none,id=image%d,cache=unsafe", rig.Escape(o.image(i)), i),
			"-device", fmt.Sprintf("nvme,drive=image%d,serial=image%d", i, i))
		ledgers[i].Start()
	}
	b.Spec = spec
	at, done := -1, 0
	failed, end := b.Run(ctx, rig.Listener{Event: func(_ *vm.Guest, e workload.Event) {
		switch {
		case e.Kind == workload.Image:
			at = int(e.Bound)
		case at < 0:
		case e.Kind == workload.Acked:
			rows[at].Again++
		default:
			if e.Kind == workload.Done {
				done++
			}
			for _, f := range ledgers[at].Take(e) {
				rows[at].Findings = append(rows[at].Findings, f.String())
			}
			rows[at].Records = ledgers[at].Records()
		}
	}})
	if err := errors.Join(failed, end); err != nil {
		return err
	}
	if !anyBad(rows) && done != len(rows) {
		return fmt.Errorf("%d of %d disks were read back", done, len(rows))
	}
	return errors.Join(o.removeImages(rows), b.Clean())
}

// removeImages removes the disks of rows without findings.
func (o Options) removeImages(rows []Row) error {
	var errs []error
	for i, row := range rows {
		if len(row.Findings) == 0 {
			errs = append(errs, os.Remove(o.image(i)))
			continue
		}
		kept := filepath.Join(o.Dir, row.Store.Name+".img")
		errs = append(errs, os.Rename(o.image(i), kept))
		o.progress("%s: %s; the disk is %s", row.Store.Name, strings.Join(row.Findings, "; "), kept)
	}
	return errors.Join(errs...)
}

func anyBad(rows []Row) bool {
	for _, row := range rows {
		if len(row.Findings) > 0 {
			return true
		}
	}
	return false
}
