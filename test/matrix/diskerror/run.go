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
	// Next are appends that were acknowledged after the next start.
	Next int
	// Findings are what must not be.
	Findings []string
}

const (
	diskBytes    = 128 << 20
	mailboxBytes = 1 << 20
	dataDir      = "/data"
	// cellsPerBoot is how many cells one machine has, a disk each.
	cellsPerBoot = 14
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
			if modules, err = rig.VirtioModules(ctx, o.Kernel, o.Dir); err != nil {
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

// runSome runs some cells in one guest, each on a disk of its own, one after the other,
// and then has a second guest look at the disks.
func (o Options) runSome(ctx context.Context, cells []Cell, modules []string) ([]Row, error) {
	s := &suffering{Options: o, cells: cells, mailbox: filepath.Join(o.Dir, "mailbox.img")}
	if err := s.makeDisks(ctx); err != nil {
		return nil, err
	}
	err := s.run(ctx, modules)
	if err != nil || len(s.rows) < len(cells) {
		return s.rows, errors.Join(fmt.Errorf("%d of %d cells came to their end", len(s.rows), len(cells)), err)
	}
	return s.rows, o.lookAt(ctx, s.rows, s.ledgers)
}

func (o Options) image(i int) string { return filepath.Join(o.Dir, fmt.Sprintf("disk%d.img", i)) }

// suffering is one guest whose disks fail one after the other. The cell under way is the
// one behind the rows.
type suffering struct {
	Options
	cells           []Cell
	mailbox, socket string
	ledgers         []*powercut.Ledger
	rows            []Row
	armed           error
}

func (s *suffering) makeDisks(ctx context.Context) error {
	for i, cell := range s.cells {
		if err := vm.MakeDisk(ctx, s.image(i), diskBytes, "ext4", rig.MkfsOptions()...); err != nil {
			return err
		}
		s.ledgers = append(s.ledgers, powercut.NewLedger([]workload.Store{cell.Store}, nil))
	}
	if err := os.WriteFile(s.mailbox, nil, 0o644); err != nil {
		return err
	}
	return os.Truncate(s.mailbox, mailboxBytes)
}

// run is all cells up to the power cut behind the last one.
func (s *suffering) run(ctx context.Context, modules []string) (err error) {
	// The name of a socket has to be short.
	sockets, err := os.MkdirTemp("", "felix")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(sockets)) }()
	s.socket = filepath.Join(sockets, "qmp")
	b := rig.Boot{Kernel: s.Kernel, Guest: s.Guest, Dir: s.Dir, Name: "diskerror", Mode: ModeDiskError, Modules: modules}
	var specs []victim.Spec
	for i, cell := range s.cells {
		specs = append(specs, victim.Spec{
			Root: fmt.Sprintf("%s%d", dataDir, i), Store: cell.Store, Fails: cell.Fails,
			Disk: serial(i), Mailbox: mailboxSerial, MailPosition: mailPosition(i),
		})
		b.Disks = append(b.Disks, disk(cell.Disk, i, s.image(i))...)
	}
	b.Spec = specs
	b.Disks = append(b.Disks,
		"-drive", "format=raw,if=none,id=mailbox,cache=unsafe,file="+vm.Escape(s.mailbox),
		"-device", "nvme,drive=mailbox,serial="+mailboxSerial,
		"-qmp", "unix:"+vm.Escape(s.socket)+",server=on,wait=off")
	failed, end := b.Run(ctx, rig.Listener{Event: s.event, Other: s.line})
	switch {
	case s.armed != nil:
		return fmt.Errorf("making the disk of %s fail: %w", s.cells[len(s.rows)].Store.Name, s.armed)
	case len(s.rows) < len(s.cells):
		return errors.Join(failed, end)
	default:
		return b.Clean()
	}
}

func (s *suffering) event(_ *vm.Guest, e workload.Event) {
	if len(s.rows) < len(s.cells) {
		s.ledgers[len(s.rows)].Take(e)
	}
}

// line arms the disk that a line asks for, and takes a report; power is cut after the
// last one.
func (s *suffering) line(guest *vm.Guest, line string) {
	i := len(s.rows)
	if i == len(s.cells) {
		return
	}
	if a, ok := victim.ParseArm(line); ok {
		if s.armed = s.arm(i, a); s.armed != nil {
			_ = guest.Cut() // there is nothing to wait for; the error is told by run
		}
	}
	report, ok := victim.ParseReport(line)
	if !ok {
		return
	}
	cell := s.cells[i]
	row := Row{Cell: cell, Kernel: s.Kernel.Release, Report: report, Promised: s.ledgers[i].Promised(), Findings: judge(cell, report)}
	s.rows = append(s.rows, row)
	s.progress("%s: %s, %s, %s, %d findings", cell.Store.Name, report.Errno, poisonedText(report), operationText(report), len(row.Findings))
	if len(s.rows) == len(s.cells) {
		_ = guest.Cut() // one that has ended by itself needs no cut
	}
}

// arm makes a disk fail, and then says so in the mailbox.
func (s *suffering) arm(i int, a victim.Arm) error {
	m, err := dialMonitor(s.socket)
	if err != nil {
		return err
	}
	if err := errors.Join(m.fail(i, a.Blocks), m.close()); err != nil {
		return err
	}
	f, err := os.OpenFile(s.mailbox, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(victim.ArmedText), mailPosition(i))
	return errors.Join(err, f.Close())
}

func serial(i int) string { return fmt.Sprintf("data%d", i) }

const mailboxSerial = "mailbox"

func mailPosition(i int) int64 { return int64(i) * blockBytes }

// disk is the emulator's arguments for the disk of a cell.
func disk(kind string, i int, image string) []string {
	device := fmt.Sprintf("nvme,drive=%s,serial=%s", nodeDisk(i), serial(i))
	if kind == Virtio {
		device = fmt.Sprintf("virtio-blk-pci,drive=%s,serial=%s,write-cache=on", nodeDisk(i), serial(i))
	}
	return []string{
		"-blockdev", fmt.Sprintf("driver=file,node-name=%s,cache.no-flush=on,filename=%s", nodeImage(i), vm.Escape(image)),
		"-blockdev", fmt.Sprintf("driver=raw,node-name=%s,file=%s", nodeDisk(i), nodeImage(i)),
		"-device", device,
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
	claim(r.Again == 0, "%d durable writes and flushes of files after one of theirs failed, %s first", r.Again, r.File)
	return found
}

func poisonedText(r victim.Report) string {
	switch {
	case r.Other:
		return "both logs poisoned"
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
			"-drive", fmt.Sprintf("file=%s,format=raw,if=none,id=image%d,cache=unsafe", vm.Escape(o.image(i)), i),
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
			rows[at].Next++
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
	judgeNext(rows)
	return errors.Join(o.removeImages(rows), b.Clean())
}

// judgeNext: a store that was poisoned is as good as any after the next start.
func judgeNext(rows []Row) {
	for i := range rows {
		if rows[i].Next == 0 {
			rows[i].Findings = append(rows[i].Findings, "no append was acknowledged after the next start")
		}
	}
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
