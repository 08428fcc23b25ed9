package main

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"
	"unicode/utf8"

	"felix.local/felix/device"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

type dumpCommand struct {
	Path        string `arg:"" type:"path" help:"a shard directory, or one segment file or side copy"`
	From        uint64 `name:"from" default:"0" placeholder:"OFFSET" help:"first offset to print"`
	To          uint64 `name:"to" default:"${offset_max}" placeholder:"OFFSET" help:"last offset to print; the default is the last one there is"`
	SkipDamaged bool   `name:"skip-damaged" help:"print everything readable, name each gap, and exit 4 if there is one"`
	outputFlags
}

// recordEvent is one record.
type recordEvent struct {
	Offset          uint64 `json:"offset"`
	TimestampMicros uint64 `json:"timestamp_micros"`
	Kind            string `json:"kind"`
	Producer        uint64 `json:"producer,omitempty"`
	Sequence        uint64 `json:"sequence,omitempty"`
	BatchLen        uint32 `json:"batch_len,omitempty"`
	// Payload is base64 in JSON; Text is the same where it is valid UTF-8.
	Payload []byte  `json:"payload"`
	Text    *string `json:"text,omitempty"`
}

func (recordEvent) kind() string { return "record" }

// textBytesMax is how much of a payload people are shown.
const textBytesMax = 160

func (e recordEvent) text() string {
	shown, cut := e.Payload, ""
	if len(shown) > textBytesMax {
		shown, cut = shown[:textBytesMax], " …"
	}
	payload := strconv.QuoteToGraphic(string(shown))
	tag := ""
	if e.Kind == segment.BatchOpen.String() {
		tag = fmt.Sprintf(" producer %d sequence %d batch of %d", e.Producer, e.Sequence, e.BatchLen)
	}
	return fmt.Sprintf("%d  %s  %s%s  %d bytes  %s%s", e.Offset,
		time.UnixMicro(int64(e.TimestampMicros)).UTC().Format("2006-01-02T15:04:05.000000Z"),
		e.Kind, tag, len(e.Payload), payload, cut)
}

// gapEvent names what could not be exported.
type gapEvent struct {
	File string `json:"file"`
	// Position and End are the bytes passed over; equal when whole offsets are
	// missing between intact records.
	Position int64 `json:"position"`
	End      int64 `json:"end"`
	// OffsetExpected belongs at Position. OffsetNext is that of the record the
	// export goes on with; absent when there is none in this file.
	OffsetExpected uint64  `json:"offset_expected"`
	OffsetNext     *uint64 `json:"offset_next,omitempty"`
	Reason         string  `json:"reason"`
}

func (gapEvent) kind() string { return "gap" }

func (e gapEvent) text() string {
	resume := "nothing readable follows in this file"
	if e.OffsetNext != nil {
		resume = fmt.Sprintf("goes on with offset %d", *e.OffsetNext)
	}
	return fmt.Sprintf("gap in %s, bytes %d to %d, at offset %d: %s; %s",
		e.File, e.Position, e.End, e.OffsetExpected, e.Reason, resume)
}

// dumpedEvent ends a JSON dump.
type dumpedEvent struct {
	Records uint64 `json:"records"`
	Gaps    int    `json:"gaps"`
	// BytesInJournal were acknowledged, belong to what was asked for, and are in the
	// commit journal alone. How many is unknown when JournalRefused says that it would
	// not be replayed.
	BytesInJournal int64 `json:"bytes_in_journal"`
	JournalRefused bool  `json:"journal_refused,omitempty"`
}

func (dumpedEvent) kind() string { return "dumped" }

func (dumpedEvent) text() string { return "" }

func (c *dumpCommand) Run(a *app) error {
	if c.From > c.To {
		return usage("--from %d is past --to %d", c.From, c.To)
	}
	buffered := bufio.NewWriter(a.stdout)
	d := &dump{dumpCommand: c, app: a, out: a.output(c.outputFlags)}
	d.out.w = buffered
	err := d.run()
	if flushErr := buffered.Flush(); err == nil || flushErr != nil {
		err = errors.Join(err, flushErr)
	}
	if err != nil {
		return err
	}
	return d.judge()
}

// dump is one run.
type dump struct {
	*dumpCommand
	app     *app
	out     *output
	records uint64
	gaps    int
	// pending is what the commit journal held of the shard when the dump began that
	// its segments lacked; nil for nothing.
	pending *journalPending
	// reached says that the last offset asked for, or one past it, was met.
	reached bool
}

func (d *dump) run() error {
	info, err := os.Stat(d.Path)
	switch {
	case isAbsent(err):
		return fmt.Errorf("no log in %s: there is no such file or directory", d.Path)
	case err != nil:
		return err
	}
	files := []dumpFile{{path: d.Path, size: -1}}
	if info.IsDir() {
		if err := needLog(d.Path); err != nil {
			return err
		}
		d.app.warnIfInUse(d.Path)
		if d.pending, err = d.app.warnIfPending(d.Path); err != nil {
			return err
		}
		if files, err = d.directory(); err != nil {
			return err
		}
	} else {
		d.app.warnIfInUse(filepath.Dir(d.Path))
		if d.pending, err = d.app.warnIfPending(filepath.Dir(d.Path)); err != nil {
			return err
		}
		d.pending = d.pending.ofFile(filepath.Base(d.Path))
	}
	if err := d.export(files); err != nil {
		return err
	}
	bytes, refused := d.notThere()
	return d.out.emit(dumpedEvent{Records: d.records, Gaps: d.gaps, BytesInJournal: bytes, JournalRefused: refused})
}

// notThere is how much of what was asked for the commit journal alone holds. Nothing is
// lacking in front of a record that no gap was met on the way to.
func (d *dump) notThere() (bytes int64, refused bool) {
	if d.pending == nil || d.reached && d.gaps == 0 {
		return 0, false
	}
	for _, s := range d.pending.Segments {
		if s.Last >= d.From {
			bytes += s.Missing()
		}
	}
	return bytes, d.pending.Refused
}

// judge says that what was exported is not all there is. Acknowledged records in the
// journal are what verify refuses the shard for, and count for more than gaps.
func (d *dump) judge() error {
	said, code := fmt.Sprintf("%d records exported", d.records), exitOK
	if d.gaps > 0 {
		said, code = said+fmt.Sprintf("; %d gaps, named above", d.gaps), exitGaps
	}
	switch bytes, refused := d.notThere(); {
	case refused:
		said, code = said+fmt.Sprintf("; the commit journal of %s may hold more, and would not be replayed: felixd log inspect %[1]s", d.pending.Root), exitRefused
	case bytes > 0:
		said, code = said+fmt.Sprintf("; %d bytes of acknowledged records are in the commit journal of %s alone: felixd log replay --dir %[2]s",
			bytes, d.pending.Root), exitRefused
	}
	if code == exitOK {
		return nil
	}
	return &exitError{code: code, err: errors.New(said)}
}

// dumpFile is a segment file to print; size is how many bytes of it count, -1
// for all.
type dumpFile struct {
	path string
	size int64
}

// directory lists the files of a log: what opening would make of it, or, when
// damage is to be skipped, every segment whole.
func (d *dump) directory() ([]dumpFile, error) {
	snapshot, err := recovery.Inspect(device.OS(), d.Path, filepath.Base(d.Path), recovery.Policy{})
	if err != nil {
		return nil, err
	}
	var files []dumpFile
	if d.SkipDamaged {
		for _, facts := range snapshot.Segments {
			files = append(files, dumpFile{filepath.Join(d.Path, segment.LogName(facts.ID)), -1})
		}
		return files, nil
	}
	plan := recovery.Decide(snapshot, recovery.Policy{})
	if plan.Refused() {
		return nil, &exitError{code: exitRefused, err: fmt.Errorf(
			"the log would be refused: %s; --skip-damaged exports what is readable", plan.Refusals[0])}
	}
	for _, step := range plan.Steps {
		if step.Repair() {
			fmt.Fprintln(d.app.stderr, "felixd: warning: opening would repair:", step)
		}
	}
	sizes := make(map[uint64]int64)
	for _, s := range plan.Sealed {
		sizes[s.ID] = s.Size
	}
	sizes[plan.Active.ID] = plan.Active.Size
	for _, facts := range snapshot.Segments {
		if size, stays := sizes[facts.ID]; stays {
			files = append(files, dumpFile{filepath.Join(d.Path, segment.LogName(facts.ID)), size})
		}
	}
	return files, nil
}

// emitRecord is where a long dump notices that it is to end.
func (d *dump) emitRecord(r segment.Record) error {
	if err := d.app.ctx.Err(); err != nil {
		return err
	}
	d.reached = d.reached || r.Offset >= d.To
	if r.Offset < d.From || r.Offset > d.To {
		return nil
	}
	d.records++
	e := recordEvent{
		Offset: r.Offset, TimestampMicros: r.TimestampMicros, Kind: r.Mark.Kind.String(),
		Producer: r.Mark.Producer, Sequence: r.Mark.Sequence, BatchLen: r.Mark.Len, Payload: r.Payload,
	}
	if utf8.Valid(r.Payload) {
		text := string(r.Payload)
		e.Text = &text
	}
	return d.out.emit(e)
}

// emitGap reports a gap to programs among the records and to people on standard error.
func (d *dump) emitGap(g gapEvent) error {
	if err := d.app.ctx.Err(); err != nil {
		return err
	}
	before := g.OffsetNext != nil && *g.OffsetNext <= d.From && d.From > 0
	if before || g.OffsetExpected > d.To {
		return nil
	}
	d.gaps++
	fmt.Fprintln(d.app.stderr, "felixd:", g.text())
	if !d.out.json {
		return nil
	}
	return d.out.emit(g)
}

// offsetMax is the largest offset, as text for the grammar.
func offsetMax() string { return strconv.FormatUint(math.MaxUint64, 10) }
