package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"felix.local/felix/device"
	"felix.local/felix/fallback"
	"felix.local/felix/recovery"
	"felix.local/felix/segment"
)

// FuzzDump exports one file of arbitrary bytes. With sealed set, the checksums are
// made right first, along the lengths that the records claim. Every byte of the
// file is part of a record that is exported, or of a gap that is named.
func FuzzDump(f *testing.F) {
	small := newSalvageFile(3).rows(3, 6)
	f.Add(small.b, false)
	f.Add(small.b, true)
	f.Add(small.b[:len(small.b)-9], false)
	f.Add(small.b[segment.HeaderSize:], false)
	f.Add(newSalvageFile(0).rows(0, 1).harm(40).b, false)
	f.Add(newSalvageFile(0).rows(0, 1).rows(7, 8).b, false)
	f.Add(make([]byte, 100), false)
	f.Fuzz(func(t *testing.T, b []byte, sealed bool) {
		if b = bytes.Clone(b); sealed {
			seal(b)
		}
		var d dumped
		var read int64
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		d, read = salvaged(t, b)
		runtime.ReadMemStats(&after)
		if bound := readBound(len(b), len(d.gaps)); read > bound {
			t.Fatalf("%d bytes read of a file of %d with %d gaps, %d are allowed", read, len(b), len(d.gaps), bound)
		}
		checkAllocated(t, after.TotalAlloc-before.TotalAlloc, len(b), d)
		checkCovered(t, b, d)
	})
}

// checkAllocated holds that a dump takes two windows for each gap, no larger than
// the file, and for what it prints a few times that. Nothing stands in memory
// because of a length that a damaged record claims.
func checkAllocated(t *testing.T, got uint64, size int, d dumped) {
	t.Helper()
	const slack, perEvent, times, window = 128 << 10, 2 << 10, 64, 4 << 10
	perGap := 4 * max(window, min(segment.DefaultBufferBytes, size+segment.HeaderSize))
	bound := uint64(slack + perEvent*(len(d.records)+len(d.gaps)) + times*size + perGap*(len(d.gaps)+2))
	if got > bound {
		t.Fatalf("%d bytes allocated for a file of %d with %d records and %d gaps, %d are allowed", got, size, len(d.records), len(d.gaps), bound)
	}
}

// checkCovered walks the file along what was printed.
func checkCovered(t *testing.T, b []byte, d dumped) {
	t.Helper()
	at := int64(segment.HeaderSize)
	if _, err := segment.DecodeHeader(b); err != nil {
		at = 0 // the header is passed over by a gap, or there is none
	}
	last, any := uint64(0), false
	for _, e := range d.order {
		switch e := e.(type) {
		case *gapEvent:
			if e.Position != at || e.End < at {
				t.Fatalf("position %d is reached, and there is a gap from %d to %d", at, e.Position, e.End)
			}
			at = e.End
		case *recordEvent:
			r, n, err := segment.DecodeRecord(b[at:])
			if err != nil || r.Offset != e.Offset || !bytes.Equal(r.Payload, e.Payload) || r.Mark.Kind.String() != e.Kind {
				t.Fatalf("at position %d is %+v, %v, and %+v was exported", at, r, err, e)
			}
			if any && e.Offset <= last {
				t.Fatalf("offset %d was exported behind %d", e.Offset, last)
			}
			if any && e.Offset != last+1 && !d.named(last+1) {
				t.Fatalf("offsets from %d to %d are neither exported nor named", last+1, e.Offset)
			}
			last, any = e.Offset, true
			at += int64(n)
		}
	}
	if at != int64(len(b)) {
		t.Fatalf("the file ends at %d, what was printed at %d", len(b), at)
	}
}

// seal makes the checksums of a segment right, along the lengths that its records
// claim.
func seal(b []byte) {
	if len(b) < segment.HeaderSize {
		return
	}
	binary.BigEndian.PutUint32(b[24:], crc32.ChecksumIEEE(b[:24]))
	for b = b[segment.HeaderSize:]; len(b) >= segment.RecordHeaderSize; {
		binary.BigEndian.PutUint32(b[20:], crc32.ChecksumIEEE(b[:20]))
		h, err := segment.DecodeRecordHeader(b)
		if err != nil || h.Size() > int64(len(b)) {
			return
		}
		sum := crc32.Update(crc32.ChecksumIEEE(b[:24]), crc32.IEEETable, b[segment.RecordHeaderSize:h.Size()])
		binary.BigEndian.PutUint32(b[24:], sum)
		b = b[h.Size():]
	}
}

// FuzzInspect inspects a directory of two segments, an index and a mark that hold
// arbitrary bytes, and then opens it: inspect changes nothing, prints JSON, and its
// exit code says what opening does. Dumping it ends, too.
func FuzzInspect(f *testing.F) {
	one, two := newSalvageFile(0).add(0, []byte("a")).add(1, nil).b, newSalvageFile(2).add(2, []byte("b")).b
	whole := recovery.Mark{Segment: 1, Synced: int64(len(two))}.AppendTo(nil)
	f.Add(one, two, []byte{}, whole)
	f.Add(one, two[:40], []byte{}, []byte{})
	f.Add(one[:50], two, []byte{}, recovery.Mark{Synced: 32}.AppendTo(nil))
	f.Add([]byte{}, two, segment.AppendIndexHeader(nil, 0), whole)
	queue := fallback.Open(fallback.Options{Workers: 1})
	f.Cleanup(func() { queue.Close() })
	f.Fuzz(func(t *testing.T, first, second, index, mark []byte) {
		files := map[string][]byte{segment.LogName(0): first, segment.LogName(1): second, segment.IndexName(0): index, recovery.MarkName: mark}
		dir := memoryDir(t)
		for name, b := range files {
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o640); err != nil {
				t.Fatal(err)
			}
		}
		code, stdout, stderr := inProcess(&inspectCommand{Dir: dir, Segments: true})
		for line := range strings.Lines(stdout) {
			if !json.Valid([]byte(line)) {
				t.Fatalf("not JSON: %s", line)
			}
		}
		if _, err := directoryGaps(dir); err != nil {
			t.Fatal(err)
		}
		for name, b := range files {
			if now, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(now, b) {
				t.Fatalf("%s was changed by reading: %v", name, err)
			}
		}
		r, err := recovery.Open(recovery.Disk{FS: device.OS(), Queue: queue}, dir, "log", recovery.Policy{})
		var refused *recovery.RefusedError
		want := exitOK
		switch {
		case errors.As(err, &refused):
			want = exitRefused
		case err != nil:
			t.Fatal(err)
		case slices.ContainsFunc(r.Report.Steps, recovery.Step.Repair):
			want = exitRepairs
		}
		if code != want {
			t.Fatalf("inspect exits with %d, and opening gave %v, %+v:\n%s%s", code, err, r, stdout, stderr)
		}
	})
}

// directoryGaps dumps a directory, skipping damage. Its exit code and its gaps
// agree.
func directoryGaps(dir string) (gaps int, err error) {
	code, stdout, stderr := inProcess(&dumpCommand{Path: dir, To: ^uint64(0), SkipDamaged: true})
	d, err := parseDump(stdout)
	if err == nil && code != exitOK && code != exitGaps || (code == exitGaps) != (len(d.gaps) > 0) {
		err = fmt.Errorf("dump exits with %d and %d gaps: %s", code, len(d.gaps), stderr)
	}
	return len(d.gaps), err
}
