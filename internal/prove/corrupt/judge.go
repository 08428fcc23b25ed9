package corrupt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"felix.local/felix/engine"
	"felix.local/felix/internal/simdisk"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

// outcome is one image's verdict.
type outcome struct {
	file    *fileTruth
	damage  Damage
	verdict Verdict
	// dropped is the number of intact records that a cut took along.
	dropped uint64
	// cut is the number of bytes that were cut off, and copies that of the side
	// copies made.
	cut    int64
	copies int
	// failure says why the verdict is Lost.
	failure *Failure
}

// judgement is an image on trial.
type judgement struct {
	*world
	expectation
	file   *fileTruth
	damage Damage
	disk   *simdisk.Disk
	// before are the indexes as the damage left them.
	before [][]byte
	report recovery.Report
	// held is what reading gave, before it failed with failed.
	held   []segment.Record
	failed error
}

// judge opens an image, reads everything back and says what it is.
func (w *world) judge(d Damage) outcome {
	f, _ := w.file(d.File)
	j := &judgement{world: w, expectation: w.expect(f, d), file: f, damage: d, disk: w.image(d)}
	v, err := j.verdict()
	if err == nil && v != j.want {
		err = fmt.Errorf("%v; it has to be %v", v, j.want)
	}
	if err == nil && w.o.Each != nil {
		err = w.o.Each(&Image{world: w, Damage: d, Verdict: v, expectation: j.expectation})
	}
	if err != nil {
		return outcome{file: f, damage: d, failure: &Failure{w.caseOf(d), err}}
	}
	return outcome{
		file: f, damage: d, verdict: v, dropped: j.report.IntactRecordsDropped, cut: j.report.TruncatedBytes, copies: len(j.report.SideCopies),
	}
}

// image is a copy of the disk with the damage done. That cannot fail on a disk in
// memory.
func (w *world) image(d Damage) *simdisk.Disk {
	disk := w.disk.Crash(simdisk.CrashOptions{Kind: simdisk.ProcessDeath})
	err := d.apply(disk)
	if err == nil && w.sabotage != nil {
		err = w.sabotage(disk)
	}
	if err != nil {
		panic(fmt.Sprintf("corrupt: %v: %v", d, err))
	}
	return disk
}

func (j *judgement) verdict() (Verdict, error) {
	before := j.disk.Digest()
	var err error
	if j.before, err = j.indexes(j.disk); err != nil {
		return Lost, err
	}
	opened := false
	err = with(j.disk, j.o, func(l *engine.Log) error {
		opened = true
		j.report = l.Recovery()
		j.held, j.failed = read(l)
		if err := j.prefix(); err != nil {
			return err
		}
		return j.single(l)
	})
	switch {
	case !opened:
		if j.disk.Digest() != before {
			return Lost, fmt.Errorf("a refusal changed the directory: %w", err)
		}
		return RefusedAtOpen, j.checkRefused(err)
	case err != nil:
		return Lost, err
	case j.failed != nil:
		return RefusedAtRead, j.checkNamed(j.failed, j.position)
	case len(j.held) == len(j.records):
		return Whole, j.checkUntouched()
	}
	v, err := j.shortened()
	if err != nil {
		return Lost, err
	}
	return v, j.goesOn()
}

// readBytes makes a read of a log take several pages.
const readBytes = 700

// read gives everything from the log's beginning on, up to the first failure.
func read(l *engine.Log) (held []segment.Record, err error) {
	for at := l.BaseOffset(); at < l.TailOffset(); {
		page, err := l.ReadStored(context.Background(), at, readBytes, engine.DefaultMaxRecordsPerRead)
		if err != nil {
			return held, err
		}
		if len(page) == 0 {
			return held, fmt.Errorf("nothing is read at offset %d, and the tail is %d", at, l.TailOffset())
		}
		held = append(held, page...)
		at += uint64(len(page))
	}
	return held, nil
}

// prefix holds that what was read is what was written.
func (j *judgement) prefix() error {
	written := j.records[j.from:]
	if len(j.held) > len(written) {
		return fmt.Errorf("%d records were read, %d were written", len(j.held), len(written))
	}
	for i, r := range j.held {
		if err := same(written[i], r); err != nil {
			return err
		}
	}
	return nil
}

func same(want, got segment.Record) error {
	if want.Offset != got.Offset || want.TimestampMicros != got.TimestampMicros || want.Mark != got.Mark ||
		want.Checksum != got.Checksum || !bytes.Equal(want.Payload, got.Payload) {
		return fmt.Errorf("the record %+v was read as %+v", want, got)
	}
	return nil
}

// single reads from every offset by itself, where damage may lie on the way
// there: each read gives the right record or fails.
func (j *judgement) single(l *engine.Log) error {
	if j.failed == nil && j.file.kind != indexFile {
		return nil
	}
	for _, want := range j.records {
		got, err := l.ReadStored(context.Background(), want.Offset, 1, 1000)
		switch {
		case err != nil && j.failed == nil:
			return fmt.Errorf("reading at offset %d alone: %w", want.Offset, err)
		case err != nil:
			// From an entry of the index on, another record that was hit may come
			// first.
			if err := j.checkNamed(err, j.hit...); err != nil {
				return err
			}
		case len(got) == 0:
			return fmt.Errorf("reading at offset %d gives nothing", want.Offset)
		default:
			if err := same(want, got[0]); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkRefused holds that the refusal says where the damage is.
func (j *judgement) checkRefused(err error) error {
	var refused *recovery.RefusedError
	if !errors.As(err, &refused) {
		return fmt.Errorf("not opened, and not by a refusal: %w", err)
	}
	first := refused.Refusals[0]
	t := j.logs[j.place]
	if first.Segment != t.id || first.Position != j.position || first.File != filepath.Join(dir, segment.LogName(t.id)) {
		return fmt.Errorf("the refusal names segment %d, position %d and not segment %d, position %d: %w",
			first.Segment, first.Position, t.id, j.position, err)
	}
	parts := []string{label, segment.LogName(t.id), fmt.Sprintf("position %d", j.position)}
	if !j.damage.Kind.ofFiles() {
		parts = append(parts, j.damage.File)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			return fmt.Errorf("the refusal does not say %q: %w", part, err)
		}
	}
	return j.checkNamed(err, j.position)
}

// checkUntouched holds that a log which kept every record lost no byte either, and
// has its indexes again.
func (j *judgement) checkUntouched() error {
	if r := j.report; r.TruncatedBytes != 0 || r.IntactRecordsDropped != 0 || len(r.SideCopies) != 0 {
		return fmt.Errorf("every record is there, and recovery reports %d bytes cut, %d records dropped and the side copies %q",
			r.TruncatedBytes, r.IntactRecordsDropped, r.SideCopies)
	}
	return j.checkIndexes()
}

// checkNamed holds that an error carries the place of the damage, which is one of
// the positions.
func (j *judgement) checkNamed(err error, positions ...int64) error {
	var damage *segment.Corruption
	if !errors.As(err, &damage) {
		return fmt.Errorf("not a corruption: %w", err)
	}
	site, id := damage.Site, j.logs[j.place].id
	if site.Shard != label || !site.HasSegment || site.Segment != id || !site.HasPosition || !slices.Contains(positions, site.Position) {
		return fmt.Errorf("the error does not name segment %d, position %d: %w", id, positions, err)
	}
	return nil
}
