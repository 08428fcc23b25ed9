package corrupt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
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
	// problem says why the verdict is Lost.
	problem error
}

// judgement is an image on trial.
type judgement struct {
	*world
	expectation
	file   *fileTruth
	damage Damage
	disk   *simdisk.Disk
	report recovery.Report
	// held is what reading gave, before it failed with failed.
	held   []segment.Record
	failed error
}

// judge opens an image, reads everything back and says what it is.
func (w *world) judge(f *fileTruth, d Damage) outcome {
	j := &judgement{world: w, expectation: w.expect(f, d), file: f, damage: d, disk: w.image(d)}
	v, err := j.verdict()
	if err == nil && !j.allows(v) {
		err = fmt.Errorf("%v; it has to be one of %v", v, j.verdicts)
	}
	if err == nil && w.o.Each != nil {
		err = w.o.Each(&Image{world: w, Damage: d, Verdict: v, expectation: j.expectation})
	}
	if err != nil {
		return outcome{file: f, damage: d, problem: fmt.Errorf("%s %s, %v: %w", w.format, w.state, d, err)}
	}
	return outcome{file: f, damage: d, verdict: v, dropped: j.report.IntactRecordsDropped}
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
	opened := false
	err := with(j.disk, j.o, func(l *engine.Log) error {
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
		return RefusedAtRead, j.checkNamed(j.failed)
	case len(j.held) == len(j.records):
		return Whole, nil
	}
	v, err := j.shortened()
	if err != nil {
		return Lost, err
	}
	return v, j.goesOn()
}

// pageBytes makes a read of a log take several pages.
const pageBytes = 700

// read gives everything from the log's beginning on, up to the first failure.
func read(l *engine.Log) (held []segment.Record, err error) {
	for at := l.BaseOffset(); at < l.TailOffset(); {
		page, err := l.ReadRange(context.Background(), at, pageBytes)
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
	if len(j.held) > len(j.records) {
		return fmt.Errorf("%d records were read, %d were written", len(j.held), len(j.records))
	}
	for i, r := range j.held {
		if err := same(j.records[i], r); err != nil {
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
		got, err := l.ReadRange(context.Background(), want.Offset, 1)
		switch {
		case err != nil && j.failed == nil:
			return fmt.Errorf("reading at offset %d alone: %w", want.Offset, err)
		case err != nil:
			if err := j.checkNamed(err); err != nil {
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
	for _, part := range []string{label, j.damage.File, fmt.Sprintf("position %d", j.position)} {
		if !strings.Contains(err.Error(), part) {
			return fmt.Errorf("the refusal does not say %q: %w", part, err)
		}
	}
	return j.checkNamed(err)
}

// checkNamed holds that an error carries the place of the damage.
func (j *judgement) checkNamed(err error) error {
	var damage *segment.Corruption
	if !errors.As(err, &damage) {
		return fmt.Errorf("not a corruption: %w", err)
	}
	site, id := damage.Site, j.logs[j.place].id
	if site.Shard != label || !site.HasSegment || site.Segment != id || !site.HasPosition || site.Position != j.position {
		return fmt.Errorf("the error does not name segment %d, position %d: %w", id, j.position, err)
	}
	return nil
}
